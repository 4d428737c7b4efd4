"""Pages that interrupt a sign-in, old links, and links that two people follow: how each continues. D8, D16, D24."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.contrib.sessions.exceptions import SessionInterrupted
from django.test import Client
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import attempts, counts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.consent import consents
from oauth_bridge.consent.account_pages import stored_about
from oauth_bridge.consent.pending_request import PendingRequest
from oauth_bridge.models import AuthorizationCode
from tests.factories import PersonFactory, Registered
from tests.grants import PAGE, answer, link_of
from tests.pages import html_of, mailed_code, sign_in, with_session

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def link(application: Registered) -> str:
    return link_of(application, state="s")


def onward(link: str) -> str:
    """The link behind the sign-in page, with the pending request."""
    return parse_qs(urlsplit(Client().get(link, headers=PAGE)["Location"]).query)["next"][0]


def opened(browser: Client, link: str) -> str:
    return html_of(browser.get(link, headers=PAGE, follow=True))


def test_a_person_with_an_unconfirmed_address_is_mailed_a_code_and_comes_back(link: str) -> None:
    browser = with_session(PersonFactory(email_verified_at=None))
    stopped = browser.get(link, headers=PAGE)
    assert stopped.status_code == 403
    assert "not confirmed" in html_of(stopped)
    assert not AuthorizationCode.objects.exists()

    send = re.search(r'action="(/accounts/confirm-email/send[^"]+)"', html_of(stopped))
    assert send
    typed = browser.post(unescape(send[1]), follow=True)
    page = browser.post(typed.redirect_chain[-1][0], {"code": mailed_code()}, headers=PAGE, follow=True)
    assert "asks who you are" in html_of(page)


def test_a_late_answer_does_not_use_the_consent_of_the_person_who_is_signed_in_now(
    client: Client, alice: User, application: Registered, link: str
) -> None:
    """The page was Alice's; Bob, who has remembered the application, is signed in when it is posted."""
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
    led = answer(browser, page)
    assert led.status_code == 303
    assert led["Location"].startswith("/oauth/authorize?pending=")


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


def pending_of(url: str) -> PendingRequest:
    """Of the sign-in page, or of a link to authorize."""
    query = parse_qs(urlsplit(url).query)
    pending = PendingRequest.of_path(query["next"][0] if "next" in query else url)
    assert pending
    return pending


def opened_later(seconds: int, page: str, browser: Client) -> tuple[Any, PendingRequest]:
    """The page where somebody arrives who opens it after so many seconds, and its pending request."""
    with time_machine.travel(timezone.now().timestamp() + seconds, tick=False):
        found = browser.get(page, headers=PAGE, follow=True)
    urls = [url for url, _status in found.redirect_chain] or [page]
    return found, pending_of(urls[-1])


@pytest.mark.parametrize(("seconds", "is_new"), [(HOUR - 60, False), (HOUR + 60, True)])
def test_a_bookmarked_sign_in_page_begins_a_new_attempt_after_an_hour(link: str, seconds: int, is_new: bool) -> None:
    page = Client().get(link, headers=PAGE)["Location"]
    before = pending_of(page)
    found, after = opened_later(seconds, page, Client())
    assert found.status_code == 200
    assert found.context["form"]
    assert (after.attempt != before.attempt) is is_new
    assert after.renews == (before.attempt if is_new else "")
    assert (after.parameters, after.state) == (before.parameters, before.state)


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_an_old_link_leads_on_with_its_notice_until_its_attempt_is_done(
    alice: User, link: str, is_signed_in: bool
) -> None:
    browser, old, seconds = with_session(alice), onward(link), 2 * HOUR
    found, renewed = opened_later(seconds, f"{old}&notice=1", browser)
    assert renewed.renews == pending_of(old).attempt
    assert found.context["notice"]
    assert "Allow" in html_of(found)
    answer(browser, opened(browser, old))
    AuthorizationCode.objects.update(redeemed_at=timezone.now())
    if not is_signed_in:
        browser = Client()
        renewed = opened_later(seconds, old, browser)[1]
        browser.force_login(alice)
        old, seconds = f"/oauth/authorize?pending={renewed.seal()}", 0
    assert "You already signed in" in html_of(opened_later(seconds, old, browser)[0])


def test_two_people_who_open_one_link_have_an_attempt_each(
    alice: User, mallory: User, application: Registered, link: str
) -> None:
    query = f"?{urlsplit(Client().get(link, headers=PAGE)['Location']).query}"
    sign_in(Client(), alice.email, "wrong", query=query)
    (alone,) = attempts.attempts(Filters(person_id=alice.pk))
    sign_in(Client(), "nobody@example.com", "wrong", query=query)
    (joined,) = attempts.attempts(Filters(person_id=alice.pk))
    assert (len(alone.events), len(joined.events)) == (1, 2)
    sign_in(Client(), mallory.email, "wrong", query=query)
    sign_in(Client(), mallory.email, query=query)
    counts.flush()
    for person, number in ((alice, 1), (mallory, 2)):
        (found,) = attempts.attempts(Filters(person_id=person.pk))
        assert [event.person_id for event in found.events] == [person.pk] * number
    everybody = attempts.attempts(Filters(client_id=application.client_id))
    numbers = {(each.person_id, len(each.events)) for each in everybody}
    assert numbers == {(alice.pk, 1), (mallory.pk, 2), (None, 1)}
    exported = stored_about(mallory, 100)["activity"]
    assert [entry["outcome"] for entry in exported] == ["succeeded", "refused"]
