"""Which language a page speaks, and what stays English."""

from __future__ import annotations

import json
import threading
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.utils import translation

from config.http.languages import LanguageMiddleware
from config.infrastructure.translation import TranslatableText
from oauth_bridge.errors import OAuthFault
from tests.factories import Registered
from tests.grants import link_of

pytestmark = pytest.mark.django_db

PAGE = {"accept": "text/html"}
SIGN_IN = "/accounts/sign-in"


def spoken(response: Any) -> str:
    """The language of the page, which its header and its element say alike."""
    language = response["Content-Language"]
    direction = "rtl" if language == "ar" else "ltr"
    assert f'<html lang="{language}" dir="{direction}">' in response.content.decode()
    return str(language)


def language_of(client: Client, path: str = SIGN_IN, accept: str = "") -> str:
    return spoken(client.get(path, headers=PAGE | ({"accept-language": accept} if accept else {})))


# The choice -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        ("", "en"),
        ("de", "de"),
        ("de-AT,en;q=0.5", "de"),
        ("nl, fr;q=0.8, en;q=0.7", "fr"),
        ("pt-PT", "pt-br"),
        ("zh-CN", "zh-hans"),
        ("zh-SG", "zh-hans"),
        ("ar-EG", "ar"),
        ("nl", "en"),
        ("*", "en"),
        ("\x00, de;q=x", "en"),
    ],
)
def test_the_browser_prefers_a_language(client: Client, accept: str, language: str) -> None:
    assert language_of(client, accept=accept) == language


def test_the_person_s_choice_comes_before_the_browser_s(client: Client) -> None:
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "fr"
    assert language_of(client, accept="de") == "fr"
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "klingon"
    assert language_of(client, accept="de") == "de"


def test_the_application_s_wish_comes_first_and_lasts_for_the_pages_after_it(
    client: Client, application: Registered
) -> None:
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "fr"
    answer = client.get(link_of(application, ui_locales="xx es-MX de"), headers=PAGE | {"accept-language": "de"})
    cookie = answer.cookies[settings.UI_LOCALES_COOKIE_NAME]
    assert (cookie.value, cookie["max-age"]) == ("es", "")
    for path in (answer["Location"], "/accounts/password/reset", "/accounts/nowhere"):
        assert language_of(client, path, accept="de") == "es"


def test_a_pending_request_keeps_the_wish_and_a_new_link_ends_it(client: Client, application: Registered) -> None:
    sign_in = client.get(link_of(application, ui_locales="es"))["Location"]
    pending = parse_qs(urlsplit(sign_in).query)["next"][0]
    assert settings.UI_LOCALES_COOKIE_NAME not in client.get(pending).cookies
    assert language_of(client) == "es"
    assert client.get(link_of(application)).cookies[settings.UI_LOCALES_COOKIE_NAME].value == ""
    assert language_of(client) == "en"


def test_the_cookie_is_sent_only_when_it_changes(client: Client, application: Registered) -> None:
    assert settings.UI_LOCALES_COOKIE_NAME not in client.get(link_of(application)).cookies
    assert settings.UI_LOCALES_COOKIE_NAME in client.get(link_of(application, ui_locales="de")).cookies
    assert settings.UI_LOCALES_COOKIE_NAME not in client.get(link_of(application, ui_locales="de")).cookies
    assert client.get(link_of(application, ui_locales="fr")).cookies[settings.UI_LOCALES_COOKIE_NAME].value == "fr"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "%00",
        "de%00",
        "%FF%FE",
        "%",
        "x" * 32_000,
        "+".join(["xx"] * 1000),
        "-" * 300,
        "../../etc/passwd",
        "de;q=1",
        "%0D%0ASet-Cookie:a=b",
        "*",
    ],
)
def test_ui_locales_never_fails(client: Client, application: Registered, value: str) -> None:
    answer = client.get(f"{link_of(application)}&ui_locales={value}", headers={"accept-language": "fr"})
    assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, SIGN_IN)
    assert settings.UI_LOCALES_COOKIE_NAME not in answer.cookies
    assert language_of(client, accept="fr") == "fr"


@pytest.mark.parametrize("value", ["de", "de-AT", "DE", "xx+de", "de+fr", "%64e", "de&ui_locales=fr", "%20de%20"])
def test_ui_locales_is_read_as_it_is_written(client: Client, application: Registered, value: str) -> None:
    client.get(f"{link_of(application)}&ui_locales={value}")
    assert language_of(client) == "de"


def test_only_authorize_reads_ui_locales(client: Client) -> None:
    assert language_of(client, f"{SIGN_IN}?ui_locales=de&client_id=x") == "en"


def test_an_error_page_of_the_link_speaks_its_language(client: Client, application: Registered) -> None:
    answer = client.get(link_of(application, client_id="unknown", ui_locales="de"), headers=PAGE)
    assert spoken(answer) == "de"
    text = answer.content.decode()
    assert "Diese Anmeldung kann nicht fortgesetzt werden" in text
    assert "Mit dieser client_id ist keine Anwendung registriert." in text


