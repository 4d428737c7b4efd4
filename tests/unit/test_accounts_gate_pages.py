"""The pages on the way to an application name it, on the sign-in page and on those that it leads to."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from accounts import return_path
from accounts.models import User
from tests.pages import html_of, sign_in, with_session

pytestmark = pytest.mark.django_db
RETURN_TO = "/oauth/authorize?pending=x"


@pytest.fixture
def sign_in_page(client: Client) -> str:
    address = return_path.sign_in_url(RETURN_TO, name="Photo <Printer>", host="photo.example")
    return html_of(client.get(address))


def test_the_way_to_a_new_password_follows_the_password_and_names_the_application(
    client: Client, sign_in_page: str
) -> None:
    link = re.search(r'<a href="([^"]+)">Forgot it\?</a>', sign_in_page)
    assert link
    assert re.search(r'<button\s+class="reveal"[^>]*\bhidden\b', sign_in_page), "it needs a script"
    assert sign_in_page.index('name="password"') < link.start() < sign_in_page.index('type="submit"')
    reset = html_of(client.get(unescape(link[1])))
    assert "photo.example" in reset
    back = re.search(r'<a href="([^"]+)">Back to sign-in</a>', reset)
    assert back
    assert "Photo &lt;Printer&gt;" in html_of(client.get(unescape(back[1])))
    action = re.search(r'<form method="post" action="([^"]+)"', reset)
    assert action
    assert "photo.example" in html_of(client.post(unescape(action[1]), {"email": "nobody"})), "with an error too"


def test_the_sign_out_page_names_the_application_that_is_continued_to(alice: User) -> None:
    page = html_of(with_session(alice).get(return_path.switch_account_url(RETURN_TO, name="Photo Printer")))
    assert "to continue to <bdi>Photo Printer</bdi>" in page
    assert f'href="{RETURN_TO}">Stay signed in' in page


def test_mallory_can_name_no_application_on_any_of_them(client: Client, alice: User) -> None:
    own = return_path.sign_in_url(RETURN_TO, name="Photo Printer").partition("for=")[2]
    for path, browser in (("sign-in", client), ("password/reset", client), ("sign-out", with_session(alice))):
        for signed in (own, "Photo Printer"):
            page = html_of(browser.get(f"/accounts/{path}?next=/evil&for={signed}"))
            assert "<h1" in page
            assert "Photo Printer" not in page


def test_a_caption_has_a_capital_and_knows_when_its_name_is_long() -> None:
    assert return_path.Caption("reading list").initial == "R"
    assert not return_path.Caption("x" * 30).is_long
    assert return_path.Caption("x" * 31).is_long


@pytest.mark.usefixtures("sign_up_is_open")
def test_an_error_stands_once_at_its_field_or_in_a_summary_and_the_first_has_the_focus(client: Client) -> None:
    page = html_of(client.post("/accounts/sign-in", {"login": "nobody", "password": "x"}))
    assert page.count("Type an e-mail address") == 1
    assert 'role="alert"' not in page
    (wrong,) = re.findall(r"<input[^>]*aria-invalid[^>]*>", page)
    assert " autofocus" in wrong
    described_by = re.search(r'aria-describedby="([^"]+)"', wrong)
    assert described_by
    assert all(f'id="{name}"' in page for name in described_by[1].split())
    page = html_of(client.post("/accounts/sign-up", {"email": "nobody", "password1": "short"}))
    assert page.count("Type an e-mail address") == page.count("This password is too short") == 1
    assert page.count('role="alert"') == page.count(" autofocus") == 1
    assert '<a href="#id_email">E-mail address</a>' in page
    assert '<a href="#id_password1">Password</a>' in page
    page = html_of(sign_in(client, "nobody@example.org"))
    assert page.count("The e-mail address or the password is not right.") == 1, "no field is wrong about it"
    assert page.count('role="alert"') == page.count(" autofocus") == 1
