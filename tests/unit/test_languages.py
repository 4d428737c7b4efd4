"""Which language a page speaks, what stays English, and how pages show times."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.conf import settings
from django.contrib import messages
from django.contrib.messages.storage.base import Message
from django.core import mail
from django.template import engines
from django.test import Client
from django.utils import timezone, translation
from django.utils.safestring import mark_safe

from accounts.models import User
from accounts.templatetags.times import ago, moment, moments
from config.infrastructure.errors import TranslatableText
from oauth_bridge.errors import OAuthFault
from tests.factories import CodeFactory, PersonFactory, Registered
from tests.grants import PAGE, exchange, link_of
from tests.pages import deliver_all, sign_in, sign_up

pytestmark = pytest.mark.django_db

SIGN_IN = "/accounts/sign-in"


def spoken(response: Any) -> str:
    language = response["Content-Language"]
    direction = "rtl" if language == "ar" else "ltr"
    assert f'<html lang="{language}" dir="{direction}">' in response.text
    return str(language)


def language_of(client: Client, path: str = SIGN_IN, accept: str = "") -> str:
    return spoken(client.get(path, headers=PAGE | ({"accept-language": accept} if accept else {})))


def test_the_browser_prefers_a_language_and_the_person_s_choice_comes_before(client: Client) -> None:
    for accept, language in {
        "": "en",
        "de-AT,en;q=0.5": "de",
        "nl, fr;q=0.8, en;q=0.7": "fr",
        "pt-PT": "pt-br",
        "zh-SG": "zh-hans",
        "nl": "en",
        "\x00, de;q=x": "en",
    }.items():
        assert language_of(client, accept=accept) == language, accept
        assert translation.get_language() == "en", "none is left to the next request of the thread"
    for chosen, language in (("fr", "fr"), ("klingon", "de")):
        client.cookies[settings.LANGUAGE_COOKIE_NAME] = chosen
        assert language_of(client, accept="de") == language


def test_the_application_s_wish_comes_first_and_lasts_until_a_new_link(client: Client, application: Registered) -> None:
    assert language_of(client, f"{SIGN_IN}?ui_locales=de&client_id=x") == "en", "only authorize reads it"
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "fr"
    sign_in = client.get(link_of(application, ui_locales="xx es-MX de"), headers=PAGE | {"accept-language": "de"})
    cookie = sign_in.cookies[settings.UI_LOCALES_COOKIE_NAME]
    assert (cookie.value, cookie["max-age"]) == ("es", "")
    pending = parse_qs(urlsplit(sign_in["Location"]).query)["next"][0]
    assert settings.UI_LOCALES_COOKIE_NAME not in client.get(pending).cookies
    for path in (sign_in["Location"], "/accounts/nowhere"):
        assert language_of(client, path, accept="de") == "es"
    page = client.get(SIGN_IN, headers=PAGE)
    assert {"Accept-Language", "Cookie"} <= {name.strip() for name in page["Vary"].split(",")}
    for wish, sent in (("es", []), ("fr", ["fr"]), ("", [""]), ("", [])):  # only when it changes
        cookies = client.get(link_of(application, **({"ui_locales": wish} if wish else {}))).cookies
        assert [each.value for each in cookies.values() if each.key == settings.UI_LOCALES_COOKIE_NAME] == sent
    assert language_of(client) == "fr"


def test_ui_locales_is_read_as_it_is_written_and_never_fails(client: Client, application: Registered) -> None:
    for value in ("de-AT", "DE", "xx+de", "de+fr", "%64e", "de&ui_locales=fr"):
        browser = Client()
        browser.get(f"{link_of(application)}&ui_locales={value}")
        assert language_of(browser) == "de", value
    for value in ("", "de%00", "%FF%FE", "x" * 32_000, "-" * 300, "../../etc/passwd", "%0D%0ASet-Cookie:a=b", "*"):
        answer = client.get(f"{link_of(application)}&ui_locales={value}", headers={"accept-language": "fr"})
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, SIGN_IN), value
        assert settings.UI_LOCALES_COOKIE_NAME not in answer.cookies, value


def test_answers_for_programs_are_english_and_have_no_language(client: Client, application: Registered) -> None:
    for path in ("/health/live", "/openapi.json", "/oauth/userinfo", link_of(application), "/static/css/site.css"):
        headers = client.get(path, headers={"accept-language": "de"}).headers
        assert "Content-Language" not in headers, path
        assert "Accept-Language" not in headers.get("Vary", ""), path
    german = Client(headers={"accept": "application/json", "accept-language": "de"})
    german.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    for path in ("/accounts/nowhere", "/oauth/nowhere", "/oauth/token", "/oauth/token/", "/nowhere"):
        answers = german.get(path), client.get(path)
        said = {each.json()["error_description"].removesuffix(f"{each['X-Reference']}.") for each in answers}
        assert len(said) == 1, path
        assert json.dumps(answers[0].json()).isascii()
    answer = german.get(link_of(application, response_type="token", ui_locales="ar"))
    description = parse_qs(urlsplit(answer["Location"]).query)["error_description"][0]
    assert description.startswith("The response_type is not supported. Send response_type=code. Reference ")


def test_a_sentence_on_a_page_is_translated_with_the_words_in_it() -> None:
    fault = OAuthFault.REDIRECT_URI_MISMATCH
    parts = TranslatableText("the fragment", "the query", "the slash at the end")
    with translation.override("de"):
        assert fault.translate(parts=parts).endswith(
            "Prüfen Sie in der Adresse im Link: das Fragment, die Abfrageparameter und der Schrägstrich am Ende."
        )
        assert "Check the fragment, the query and the slash at the end of" in fault.describe(parts=parts)
        assert OAuthFault.MISSING.translate(name='"\n<') == OAuthFault.MISSING.translate(name="??<")


def test_error_pages_are_translated(client: Client, application: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = client.get(link_of(application, client_id="unknown", ui_locales="de"), headers=PAGE)
    assert spoken(answer) == "de"
    assert "Diese Anmeldung kann nicht fortgesetzt werden" in answer.text
    assert "Mit dieser client_id ist keine Anwendung registriert." in answer.text
    client = Client(raise_request_exception=False)
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "de", "origin": "x" * 5000})
    assert (answer.status_code, spoken(answer)) == (431, "de")
    assert "Der Browser hat zu viel gesendet" in answer.text
    monkeypatch.setattr("accounts.sign_in.views.SignInView.get_context_data", None)
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "zh-CN"})
    assert (answer.status_code, spoken(answer)) == (500, "zh-hans")
    assert "操作未成功" in answer.text


CHOOSE = "/accounts/language"


def switched(client: Client, page: Any, language: str) -> Any:
    [form] = re.findall(rf'<form method="post" action="{CHOOSE}">(.*?)</form>', page.text, re.DOTALL)
    [there] = re.findall(r'name="next" value="([^"]*)"', form)
    assert f'value="{language}" lang="{language}"' in form
    return client.post(CHOOSE, {"next": unescape(there), "language": language})


def test_each_language_is_named_in_itself_and_a_choice_lasts(client: Client) -> None:
    shown = client.get(SIGN_IN, headers=PAGE | {"accept-language": "fr"})
    named = re.findall(r'value="([^"]*)" lang="[^"]*"[^>]*><bdi>(.*?)</bdi>', shown.text)
    assert named == [(code, name) for code, name in settings.LANGUAGES]
    assert re.findall(r'lang="([^"]*)" aria-current="true"', shown.text) == ["fr"]
    answer = switched(client, shown, "de")
    cookie = answer.cookies[settings.LANGUAGE_COOKIE_NAME]
    assert (answer.status_code, answer["Location"]) == (303, SIGN_IN)
    assert (cookie.value, cookie["max-age"]) == ("de", 365 * 24 * 3600)
    assert client.get(SIGN_IN)["Content-Language"] == "de"


def test_a_choice_on_the_page_of_a_link_ends_its_wish_alone(client: Client, application: Registered) -> None:
    client.force_login(PersonFactory())
    for more in ({"state": "ü" * 4096}, {"client_id": "unknown"}):  # the first link is longer than a redirect can be
        page = client.get(link_of(application, ui_locales="ar", **more), headers=PAGE, follow=True)
        assert page["Content-Language"] == "ar"
        again = client.get(switched(client, page, "es")["Location"], headers=PAGE)
        assert (again["Content-Language"], again.status_code) == ("es", page.status_code)
        assert ('name="pending"' in again.text) is (page.status_code == 200)
    for sent, left in (
        ("/oauth/authorize?a=b&ui_locales=de&x_ui_locales=c", "/oauth/authorize?a=b&x_ui_locales=c"),
        ("/oauth/authorize?client_id=x&state=%FF%20a", "/oauth/authorize?client_id=x&state=%FF%20a"),
    ):
        assert switched(client, client.get(sent, headers=PAGE), "zh-hans")["Location"] == left
        assert client.get(left, headers=PAGE)["Content-Language"] == "zh-hans"
    failed = client.post("/oauth/authorize", {"pending": "damaged"}, headers=PAGE)
    assert CHOOSE not in failed.text, "no address repeats the page"


def test_what_no_page_sends_leads_nowhere_else_and_changes_nothing() -> None:
    client = Client(enforce_csrf_checks=True)  # the form needs no token, because a link can do the same
    for there in ("https://evil.example/", "/\\evil.example", "", "/a\r\nb"):
        answer = client.post(CHOOSE, {"next": there, "language": "de"})
        assert (answer.status_code, answer["Location"]) == (303, "/accounts/profile")
        assert answer.cookies[settings.LANGUAGE_COOKIE_NAME].value == "de"
    for language in ("", "xx", "de\r\nSet-Cookie: a=b"):
        assert not client.post(CHOOSE, {"next": SIGN_IN, "language": language}).cookies
    answer = client.get(f"{CHOOSE}?language=de", headers=PAGE)
    assert (answer.status_code, answer["Location"], len(answer.cookies)) == (302, "/accounts/profile", 0)


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
    assert deliver_all() == 1
    assert '<html lang="ar" dir="rtl">' in str(mail.outbox[0].alternatives[0])


AT = datetime(2026, 11, 22, 17, 5, 9, tzinfo=UTC)
ELEMENT = '<time datetime="2026-11-22T17:05:09Z" title="22 November 2026, 17:05:09 UTC">{}</time>'


def test_a_time_is_in_utc_with_that_word_and_its_seconds_in_the_title() -> None:
    page = engines["django"].from_string("{{ at|moment }} {{ text|moments }}")
    text = "<b> ended 2026-11-22 17:05 UTC, not 2026-99-99 99:99 UTC"
    said = page.render({"at": AT, "text": text})
    shown = ELEMENT.format("22 November 2026, 17:05 UTC")
    assert said == f"{shown} &lt;b&gt; ended {shown.replace(':09', ':00')}, not 2026-99-99 99:99 UTC"
    assert moments(Message(messages.INFO, mark_safe("<b>"))) == "<b>", "the framework's messages have links"
    assert 'datetime="0001-01-01T00:00:00Z"' in moments("a name with 0001-01-01 00:00 UTC"), "scripts read it"


@time_machine.travel(AT + timedelta(hours=23, minutes=59, seconds=59), tick=False)
def test_the_time_since_is_shown_under_a_day_in_the_right_case() -> None:
    assert ago(AT) == ELEMENT.format("23 hours ago")
    assert ago(AT - timedelta(seconds=1)) == moment(AT - timedelta(seconds=1))
    for language, *texts in (("de", "vor 1 Minute", "vor 5 Stunden"), ("ar", "قبل دقيقة واحدة", "قبل 5 ساعات")):
        with translation.override(language):
            for since, text in zip((timedelta(seconds=61), timedelta(hours=5, minutes=59)), texts, strict=True):
                assert f">{text}</time>" in ago(timezone.now() - since)