# What caches and other requests see -----------------------------------------------------------------------------------


def test_a_page_says_what_its_language_depends_on(client: Client) -> None:
    vary = {name.strip() for name in client.get(SIGN_IN)["Vary"].split(",")}
    assert {"Accept-Language", "Cookie"} <= vary


def test_other_answers_have_no_language(client: Client, application: Registered) -> None:
    for path in (
        "/health/live",
        "/openapi.json",
        "/oauth/userinfo",
        link_of(application),
        "/static/css/site.css",
    ):
        answer = client.get(path, headers={"accept-language": "de"})
        assert "Content-Language" not in answer.headers, path
        assert "Accept-Language" not in answer.headers.get("Vary", ""), path


def test_no_language_is_left_to_the_next_request_of_the_thread(rf: RequestFactory) -> None:
    seen: list[str | None] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(translation.get_language())
        if request.GET:
            raise ValueError
        return HttpResponse()

    def work() -> None:
        middleware = LanguageMiddleware(view)
        middleware(rf.get("/", headers={"accept-language": "ar"}))
        with pytest.raises(ValueError, match=r"^$"):
            middleware(rf.get("/?fail=1", headers={"accept-language": "de"}))
        seen.append(translation.get_language())
        middleware(rf.get("/oauth/token", headers={"accept-language": "ar"}))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == ["ar", "de", "en", "en"]


# What stays English ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/accounts/nowhere", "/oauth/nowhere", "/oauth/token", "/oauth/token/", "/nowhere"])
def test_json_is_english(client: Client, path: str) -> None:
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    german = client.get(path, headers={"accept": "application/json", "accept-language": "de"})
    client.cookies.clear()
    english = client.get(path)
    said, meant = (
        each.json()["error_description"].removesuffix(f"{each['X-Reference']}.") for each in (german, english)
    )
    assert said == meant
    assert json.dumps(german.json()).isascii()


def test_an_error_at_the_callback_is_english(client: Client, application: Registered) -> None:
    answer = client.get(link_of(application, response_type="token", ui_locales="ar"), headers={"accept-language": "ar"})
    description = parse_qs(urlsplit(answer["Location"]).query)["error_description"][0]
    assert description.startswith("The response_type is not supported. Send response_type=code. Reference ")


def test_a_sentence_on_a_page_is_translated_with_the_words_in_it() -> None:
    parts = TranslatableText("the fragment", "the query", "the slash at the end")
    assert "Check the fragment, the query and the slash at the end of" in OAuthFault.REDIRECT_URI_MISMATCH.describe(
        parts=parts
    )
    with translation.override("de"):
        assert OAuthFault.REDIRECT_URI_MISMATCH.translate(parts=parts).endswith(
            "Prüfen Sie in der Adresse im Link: das Fragment, die Abfrageparameter und der Schrägstrich am Ende."
        )
        assert "Check the fragment, the query and" in OAuthFault.REDIRECT_URI_MISMATCH.describe(parts=parts)
        assert OAuthFault.MISSING.translate(name='"\n<') == OAuthFault.MISSING.translate(name="??<")


def test_the_page_of_a_header_that_is_too_long_is_translated(client: Client) -> None:
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "de", "origin": "x" * 3000})
    assert (answer.status_code, spoken(answer)) == (431, "de")
    assert "Der Browser hat zu viel gesendet" in answer.content.decode()
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": f"de,{'x' * 3000}"})
    assert (answer.status_code, spoken(answer)) == (431, "en")


def test_a_fault_of_ours_is_translated(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("accounts.sign_in.views.SignInView.get_context_data", fail)
    client.raise_request_exception = False
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "zh-CN"})
    assert (answer.status_code, spoken(answer)) == (500, "zh-hans")
    assert "操作未成功" in answer.content.decode()


# Two origins ----------------------------------------------------------------------------------------------------------


def test_the_api_host_sets_no_cookie_and_has_no_switcher(
    client: Client, application: Registered, settings: Any
) -> None:
    settings.BASE_URL, settings.AUTH_URL = "https://api.example.com", "https://auth.example.com"
    settings.ALLOWED_HOSTS = ["api.example.com", "auth.example.com"]
    answer = client.get(link_of(application, ui_locales="de"), headers={"host": "api.example.com"})
    assert (answer.status_code, len(answer.cookies)) == (302, 0)
    assert "ui_locales=de" in answer["Location"]
    page = client.get("/nowhere", headers=PAGE | {"host": "api.example.com", "accept-language": "de"})
    assert spoken(page) == "de"
    assert "/accounts/language" not in page.content.decode()
    there = client.get("/nowhere", headers=PAGE | {"host": "auth.example.com"})
    assert "/accounts/language" in there.content.decode()


def test_the_address_of_a_link_is_kept_byte_for_byte(client: Client, application: Registered) -> None:
    state = "%FF%00a%20b+c%2Fd"
    answer = client.get(f"{link_of(application, client_id='unknown')}&state={state}", headers=PAGE)
    assert f"&amp;state={state}" in answer.content.decode()
    assert quote(state) not in answer.content.decode()
