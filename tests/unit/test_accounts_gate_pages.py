"""The pages on the way to an application name it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from accounts import return_path
from oauth_bridge.models import Caption
from tests.grants import pending_path
from tests.pages import html_of

pytestmark = pytest.mark.django_db


def test_the_way_to_a_new_password_and_back_names_the_application(client: Client) -> None:
    page = html_of(client.get(return_path.sign_in_url(pending_path("Photo <Printer>"))))
    (link,) = re.findall(r'<a href="([^"]+)">Forgot it\?</a>', page)
    assert page.index('name="password"') < page.index(link) < page.index('type="submit"')
    reset = html_of(client.get(unescape(link)))
    (back,) = re.findall(r'<a href="([^"]+)">Back to sign-in</a>', reset)
    assert "Photo &lt;Printer&gt;" in html_of(client.get(unescape(back)))
    action = re.findall(r'<form method="post" action="([^"]+)"', reset)[0]
    for page in (reset, html_of(client.post(unescape(action), {"email": "nobody"}))):
        assert "client.example" in page, "with an error too"


def test_the_letter_in_place_of_a_logo_is_what_a_reader_sees_as_one_character() -> None:
    for whole in ("", "R", "É", "E\u0301", "👩🏽‍🚀", "❤️", "👍🏿", "नि"):
        assert Caption(whole and f"{whole}🇳🇴 List").initial == whole
    assert Caption("🇳🇴🇳🇴").initial == "🇳🇴"
