"""The switcher at the foot of each page, and the language that is stored for a person's e-mails."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings
from django.core import mail
from django.test import Client
from django.utils import translation

from accounts.models import User
from oauth_bridge.consent import remembered
from tests.factories import PASSWORD, CodeFactory, PersonFactory, Registered
from tests.grants import link_of
from tests.pages import deliver_all, sign_in, sign_up, with_session
from tests.sending import exchange

pytestmark = pytest.mark.django_db

PAGE = {"accept": "text/html"}
FORM = "application/x-www-form-urlencoded"
CHOOSE = "/accounts/language"
SIGN_IN = "/accounts/sign-in"


def switched(client: Client, page: Any, language: str) -> Any:
    """The answer to the page's button for the language."""
    text = page.content.decode()
    form = re.search(rf'<form method="post" action="{CHOOSE}">(.*?)</form>', text, re.DOTALL)
    assert form
    there = re.search(r'name="next" value="([^"]*)"', form[1])
    assert there
    assert f'value="{language}" lang="{language}"' in form[1]
    return client.post(CHOOSE, {"next": unescape(there[1]), "language": language})


def test_each_language_is_named_in_itself_and_a_choice_lasts(client: Client) -> None:
    shown = client.get(SIGN_IN, headers=PAGE | {"accept-language": "fr"})
    page = shown.content.decode()
    for code, name in settings.LANGUAGES:
        assert re.search(rf'value="{code}" lang="{code}"[^>]*><bdi>{re.escape(name)}</bdi>', page)
    assert re.findall(r'lang="([^"]*)" aria-current="true"', page) == ["fr"]
    answer = switched(client, shown, "de")
    cookie = answer.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (answer.status_code, answer["Location"]) == (303, SIGN_IN)
    assert (cookie.value, cookie["max-age"]) == ("de", 365 * 24 * 3600)
    assert client.get(SIGN_IN)["Content-Language"] == "de"


@pytest.mark.parametrize("more", [{"state": "s"}, {"state": "ü" * 4096}, {"client_id": "unknown"}])
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


def test_a_choice_does_not_answer_a_page_that_asks_again(client: Client, application: Registered) -> None:
    alice = PersonFactory()
    client.force_login(alice)
    consent = client.get(link_of(application), follow=True)
    remembered.remember(alice, application.row)
    form = {"pending": str(consent.context["pending"]), "decision": "allow"}
    other = with_session(alice)
    again = other.post("/oauth/authorize", urlencode(form), content_type=FORM)["Location"]
    page = other.get(switched(other, other.get(again), "de")["Location"])
    assert (page.status_code, page["Content-Language"]) == (200, "de")
    assert 'name="decision" value="allow"' in page.content.decode()


def test_the_address_of_a_link_or_an_error_page_loses_nothing_else(client: Client) -> None:
    for sent, left in (
        ("/oauth/authorize?a=b&ui_locales=de", "/oauth/authorize?a=b"),
        ("/oauth/authorize?ui_locales=de&a=b", "/oauth/authorize?a=b"),
        ("/oauth/authorize?a=b&ui_locales=de&x_ui_locales=c", "/oauth/authorize?a=b&x_ui_locales=c"),
        ("/oauth/authorize?client_id=x&state=%FF%20a", "/oauth/authorize?client_id=x&state=%FF%20a"),
        ("/accounts/nowhere", "/accounts/nowhere"),
    ):
        assert switched(client, client.get(sent, headers=PAGE), "zh-hans")["Location"] == left
        assert client.get(left, headers=PAGE)["Content-Language"] == "zh-hans"
    failed = client.post("/oauth/authorize", {"pending": "damaged"}, headers=PAGE)
    assert failed.status_code >= 400
    assert CHOOSE not in failed.content.decode(), "no address repeats the page"


