"""The documents below /docs: served to everybody, cacheable, and true of the service."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from oauth_bridge.api_docs import openapi
from oauth_bridge.api_docs.documents import TITLES
from tests.factories import ApplicationFactory
from tests.pages import admin_browser, html_of, text_of

pytestmark = pytest.mark.django_db

PATHS = ["/docs", *(f"/docs/{name}" for name in TITLES if name != "index")]
# What a reader fills in.
SECRETS = {"CLIENT_SECRET", "CODE", "ACCESS_TOKEN"}
LEFT = SECRETS | {"CLIENT_ID", "COOKIE_SECRET", "PASSPHRASE", "REDIRECT_URI", "STATE", "NONCE", "YOUR_HOST"}


def test_a_page_is_for_everybody_and_every_cache() -> None:
    client, grace = Client(), admin_browser()
    for path in PATHS:
        page = client.get(path)
        assert page.status_code == 200
        assert page["Cache-Control"] == "public, max-age=300"
        assert page["Vary"] == "Accept-Language, Cookie"
        assert "script-src 'self'" in page["Content-Security-Policy"]
        assert not page.cookies
        assert client.get(path, headers={"If-None-Match": page["ETag"]}).status_code == 304
        assert html_of(grace.get(path)) == html_of(page), "it does not depend on who reads it"


def test_a_document_stays_english_on_a_page_in_another_language_and_no_other_file_is_served() -> None:
    page = Client().get("/docs/guide", headers={"Accept-Language": "de"})
    assert page["Content-Language"] == "de"
    assert '<article class="document" lang="en" dir="ltr">' in html_of(page)
    assert "Exchange the code" in text_of(page)
    for path in ("/docs/nothing", "/docs/operations", "/docs/guide.md", "/docs/../README"):
        assert Client().get(path).status_code == 404, path


def test_the_addresses_are_those_of_this_service_and_nothing_else_is_left_to_fill_in(settings: Any) -> None:
    settings.AUTH_URL, settings.BASE_URL = "https://sign-in.example", "https://api.example"
    settings.ALLOWED_HOSTS = ["sign-in.example"]
    client = Client(headers={"Host": "sign-in.example"})
    for path in PATHS:
        page = html_of(client.get(path))
        assert "http://testserver" not in page
        assert path == "/docs/errors" or ("https://api.example/o" in page and "https://sign-in.example/o" in page)
        assert set(re.findall(r"\{([A-Z_]+)\}", page)) <= LEFT


def test_the_reference_has_each_parameter_and_each_answer() -> None:
    page = html_of(Client().get("/docs/reference"))
    paths = openapi.document()["paths"]
    for path, method in (("/oauth/authorize", "get"), ("/oauth/token", "post"), ("/oauth/userinfo", "get")):
        section = page.partition(f"<code>{method.upper()} {path}</code></h2>")[2].partition("<h2")[0]
        operation = paths[path][method]
        body = operation.get("requestBody", {"content": {"application/x-www-form-urlencoded": {"schema": {}}}})
        form = body["content"]["application/x-www-form-urlencoded"]["schema"].get("properties", {})
        names = [*(each["name"] for each in operation.get("parameters", ())), *form]
        assert [name for name in names if f"<code>{name}</code>" not in section] == []
        assert [status for status in operation["responses"] if f"<strong>{status}</strong>" not in section] == []
        source = openapi.source()
        marks = [source["paths"][path][method], *([source["x-callback"]] if path == "/oauth/authorize" else [])]
        for fault, sentence in (error for each in marks for error in openapi.errors_of(source, each)):
            row = rf"<td><code>{fault.error}</code></td>\s*<td>{re.escape(escape(sentence))}"
            assert re.search(row, section), fault.name
    assert "&quot;expires_in&quot;: 3600" in page
    assert "&quot;nickname&quot;: &quot;Ada&quot;" in page


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_an_application_has_snippets_with_its_values_and_no_secret_and_what_a_product_asks_for(
    client_type: str, settings: Any
) -> None:
    """tests/clients/test_snippets.py runs the snippets."""
    settings.BASE_URL, settings.AUTH_URL = "https://api.example", "http://testserver"
    given = ApplicationFactory(client_type=client_type, id_token_alg="ES256")
    page = admin_browser().get(reverse("admin:application", args=[given.row.pk]))
    texts = dict(page.context["snippets"])
    assert list(texts) == ["curl", "Python", "Node", "PHP"]
    for label, text in texts.items():
        assert given.client_id in text, label
        assert ("client_secret" in text.lower()) is (client_type == "confidential"), label
        assert set(re.findall(r"\{([A-Z_]+)\}", text)) <= SECRETS
    if given.secret:
        assert given.secret not in html_of(page)
    api, pages = settings.BASE_URL, settings.AUTH_URL
    to_copy = {"client-id": given.client_id, "setting-1-1": api, "setting-1-3": "openid profile email"}
    to_copy |= {"setting-2-1": f"{pages}/oauth/authorize", "setting-2-2": f"{api}/oauth/token", "setting-2-5": "ES256"}
    for name, value in to_copy.items():
        assert f'<code id="{name}">{value}</code> <button' in html_of(page)
    assert ("None: it makes a proof for each sign-in" in html_of(page)) is (client_type == "public")
