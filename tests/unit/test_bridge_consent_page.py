"""The consent page says who asks, what it receives and where the person goes next. D7, D16."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import escape, unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone

from oauth_bridge.consent import remembered
from oauth_bridge.models import Application
from oauth_bridge.protocol.claims import values as claims_of
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory, Registered
from tests.pages import text_of, with_session

PAGE = {"HTTP_ACCEPT": "text/html"}
NATIVE = "com.example.app:/callback"


@pytest.fixture
def alice(db: None) -> Any:
    return PersonFactory(nickname="Ada Lovelace")


@pytest.fixture
def application(db: None) -> Registered:
    registered: Registered = ApplicationFactory(name="Reading List", homepage="https://reading.example/")
    return registered


def opened(person: Any, application: Registered, **more: str) -> str:
    client = with_session(person)
    link = f"/oauth/authorize?client_id={application.client_id}&redirect_uri={application.redirect_uri}"
    address = client.get(f"{link}&response_type=code&state=s&{urlencode(more)}", **PAGE)["Location"]
    return client.get(f"{address}&{urlencode(more)}", **PAGE).content.decode()


def allowed_once(person: Any, application: Registered) -> None:
    """The consent is no longer remembered, so the person is asked."""
    fingerprint = remembered.fingerprint(application.row)
    ConsentFactory(user=person, application=application.row, fingerprint=fingerprint, expires_at=timezone.now())


def test_it_shows_each_value_once_as_the_application_receives_it(alice: Any, application: Registered) -> None:
    facts = opened(alice, application).split("<dl", 1)[1].split("</dl>")[0]
    shown = re.findall(r'(?:src="|<bdi>|<code>)([^"<]*)["<]', unescape(facts))
    claims = claims_of(alice)
    assert shown == [claims[name] for name in ("avatar", "nickname", "email", "sub")]


def test_the_time_of_the_last_change_is_shown_alone_where_nothing_else_is_asked_for(application: Registered) -> None:
    person = PersonFactory(nickname="Alice Ægir")
    asked = {"scope": "openid", "claims": json.dumps({"userinfo": {"updated_at": None}})}
    facts = opened(person, application, **asked).split("<dl", 1)[1].split("</dl>")[0]
    assert "Last change of your profile" in facts
    assert str(person.profile_changed_at.year) in facts
    assert person.nickname not in facts
    profile = opened(person, application, scope="openid profile")
    assert "Last change of your profile" not in profile
    assert person.nickname in profile
    person.profile_changed_at = None
    person.save()
    assert "Last change" not in opened(person, application, **asked)


def test_that_the_address_is_confirmed_is_shown_without_the_address_where_no_more_is_asked_for(
    alice: Any, application: Registered
) -> None:
    asked = {"scope": "openid", "claims": json.dumps({"userinfo": {"email_verified": None}})}
    page = opened(alice, application, **asked)
    assert "E-mail address Only that it is confirmed" in text_of(page)
    assert alice.email not in page
    both = opened(alice, application, scope="openid email")
    assert alice.email in both
    assert "E-mail address Only that it is confirmed" not in text_of(both)
    allowed_once(alice, application)  # the address
    assert "Continue to Reading List" in text_of(opened(alice, application, **asked))


def test_a_missing_nickname_is_said_to_be_missing_beside_the_name_that_is_sent(application: Registered) -> None:
    person = PersonFactory(nickname="")
    page = text_of(opened(person, application))
    assert f"Nickname {person.display_name} You have no nickname, so this name is sent." in page


def test_a_person_who_has_allowed_it_before_is_asked_shortly(alice: Any, application: Registered) -> None:
    assert "Reading List asks who you are" in text_of(opened(alice, application))
    allowed_once(alice, application)
    page = text_of(opened(alice, application))
    assert "Continue to Reading List as Ada ?" in page
    assert "Refuse Continue as Ada" in page
    assert str(alice.pk) in page


@pytest.mark.parametrize("nickname", ["", "Wolfeschlegelsteinhausen", "  "])
def test_without_a_short_name_the_button_says_continue(application: Registered, nickname: str) -> None:
    person = PersonFactory(nickname=nickname)
    allowed_once(person, application)
    page = text_of(opened(person, application))
    assert "Continue to Reading List ?" in page
    assert "Refuse Continue Applications never see your password. Language" in page


def test_what_mallory_allowed_and_what_another_application_got_shortens_nothing(
    alice: Any, application: Registered
) -> None:
    allowed_once(PersonFactory(), application)
    allowed_once(alice, ApplicationFactory())
    assert not remembered.has_allowed_before(alice, application.row)


def test_the_full_page_is_back_when_the_application_has_changed(alice: Any, application: Registered) -> None:
    allowed_once(alice, application)
    assert remembered.has_allowed_before(alice, application.row)
    application.row.name = "Reading List Pro"
    application.row.save()
    assert not remembered.has_allowed_before(alice, application.row)
    assert "Reading List Pro asks who you are" in text_of(opened(alice, application))


def registered_ago(application: Registered, **age: float) -> None:
    Application.objects.filter(pk=application.row.pk).update(created=timezone.now() - timedelta(**age))


DETAILS = {
    "operator": "Reading <Ltd>",
    "policy_uri": "https://reading.example/privacy?a=1&b=2",
    "tos_uri": "https://reading.example/terms",
}


@pytest.mark.parametrize("again", [False, True], ids=["the full page", "the shorter page"])
def test_its_operator_its_policy_and_its_terms_are_named(alice: Any, again: bool) -> None:
    application = ApplicationFactory(name="Reading List", **DETAILS)
    if again:
        allowed_once(alice, application)
    page = opened(alice, application)
    assert ("Continue to Reading List" in text_of(page)) is again
    assert "Operated by Reading <Ltd>" in text_of(page)
    for name in ("policy_uri", "tos_uri"):
        assert f'<a href="{escape(DETAILS[name])}" target="_blank" rel="noopener noreferrer external">' in page
    assert "Privacy policy of Reading List (opens a new tab)" in text_of(page)
    assert "Terms of Reading List (opens a new tab)" in text_of(page)


def test_what_an_application_has_not_is_not_on_the_page(alice: Any, application: Registered) -> None:
    page = opened(alice, application)
    assert "Operated by" not in page
    assert "external" not in page


@pytest.mark.parametrize(
    ("age", "sentence"),
    [
        ({"hours": 23}, "New here: registered within a day"),
        ({"hours": 25}, "New here: registered 1 day ago"),
        ({"days": 29, "hours": 23}, "New here: registered 29 days ago"),
        ({"days": 30}, ""),
        ({"days": 400}, ""),
    ],
)
def test_an_application_is_new_for_thirty_days(
    alice: Any, application: Registered, age: dict[str, float], sentence: str
) -> None:
    registered_ago(application, **age)
    page = text_of(opened(alice, application))
    assert sentence in page
    assert ("New here" in page) is bool(sentence)


def test_an_application_is_not_new_to_a_person_who_has_allowed_it(alice: Any, application: Registered) -> None:
    allowed_once(alice, application)
    assert "New here" not in opened(alice, application)


def test_of_a_trusted_application_neither_operator_nor_age_is_said(alice: Any) -> None:
    application = ApplicationFactory(is_trusted=True, **DETAILS)
    page = opened(alice, application, notice="1")
    assert "asks who you are" in text_of(page)
    assert "Operated by" not in page
    assert "New here" not in page
    assert DETAILS["tos_uri"] in page


@pytest.mark.parametrize("address", [NATIVE, "http://127.0.0.1:8001/callback"])
def test_an_app_on_this_device_is_called_so(alice: Any, address: str) -> None:
    page = text_of(opened(alice, ApplicationFactory(redirect_uris=address)))
    assert f"Either way you go back to an app on this device {address}" in page


def test_a_person_who_refuses_an_app_on_this_device_is_not_told_to_be_signed_in(alice: Any) -> None:
    application = ApplicationFactory(redirect_uris=NATIVE)
    pending = unescape(re.search(r'name="pending" value="([^"]*)"', opened(alice, application))[1])  # type: ignore[index]
    client = with_session(alice)
    answers = {}
    for decision in ("refuse", "allow"):
        form = urlencode({"pending": pending, "decision": decision})
        answer = client.post("/oauth/authorize", form, "application/x-www-form-urlencoded", **PAGE)
        answers[decision] = text_of(answer.content.decode())
    assert "You refused" in answers["refuse"]
    assert "Nothing was shared" in answers["refuse"]
    assert "signed in" not in answers["refuse"]