def test_the_request_goes_on_after_a_choice_on_any_page(client: Client, application: Registered) -> None:
    alice = PersonFactory()
    link = client.get(link_of(application, ui_locales="ar"))["Location"]
    assert switched(client, client.get(link), "es")["Location"] == link
    assert client.get(link)["Content-Language"] == "es"
    failed = client.post(link, {"login": alice.email, "password": "wrong password"})
    page = client.get(switched(client, failed, "de")["Location"])
    assert application.row.name in page.content.decode()
    consent = client.post(link, {"login": alice.email, "password": PASSWORD})["Location"]
    page = client.get(switched(client, client.get(consent), "pt-br")["Location"])
    assert page["Content-Language"] == "pt-br"
    assert 'name="pending"' in page.content.decode()
    reset = client.post("/accounts/password/reset?next=/oauth/authorize%3Fpending%3Dx", {"email": "no address"})
    assert switched(client, reset, "fr")["Location"] == "/accounts/password/reset?next=/oauth/authorize%3Fpending%3Dx"


def test_a_return_path_to_another_site_is_ignored_and_no_token_needed() -> None:
    client = Client(enforce_csrf_checks=True)  # the form needs no token, because a link can do the same
    for there in (
        *("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)"),
        *("", "/a\r\nb", "/" * 20_000),
    ):
        answer = client.post(CHOOSE, {"next": there, "language": "de"})
        assert (answer.status_code, answer["Location"]) == (303, "/accounts/profile")
        assert answer.cookies[settings.LANGUAGE_COOKIE_NAME].value == "de"


def test_a_language_that_is_unknown_and_another_method_change_nothing(client: Client) -> None:
    for language in ("", "xx", "de\r\nSet-Cookie: a=b", "../de", "DE"):
        answer = client.post(CHOOSE, {"next": SIGN_IN, "language": language})
        assert (answer.status_code, len(answer.cookies)) == (303, 0)
    answer = client.get(f"{CHOOSE}?language=de", headers=PAGE)
    assert (answer.status_code, answer["Location"], len(answer.cookies)) == (302, "/accounts/profile", 0)
    assert client.put(CHOOSE).status_code == 405


# The person -----------------------------------------------------------------------------------------------------------


def test_the_choice_of_a_signed_in_person_is_stored_and_exported(browser: Client, alice: User) -> None:
    mallory = PersonFactory()
    switched(browser, browser.get("/accounts/profile"), "ar")
    assert [User.objects.get(pk=each.pk).language for each in (alice, mallory)] == ["ar", ""]
    assert browser.post("/accounts/export").json()["language"] == "ar"


def test_a_sign_in_teaches_the_language_once(alice: User) -> None:
    for accept, known in (("de", "de"), ("fr", "de")):
        sign_in(Client(headers={"accept-language": accept}), alice.email)
        assert User.objects.get(pk=alice.pk).language == known


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_new_account_has_the_language_of_its_page() -> None:
    sign_up(Client(headers={"accept-language": "es"}))
    assert User.objects.get().language == "es"
    assert 'lang="es"' in str(mail.outbox[0].alternatives[0])
    assert "código" in mail.outbox[0].subject.lower()


def test_an_own_mail_is_in_the_language_of_the_page(client: Client) -> None:
    alice = PersonFactory(language="fr")
    client.post("/accounts/password/reset", {"email": alice.email}, headers={"accept-language": "de"})
    with translation.override("de"):
        assert mail.outbox[0].subject == translation.gettext("Choose a new password for %(service)s") % {
            "service": settings.SERVICE_NAME
        }


def test_a_mail_that_no_request_of_the_person_causes_is_in_their_language(application: Registered, rewind: Any) -> None:
    code = CodeFactory(application=application, user=PersonFactory(language="ar"))
    for _ in range(2):
        exchange(application, code=code.raw)
        rewind(code.row, 4)
    deliver_all()
    (sent,) = mail.outbox
    assert '<html lang="ar" dir="rtl">' in str(sent.alternatives[0])
    assert not sent.body.isascii()
