"""Pages that interrupt a sign-in, and links that two people follow: how each continues. D8, D16, D24."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.sessions.exceptions import SessionInterrupted
from django.test import Client

from accounts.models import User
from oauth_bridge.activity import attempts, counts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.consent import consents
from oauth_bridge.consent.pages import stored_about
from oauth_bridge.models import AuthorizationCode
from tests.factories import PersonFactory, Registered
from tests.grants import PAGE, answer, link_of
from tests.pages import html_of, sign_in, with_session

pytestmark = pytest.mark.django_db


@pytest.fixture
def link(application: Registered) -> str:
    return link_of(application, state="s")


def onward(link: str) -> str:
    """The link behind the sign-in page, with the pending request."""
    return parse_qs(urlsplit(Client().get(link, headers=PAGE)["Location"]).query)["next"][0]


def opened(browser: Client, link: str) -> str:
    return html_of(browser.get(link, headers=PAGE, follow=True))


def test_a_late_answer_does_not_use_the_consent_of_the_person_who_is_signed_in_now(
    client: Client, alice: User, application: Registered, link: str
) -> None:
    bob = PersonFactory(nickname="Bob")
    consents.remember(bob, application.row)
    client.force_login(alice)
    page = opened(client, link)
    client.force_login(bob)
    asked = opened(client, answer(client, page)["Location"])
    assert f"Continue to <bdi>{application.row.name}</bdi> as <bdi>Bob</bdi>?" in asked
    refused = answer(client, page, "refuse")
    assert refused["Location"].startswith(f"{application.redirect_uri}?error=access_denied")
    assert not AuthorizationCode.objects.exists()


def test_a_post_leads_on_when_another_tab_has_signed_out_meanwhile(
    alice: User, link: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **_named: object) -> None:
        raise SessionInterrupted

    browser = with_session(alice)
    page = opened(browser, link)
    monkeypatch.setattr("oauth_bridge.backend.codes.issue", interrupted)
    assert answer(browser, page)["Location"].startswith("/oauth/authorize?pending=")


def test_a_link_of_ours_is_sent_once_and_takes_unknown_parameters(
    alice: User, application: Registered, link: str
) -> None:
    browser, sealed = with_session(alice), onward(link)
    for more in ("", "&utm_source=1&utm_source=2", "&client_id=x&client_id=y"):
        assert "asks who you are" in opened(browser, sealed + more)
    callback = re.search(r'content="0; url=([^"]+)"', opened(browser, f"{sealed}&pending=other"))
    assert callback
    assert callback[1].startswith(f"{application.redirect_uri}?error=invalid_request")
    assert callback[1].endswith("&amp;state=s")


def test_two_people_who_open_one_link_have_an_attempt_each(
    alice: User, mallory: User, application: Registered, link: str
) -> None:
    query = f"?{urlsplit(Client().get(link, headers=PAGE)['Location']).query}"

    def events() -> set[tuple[Any, int]]:
        counts.flush()
        found = attempts.attempts(Filters(client_id=application.client_id))
        return {(each.person_id, len(each.events)) for each in found}

    for email in (alice.email, "nobody@example.com"):
        sign_in(Client(), email, "wrong", query=query)
    assert events() == {(alice.pk, 2)}, "the unknown address is part of the only person's attempt"
    sign_in(Client(), mallory.email, "wrong", query=query)
    sign_in(Client(), mallory.email, query=query)
    assert events() == {(alice.pk, 1), (mallory.pk, 2), (None, 1)}
    assert [entry["outcome"] for entry in stored_about(mallory, 100)["activity"]] == ["succeeded", "refused"]
