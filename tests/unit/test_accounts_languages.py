"""The switcher at the foot of each page, and the language that is stored for a person's e-mails."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.conf import settings
from django.core import mail
from django.test import Client

from accounts.models import User
from tests.factories import PASSWORD, CodeFactory, PersonFactory, Registered
from tests.grants import exchange, link_of
from tests.pages import deliver_all, sign_in, sign_up

pytestmark = pytest.mark.django_db

PAGE = {"accept": "text/html"}
CHOOSE = "/accounts/language"
SIGN_IN = "/accounts/sign-in"


def switched(client: Client, page: Any, language: str) -> Any:
    """The answer to the page's button for the language."""
    (form,) = re.findall(rf'<form method="post" action="{CHOOSE}">(.*?)</form>', page.content.decode(), re.DOTALL)
    (there,) = re.findall(r'name="next" value="([^"]*)"', form)
    assert f'value="{language}" lang="{language}"' in form
    return client.post(CHOOSE, {"next": unescape(there), "language": language})


def test_each_language_is_named_in_itself_and_a_choice_lasts(client: Client) -> None:
    shown = client.get(SIGN_IN, headers=PAGE | {"accept-language": "fr"})
    page = shown.content.decode()
    named = re.findall(r'value="([^"]*)" lang="[^"]*"[^>]*><bdi>(.*?)</bdi>', page)
    assert named == [(code, name) for code, name in settings.LANGUAGES]
    assert re.findall(r'lang="([^"]*)" aria-current="true"', page) == ["fr"]
    answer = switched(client, shown, "de")
    cookie = answer.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (answer.status_code, answer["Location"]) == (303, SIGN_IN)
    assert (cookie.value, cookie["max-age"]) == ("de", 365 * 24 * 3600)
    assert client.get(SIGN_IN)["Content-Language"] == "de"


@pytest.mark.parametrize("more", [{"state": "ü" * 4096}, {"client_id": "unknown"}])
def test_a_choice_on_the_page_of_a_link_ends_its_wish(
    client: Client, application: Registered, more: dict[str, str]
) -> None:
    """Also where the link is longer than a redirect can be."""
    client.force_login(PersonFactory())
    page = client.get(link_of(application, ui_locales="ar", **more), headers=PAGE, follow=True)
    assert page["Content-Language"] == "ar"
    again = client.get(switched(client, page, "es")["Location"], headers=PAGE)
    assert (again["Content-Language"], again.status_code) == ("es", page.status_code)
    assert ('name="pending"' in again.content.decode()) is (page.status_code == 200)


def test_the_address_of_a_link_or_an_error_page_loses_nothing_else(client: Client) -> None:
    for sent, left in (
        ("/oauth/authorize?a=b&ui_locales=de&x_ui_locales=c", "/oauth/authorize?a=b&x_ui_locales=c"),
        ("/oauth/authorize?client_id=x&state=%FF%20a", "/oauth/authorize?client_id=x&state=%FF%20a"),
        ("/accounts/nowhere", "/accounts/nowhere"),
    ):
        assert switched(client, client.get(sent, headers=PAGE), "zh-hans")["Location"] == left
        assert client.get(left, headers=PAGE)["Content-Language"] == "zh-hans"
    failed = client.post("/oauth/authorize", {"pending": "damaged"}, headers=PAGE)
    assert CHOOSE not in failed.content.decode(), "no address repeats the page"


def test_the_request_goes_on_after_a_choice_on_any_page(client: Client, application: Registered) -> None:
    alice = PersonFactory()
    link = client.get(link_of(application, ui_locales="ar"))["Location"]
    failed = client.post(link, {"login": alice.email, "password": "wrong password"})
    page = client.get(switched(client, failed, "de")["Location"])
    assert application.row.name in page.content.decode()
    consent = client.post(link, {"login": alice.email, "password": PASSWORD})["Location"]
    page = client.get(switched(client, client.get(consent), "pt-br")["Location"])
    assert page["Content-Language"] == "pt-br"
    assert 'name="pending"' in page.content.decode()


def test_what_no_page_sends_leads_nowhere_else_and_changes_nothing() -> None:
    client = Client(enforce_csrf_checks=True)  # the form needs no token, because a link can do the same
    for there in ("https://evil.example/", "/\\evil.example", "", "/a\r\nb", "/" * 20_000):
        answer = client.post(CHOOSE, {"next": there, "language": "de"})
        assert (answer.status_code, answer["Location"]) == (303, "/accounts/profile")
        assert answer.cookies[settings.LANGUAGE_COOKIE_NAME].value == "de"
    for language in ("", "xx", "de\r\nSet-Cookie: a=b"):
        assert not client.post(CHOOSE, {"next": SIGN_IN, "language": language}).cookies
    answer = client.get(f"{CHOOSE}?language=de", headers=PAGE)
    assert (answer.status_code, answer["Location"], len(answer.cookies)) == (302, "/accounts/profile", 0)


# The person -----------------------------------------------------------------------------------------------------------


def test_the_choice_of_a_signed_in_person_is_stored_and_exported(browser: Client, alice: User) -> None:
    mallory = PersonFactory()
    switched(browser, browser.get("/accounts/profile"), "ar")
    assert [User.objects.get(pk=each.pk).language for each in (alice, mallory)] == ["ar", ""]
    assert browser.post("/accounts/export").json()["language"] == "ar"


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_new_account_has_the_language_of_its_page_and_a_sign_in_teaches_it_once(alice: User) -> None:
    sign_up(Client(headers={"accept-language": "es"}))
    assert User.objects.exclude(pk=alice.pk).get().language == "es"
    assert "código" in mail.outbox[0].subject.lower()
    for accept in ("de", "fr"):
        sign_in(Client(headers={"accept-language": accept}), alice.email)
        assert User.objects.get(pk=alice.pk).language == "de"


def test_a_mail_that_no_request_of_the_person_causes_is_in_their_language(application: Registered, rewind: Any) -> None:
    code = CodeFactory(application=application, user=PersonFactory(language="ar"))
    for _ in range(2):
        exchange(application, code=code.raw)
        rewind(code.row, 4)
    deliver_all()
    (sent,) = mail.outbox
    assert '<html lang="ar" dir="rtl">' in str(sent.alternatives[0])
