"""What an application and a person's browser send to the operations, with Django's test client."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.test import Client

from tests.factories import Issued, Registered
from tests.pages import html_of

FORM = "application/x-www-form-urlencoded"
PAGE = {"accept": "text/html"}


def link_of(application: Registered, **more: str) -> str:
    query = {"client_id": application.client_id, "redirect_uri": application.redirect_uri, "response_type": "code"}
    return f"/oauth/authorize?{urlencode(query | more)}"


def browser_at_pages() -> Client:
    return Client(headers={"host": urlsplit(settings.AUTH_URL).netloc})


def consent_page(browser: Client, application: Registered) -> str:
    """The HTML of the page, or "" where no page is shown."""
    response = browser.get(link_of(application), headers=PAGE)
    if response["Location"].startswith("/oauth/authorize"):
        response = browser.get(response["Location"], headers=PAGE)
    return html_of(response)


def answer(browser: Client, page: str, decision: str = "allow", **more: str) -> Any:
    """The answer to the form on the consent page."""
    pending = re.search(r'name="pending" value="([^"]+)"', page)
    assert pending
    fields = {"pending": unescape(pending[1]), "decision": decision, **more}
    return browser.post("/oauth/authorize", urlencode(fields), content_type=FORM)


def redeem(application: Registered, code: Issued) -> Any:
    form = {"grant_type": "authorization_code", "code": code.raw}
    form |= {"client_id": application.client_id, "client_secret": application.secret}
    return browser_at_pages().post("/oauth/token", urlencode(form), content_type=FORM)


def read(token: str) -> Any:
    return browser_at_pages().get("/oauth/userinfo", headers={"authorization": f"Bearer {token}"})
