"""An error page speaks to the person first, and below a line to the developer. D3, D4, D19."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.test import Client

from oauth_bridge.redirect_uri_likely_faults import mark_likely_differences
from tests.factories import Registered
from tests.grants import PAGE, link_of
from tests.pages import html_of

pytestmark = pytest.mark.django_db


def page_of(application: Registered, **changes: str) -> str:
    return html_of(Client().get(link_of(application, **changes), headers=PAGE))


def layers(page: str) -> tuple[str, str]:
    parts = page.replace("</dt>", " ").split('<section class="developer"')
    person, developer = (unescape(re.sub(r"<[^>]+>", "", part)) for part in parts)
    return " ".join(person.split()), " ".join(developer.split())


def test_a_known_application_is_named_and_is_the_way_back(application: Registered) -> None:
    page = page_of(application, redirect_uri="https://evil.example/callback")
    person, developer = layers(page)
    assert f"{application.row.name} sent you here" in person
    assert "Nothing was shared" in person
    assert "Go back to the application" not in person
    assert f'href="{application.row.homepage}"' in page
    assert "evil.example" not in person
    assert "evil.example" in developer
    assert 'href="https://evil.example' not in page
    assert application.redirect_uri not in page, "nothing that is registered is shown"


def test_an_application_that_is_unknown_or_switched_off_is_not_named(application: Registered) -> None:
    page = page_of(application, client_id="unknown")
    person, developer = layers(page)
    assert application.row.name not in person + developer
    assert "Nothing was shared" in person
    assert "Go back to the application and try again." in person
    assert 'class="button"' not in page
    assert "No application with this client_id is registered" in developer
    application.row.is_enabled = False
    application.row.save()
    person, developer = layers(page_of(application))
    assert "switched off" in person
    assert application.row.name not in person + developer


def test_a_sign_out_that_cannot_go_on_says_that_nothing_ended(application: Registered) -> None:
    sent = {"client_id": "unknown", "post_logout_redirect_uri": "x"}
    person, developer = layers(html_of(Client().get("/oauth/logout", sent, headers=PAGE)))
    assert "If you were signed in here, you still are." in person
    assert "Nothing was shared" not in person
    assert "tell its operator" not in person
    assert "No application with this client_id is registered" in developer


def test_a_limited_sign_in_is_told_to_wait_and_not_that_it_ends(application: Registered, settings: Any) -> None:
    settings.RATES = {"authorize": "1/h"}
    page_of(application)
    page = page_of(application)
    assert "Please wait" in page
    assert "This sign-in can't go on" not in unescape(page)
    assert "made a mistake in its link" not in page


def test_the_developer_finds_the_cause_the_marked_address_the_time_and_the_reference(application: Registered) -> None:
    _, developer = layers(page_of(application, redirect_uri="https://reading.example/callback/"))
    assert re.search(
        r"For the developer The redirect_uri is not one that is registered .*"
        r" Sent https://reading\.example/callback/ Error invalid_request, status 400"
        r" Time \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC Documentation What each error means Reference [0-9A-HJKMNP-TV-Z]{8}",
        developer,
    )
    page = page_of(application, redirect_uri="https://reading.example/<b>/")
    assert "https://reading.example/&lt;b&gt;<mark>/</mark>" in page
    _, developer = layers(page_of(application, redirect_uri=f"https://reading.example/{'x' * 1000}"))
    assert "x" * 300 in developer
    assert "x" * 401 not in developer


@pytest.mark.parametrize(
    ("address", "marked"),
    [
        ("https://reading.example:8443/callback", []),
        ("http://reading.example/callback", ["http:"]),
        ("https://reading.example/callback?a=b#c", ["?a=b#c"]),
        ("http://127.0.0.1:8000/callback", []),
        ("http://localhost:8000/callback/", ["/"]),
        ("https://Reading.example/Callback", ["R", "C"]),
        ("https://reading.example/call%2Fback", []),
        ("'https://reading.example/“callback", ["'", "“"]),
        ("https://reading.example/call backé", [" ", "é"]),
        ("", []),
    ],
)
def test_only_what_the_sent_address_shows_by_itself_is_marked(address: str, marked: list[str]) -> None:
    pieces = mark_likely_differences(address)
    assert "".join(text for text, _ in pieces) == address
    assert [text for text, is_suspect in pieces if is_suspect] == marked
