"""The consent page, and the page of a person's applications: what they say, and how little they believe."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from html import escape, unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.models import Application, Consent
from oauth_bridge.openid.claims import values as claims_of
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered, TokenFactory
from tests.grants import PAGE, answer, link_of
from tests.pages import html_of, text_of, with_session

pytestmark = pytest.mark.django_db

NATIVE = "com.example.app:/callback"
DETAILS = {
    "operator": "Reading <Ltd>",
    "policy_uri": "https://reading.example/privacy?a=1&b=2",
    "tos_uri": "https://reading.example/terms",
}


@pytest.fixture
def alice(db: None) -> Any:
    return PersonFactory(nickname="Ada Lovelace")


@pytest.fixture
def application(db: None) -> Registered:
    return ApplicationFactory(name="Reading List", homepage="https://reading.example/")


def opened(person: Any, application: Registered, **more: str) -> str:
    return html_of(with_session(person).get(link_of(application, **more), headers=PAGE, follow=True))


def allowed_once(person: Any, application: Registered) -> None:
    fingerprint = consents.fingerprint(application.row)
    ConsentFactory(user=person, application=application.row, fingerprint=fingerprint, expires_at=timezone.now())


def facts_of(page: str) -> str:
    return page.split("<dl", 1)[1].split("</dl>")[0]


def test_it_shows_each_value_that_is_asked_for_once_as_the_application_receives_it(
    alice: Any, application: Registered
) -> None:
    facts = facts_of(opened(alice, application))
    shown = re.findall(r'(?:src="|<bdi>|<code>)([^"<]*)["<]', unescape(facts))
    claims = claims_of(alice)
    assert shown == [claims[name] for name in ("avatar", "nickname", "email", "sub")]
    person = PersonFactory(nickname="")
    page = text_of(opened(person, application))
    assert f"Nickname {person.display_name} You have no nickname, so this name is sent." in page
    for claim, shown, hidden in (
        ("email_verified", alice.email, alice.nickname),
        ("name", alice.nickname, alice.email),
    ):
        asked = {"scope": "openid", "claims": json.dumps({"userinfo": {claim: None}})}
        facts = facts_of(opened(alice, application, **asked))
        assert (shown in facts, hidden in facts) == (True, False), claim


def test_a_person_who_has_allowed_it_before_is_asked_shortly(alice: Any, application: Registered) -> None:
    assert "Reading List asks who you are" in text_of(opened(alice, application))
    allowed_once(alice, application)
    page = text_of(opened(alice, application))
    assert "Continue to Reading List as Ada ?" in page
    assert "Refuse Continue as Ada" in page
    assert str(alice.pk) in page
    assert "New here" not in page
    for nickname in ("Wolfeschlegelsteinhausen", "  "):
        person = PersonFactory(nickname=nickname)
        allowed_once(person, application)
        page = text_of(opened(person, application))
        assert "Continue to Reading List ?" in page
        assert "Refuse Continue Applications never see your password. Language" in page
    assert not consents.has_allowed_before(alice, ApplicationFactory().row)
    application.row.name = "Reading List Pro"
    application.row.save()
    assert "Reading List Pro asks who you are" in text_of(opened(alice, application))


def test_its_operator_its_policy_and_its_terms_are_named(alice: Any, application: Registered) -> None:
    known = ApplicationFactory(name="Reading List", **DETAILS)
    for is_known in (False, True):
        if is_known:
            allowed_once(alice, known)
        page = opened(alice, known)
        assert ("Continue to Reading List" in text_of(page)) is is_known
        assert "Operated by Reading <Ltd>" in text_of(page)
        for name, title in (("policy_uri", "Privacy policy"), ("tos_uri", "Terms")):
            assert f'<a href="{escape(DETAILS[name])}" target="_blank" rel="noopener noreferrer external">' in page
            assert f"{title} of Reading List (opens a new tab)" in text_of(page)
    without = opened(alice, application)
    trusted = opened(alice, ApplicationFactory(is_trusted=True, **DETAILS), scope="openid", prompt="consent")
    for page, told in ((without, "New here"), (trusted, DETAILS["tos_uri"])):
        assert "asks who you are" in text_of(page)
        assert [each for each in ("Operated by", DETAILS["tos_uri"], "New here") if each in page] == [told]


def test_an_application_is_new_for_thirty_days(alice: Any, application: Registered) -> None:
    told = [(23, "registered within a day"), (25, "registered 1 day ago"), (719, "registered 29 days ago"), (720, "")]
    for hours, sentence in told:
        Application.objects.update(created=timezone.now() - timedelta(hours=hours))
        page = text_of(opened(alice, application))
        assert sentence in page
        assert ("New here" in page) is bool(sentence)


def test_an_app_on_this_device_is_called_so_and_who_refuses_it_is_not_told_to_be_signed_in(alice: Any) -> None:
    for address in ("http://127.0.0.1:8001/callback", NATIVE):
        page = opened(alice, ApplicationFactory(redirect_uris=address))
        assert f"Either way you go back to an app on this device {address}" in text_of(page)
    said = text_of(answer(with_session(alice), page, "refuse"))
    assert "You refused" in said
    assert "signed in" not in said


def test_an_open_page_goes_on_with_a_former_key_as_fallback(alice: Any, application: Registered, settings: Any) -> None:
    browser = with_session(alice)
    page = html_of(browser.get(link_of(application), headers=PAGE, follow=True))
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "n" * 60, ["m" * 60, settings.SECRET_KEY]
    assert "code=" in answer(browser, page)["Location"]


APPLICATIONS = "/accounts/applications"


def row_of(**fields: Any) -> Application:
    return ApplicationFactory(**fields).row


def listed(browser: Client) -> tuple[list[str], ...]:
    context = browser.get(APPLICATIONS).context
    return tuple([each.application.name for each in context[part]] for part in ("unasked", "asked"))


def sign_in_to(row: Application, person: User, days_ago: float = 0) -> None:
    at = timezone.now() - timedelta(days=days_ago)
    CodeFactory(application=row, user=person, issued_at=at, redeemed_at=at)


def test_an_application_is_listed_once_it_was_allowed_until_it_is_disconnected(browser: Client, alice: User) -> None:
    row = row_of()
    assert listed(browser) == ([], [])
    consents.record(alice, row)
    assert listed(browser) == ([], [row.name])
    for end in (
        lambda: Consent.objects.update(expires_at=timezone.now()),
        lambda: end_credentials(alice),
        lambda: Application.objects.update(name="Photo Printer Pro"),
        lambda: browser.post(APPLICATIONS, {"ask_again": row.client_id}),
    ):
        consents.remember(alice, row)
        before = Consent.objects.values().get()
        consents.record(alice, row)
        assert Consent.objects.values().get() == before, "to allow again changes nothing"
        assert listed(browser) == ([row.name], [])
        end()
        row.refresh_from_db()
        browser.force_login(alice)
        for _ in range(2):
            assert listed(browser) == ([], [row.name])
            assert not consents.is_remembered(alice, row)
            consents.record(alice, row)
    assert Consent.objects.get().given_at == before["given_at"]
    browser.post(APPLICATIONS, {"disconnect": "\x00", "ask_again": "x" * 10_000})
    for led in (Client().get(APPLICATIONS), Client().post(APPLICATIONS, {"disconnect": row.client_id})):
        assert led["Location"].startswith("/accounts/sign-in?next=")
    assert listed(browser) == ([], [row.name])
    for button in ("disconnect", "disconnect", "ask_again"):
        assert browser.post(APPLICATIONS, {button: row.client_id}).status_code == 303
    assert listed(browser) == ([], [])


def test_a_sign_in_is_counted_for_30_days(browser: Client, alice: User) -> None:
    row = row_of()
    consents.record(alice, row)
    sign_in_to(row, alice, days_ago=31)
    assert "No sign-in in the last 30 days." in text_of(browser.get(APPLICATIONS))
    sign_in_to(row, alice, days_ago=29)
    said = text_of(browser.get(APPLICATIONS))
    assert re.search(r"Last sign-in \d+ \w+ \d{4}, \d\d:\d\d UTC , the only one in 30 days\.", said)
    sign_in_to(row, alice)
    CodeFactory(application=row, user=alice)  # not redeemed
    sign_in_to(row, PersonFactory())
    assert "Last sign-in just now , 2 in 30 days." in text_of(browser.get(APPLICATIONS))


def test_the_application_that_was_used_last_comes_first(browser: Client, alice: User) -> None:
    rows = [row_of() for _ in range(4)]
    for row, given, signed_in in zip(rows, (20, 2, 20, 20), (1, None, 3, None), strict=True):
        consents.record(alice, row)
        Consent.objects.filter(application=row).update(given_at=timezone.now() - timedelta(days=given))
        if signed_in:
            sign_in_to(row, alice, days_ago=signed_in)
    assert listed(browser)[1] == [row.name for row in rows]


def test_a_trusted_application_is_listed_while_a_sign_in_is_known(browser: Client, alice: User) -> None:
    row = row_of(is_trusted=True)
    sign_in_to(row, alice, days_ago=31)
    assert listed(browser) == ([], [])
    sign_in_to(row, alice)
    token = TokenFactory(application=row, user=alice).row
    assert listed(browser) == ([row.name], [])
    assert "An administrator allowed it for everybody" in text_of(browser.get(APPLICATIONS))
    browser.post(APPLICATIONS, {"disconnect": row.client_id})
    assert listed(browser) == ([], [])
    token.refresh_from_db()
    assert token.revoked_at
    sign_in_to(row, alice)
    Application.objects.update(is_trusted=False)
    assert listed(browser) == ([], [row.name])


def test_what_is_switched_off_can_be_disconnected_and_what_is_deleted_is_gone(browser: Client, alice: User) -> None:
    row, kept = row_of(), row_of()
    for each in (row, kept):
        consents.remember(alice, each)
        sign_in_to(each, alice)
    registry.set_enabled(row, False)
    assert "Switched off" in text_of(browser.get(APPLICATIONS))
    browser.post(APPLICATIONS, {"disconnect": row.client_id})
    registry.set_enabled(row, True)
    assert listed(browser) == ([kept.name], [])
    assert not consents.is_remembered(alice, row)
    consents.remember(alice, row)
    Application.objects.filter(pk=row.pk).delete()
    assert listed(browser) == ([kept.name], [])
