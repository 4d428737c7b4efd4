"""Which language a page speaks, and what stays English."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from config.infrastructure.errors import TranslatableText
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
    assert f'<html lang="{language}" dir="{direction}">' in response.text
    return str(language)


def language_of(client: Client, path: str = SIGN_IN, accept: str = "") -> str:
    return spoken(client.get(path, headers=PAGE | ({"accept-language": accept} if accept else {})))


# The choice -----------------------------------------------------------------------------------------------------------


def test_the_browser_prefers_a_language_and_the_person_s_choice_comes_before(client: Client) -> None:
    for accept, language in {
        "": "en",
        "de-AT,en;q=0.5": "de",
        "nl, fr;q=0.8, en;q=0.7": "fr",
        "pt-PT": "pt-br",
        "zh-CN": "zh-hans",
        "zh-SG": "zh-hans",
        "ar-EG": "ar",
        "nl": "en",
        "*": "en",
        "\x00, de;q=x": "en",
    }.items():
        assert language_of(client, accept=accept) == language, accept
        assert translation.get_language() == "en", "none is left to the next request of the thread"
    for chosen, language in (("fr", "fr"), ("klingon", "de")):
        client.cookies[settings.LANGUAGE_COOKIE_NAME] = chosen
        assert language_of(client, accept="de") == language


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
    assert language_of(client, f"{SIGN_IN}?ui_locales=de&client_id=x") == "en", "only authorize reads it"
    sign_in = client.get(link_of(application, ui_locales="es"))["Location"]
    pending = parse_qs(urlsplit(sign_in).query)["next"][0]
    assert settings.UI_LOCALES_COOKIE_NAME not in client.get(pending).cookies
    page = client.get(SIGN_IN, headers=PAGE)
    assert spoken(page) == "es"
    assert {"Accept-Language", "Cookie"} <= {name.strip() for name in page["Vary"].split(",")}
    assert client.get(link_of(application)).cookies[settings.UI_LOCALES_COOKIE_NAME].value == ""
    assert language_of(client) == "en"


def test_the_cookie_is_sent_only_when_it_changes(client: Client, application: Registered) -> None:
    name = settings.UI_LOCALES_COOKIE_NAME
    assert name not in client.get(link_of(application)).cookies
    for wish, sent in (("de", ["de"]), ("de", []), ("fr", ["fr"])):
        cookies = client.get(link_of(application, ui_locales=wish)).cookies
        assert [cookie.value for cookie in cookies.values() if cookie.key == name] == sent


def test_ui_locales_is_read_as_it_is_written_and_never_fails(client: Client, application: Registered) -> None:
    for value in ("de", "de-AT", "DE", "xx+de", "de+fr", "%64e", "de&ui_locales=fr", "%20de%20"):
        browser = Client()
        browser.get(f"{link_of(application)}&ui_locales={value}")
        assert language_of(browser) == "de", value
    long = ("x" * 32_000, "+".join(["xx"] * 1000), "-" * 300)
    for value in ("", "%00", "de%00", "%FF%FE", "%", *long, "../../etc/passwd", "de;q=1", "%0D%0ASet-Cookie:a=b", "*"):
        answer = client.get(f"{link_of(application)}&ui_locales={value}", headers={"accept-language": "fr"})
        assert (answer.status_code, answer["Location"].partition("?")[0]) == (302, SIGN_IN), value
        assert settings.UI_LOCALES_COOKIE_NAME not in answer.cookies, value


# What caches and other requests see -----------------------------------------------------------------------------------


def test_other_answers_have_no_language(client: Client, application: Registered) -> None:
    paths = ("/health/live", "/openapi.json", "/oauth/userinfo", link_of(application), "/static/css/site.css")
    for path in paths:
        answer = client.get(path, headers={"accept-language": "de"})
        assert "Content-Language" not in answer.headers, path
        assert "Accept-Language" not in answer.headers.get("Vary", ""), path


# What stays English ---------------------------------------------------------------------------------------------------


def test_json_and_an_error_at_the_callback_are_english(application: Registered) -> None:
    client, german = Client(), Client(headers={"accept": "application/json", "accept-language": "de"})
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
    fault, parts = (
        OAuthFault.REDIRECT_URI_MISMATCH,
        TranslatableText("the fragment", "the query", "the slash at the end"),
    )
    with translation.override("de"):
        assert fault.translate(parts=parts).endswith(
            "Prüfen Sie in der Adresse im Link: das Fragment, die Abfrageparameter und der Schrägstrich am Ende."
        )
        assert "Check the fragment, the query and the slash at the end of" in fault.describe(parts=parts)
        assert OAuthFault.MISSING.translate(name='"\n<') == OAuthFault.MISSING.translate(name="??<")


def test_pages_of_errors_are_translated(
    client: Client, application: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = client.get(link_of(application, client_id="unknown", ui_locales="de"), headers=PAGE)
    assert spoken(answer) == "de"
    assert "Diese Anmeldung kann nicht fortgesetzt werden" in answer.text
    assert "Mit dieser client_id ist keine Anwendung registriert." in answer.text
    client = Client(raise_request_exception=False)
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "de", "origin": "x" * 3000})
    assert (answer.status_code, spoken(answer)) == (431, "de")
    assert "Der Browser hat zu viel gesendet" in answer.text
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": f"de,{'x' * 3000}"})
    assert (answer.status_code, spoken(answer)) == (431, "en")
    monkeypatch.setattr("accounts.sign_in.views.SignInView.get_context_data", None)
    answer = client.get(SIGN_IN, headers=PAGE | {"accept-language": "zh-CN"})
    assert (answer.status_code, spoken(answer)) == (500, "zh-hans")
    assert "操作未成功" in answer.text
    assert translation.get_language() == "en", "none is left to the next request of the thread"


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
    assert "/accounts/language" not in page.text
    there = client.get("/nowhere", headers=PAGE | {"host": "auth.example.com"})
    assert "/accounts/language" in there.text
