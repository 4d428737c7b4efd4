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
from tests.pages import deliver_all, with_session

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


def test_each_language_is_named_in_itself_and_the_present_one_is_marked(client: Client) -> None:
    page = client.get(SIGN_IN, headers=PAGE | {"accept-language": "fr"}).content.decode()
    for code, name in settings.LANGUAGES:
        assert re.search(rf'value="{code}" lang="{code}"[^>]*><bdi>{re.escape(name)}</bdi>', page)
    assert re.findall(r'lang="([^"]*)" aria-current="true"', page) == ["fr"]


def test_a_choice_lasts(client: Client) -> None:
    answer = switched(client, client.get(SIGN_IN), "de")
    cookie = answer.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (answer.status_code, answer["Location"]) == (303, SIGN_IN)
    assert (cookie.value, cookie["max-age"]) == ("de", 365 * 24 * 3600)
    assert client.get(SIGN_IN)["Content-Language"] == "de"


def test_a_choice_ends_the_wish_of_the_application(client: Client, application: Registered) -> None:
    sign_in = client.get(link_of(application, ui_locales="ar"))["Location"]
    answer = switched(client, client.get(sign_in), "es")
    assert answer["Location"] == sign_in
    assert client.get(sign_in)["Content-Language"] == "es"


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


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        ("a=b&ui_locales=de", "a=b"),
        ("ui_locales=de&a=b", "a=b"),
        ("a=b&ui_locales=de&x_ui_locales=c", "a=b&x_ui_locales=c"),
    ],
)
def test_the_address_of_a_link_loses_nothing_else(client: Client, sent: str, left: str) -> None:
    page = client.get(f"/oauth/authorize?{sent}", headers=PAGE)
    assert switched(client, page, "es")["Location"] == f"/oauth/authorize?{left}"


def test_the_request_goes_on_after_a_choice_on_any_page(client: Client, application: Registered) -> None:
    alice = PersonFactory()
    sign_in = client.get(link_of(application))["Location"]
    failed = client.post(sign_in, {"login": alice.email, "password": "wrong password"})
    page = client.get(switched(client, failed, "de")["Location"])
    assert "Reading" in page.content.decode() or application.row.name in page.content.decode()
    consent = client.post(sign_in, {"login": alice.email, "password": PASSWORD})["Location"]
    page = client.get(switched(client, client.get(consent), "pt-br")["Location"])
    assert page["Content-Language"] == "pt-br"
    assert 'name="pending"' in page.content.decode()
    reset = client.post("/accounts/password/reset?next=/oauth/authorize%3Fpending%3Dx", {"email": "no address"})
    assert switched(client, reset, "fr")["Location"] == "/accounts/password/reset?next=/oauth/authorize%3Fpending%3Dx"


@pytest.mark.parametrize("path", ["/accounts/nowhere", "/oauth/authorize?client_id=x&state=%FF%20a"])
def test_error_pages_have_the_form_too(client: Client, path: str) -> None:
    answer = switched(client, client.get(path, headers=PAGE), "zh-hans")
    assert answer["Location"] == path
    assert client.get(path, headers=PAGE)["Content-Language"] == "zh-hans"


def test_a_page_that_no_address_repeats_has_no_form(client: Client) -> None:
    failed = client.post("/oauth/authorize", {"pending": "damaged"}, headers=PAGE)
    assert failed.status_code >= 400
    assert CHOOSE not in failed.content.decode()


@pytest.mark.parametrize(
    "there",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nb", "/" * 20_000],
)
def test_a_return_path_to_another_site_is_ignored(client: Client, there: str) -> None:
    answer = client.post(CHOOSE, {"next": there, "language": "de"})
    assert (answer.status_code, answer["Location"]) == (303, "/accounts/profile")
    assert answer.cookies[settings.LANGUAGE_COOKIE_NAME].value == "de"


@pytest.mark.parametrize("language", ["", "xx", "de\r\nSet-Cookie: a=b", "../de", "DE"])
def test_a_language_that_is_unknown_changes_nothing(client: Client, language: str) -> None:
    answer = client.post(CHOOSE, {"next": SIGN_IN, "language": language})
    assert (answer.status_code, len(answer.cookies)) == (303, 0)


def test_the_form_needs_no_token_because_a_link_can_do_the_same() -> None:
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(CHOOSE, {"next": SIGN_IN, "language": "de"}).cookies[settings.LANGUAGE_COOKIE_NAME].value


def test_a_get_changes_nothing_and_shows_a_page(client: Client) -> None:
    answer = client.get(f"{CHOOSE}?language=de", headers=PAGE)
    assert (answer.status_code, answer["Location"], len(answer.cookies)) == (302, "/accounts/profile", 0)
    assert client.put(CHOOSE).status_code == 405


# The person -----------------------------------------------------------------------------------------------------------


def test_the_choice_of_a_signed_in_person_is_stored(client: Client) -> None:
    alice, mallory = PersonFactory(), PersonFactory()
    client.force_login(alice)
    switched(client, client.get("/accounts/profile"), "ar")
    assert [User.objects.get(pk=each.pk).language for each in (alice, mallory)] == ["ar", ""]


def test_a_sign_in_teaches_the_language_once(client: Client) -> None:
    alice = PersonFactory()
    for accept, known in (("de", "de"), ("fr", "de")):
        credentials = {"login": alice.email, "password": PASSWORD}
        Client().post(SIGN_IN, credentials, headers={"accept-language": accept})
        assert User.objects.get(pk=alice.pk).language == known


def test_a_new_account_has_the_language_of_its_page(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "open"
    fields = {"email": "new@example.com", "nickname": "New", "password1": "a long and calm sentence"}
    client.post("/accounts/sign-up", fields, headers={"accept-language": "es"})
    assert User.objects.get(email="new@example.com").language == "es"
    assert 'lang="es"' in str(mail.outbox[0].alternatives[0])
    assert "Código" in mail.outbox[0].subject or "código" in mail.outbox[0].subject


def test_an_own_mail_is_in_the_language_of_the_page(client: Client) -> None:
    alice = PersonFactory(language="fr")
    client.post("/accounts/password/reset", {"email": alice.email}, headers={"accept-language": "de"})
    with translation.override("de"):
        assert mail.outbox[0].subject == translation.gettext("Choose a new password for %(service)s") % {
            "service": settings.SERVICE_NAME
        }


def test_a_mail_that_no_request_of_the_person_causes_is_in_their_language(
    client: Client, application: Registered, rewind: Any
) -> None:
    alice = PersonFactory(language="ar")
    code = CodeFactory(application=application, user=alice)
    fields = {"grant_type": "authorization_code", "client_id": application.client_id, "code": code.raw}
    fields |= {"client_secret": application.client_secret}
    for _ in range(2):
        body = urlencode(fields)
        client.post(
            "/oauth/token", body, content_type="application/x-www-form-urlencoded", headers={"accept-language": "de"}
        )
        rewind(code.row, 4)
    deliver_all()
    (sent,) = mail.outbox
    assert '<html lang="ar" dir="rtl">' in str(sent.alternatives[0])
    assert not sent.body.isascii()


def test_the_language_is_part_of_the_export(client: Client) -> None:
    alice = PersonFactory(language="pt-br")
    client.post(SIGN_IN, {"login": alice.email, "password": PASSWORD})
    assert client.post("/accounts/export").json()["language"] == "pt-br"
