"""An error page speaks to the person first, and below a line to the developer."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client

from tests.factories import ApplicationFactory, Registered
from tests.grants import PAGE, link_of
from tests.pages import html_of

pytestmark = pytest.mark.django_db


def page_of(application: Registered, **changes: str) -> str:
    return html_of(Client().get(link_of(application, **changes), headers=PAGE))


def sign_out_page(**sent: str) -> str:
    return html_of(Client().get("/oauth/logout", sent, headers=PAGE))


def layers(page: str) -> tuple[str, str]:
    parts = page.replace("</dt>", " ").split('<section class="developer"')
    person, developer = (unescape(re.sub(r"<[^>]+>", "", part)) for part in parts)
    return " ".join(person.split()), " ".join(developer.split())


def test_a_known_application_is_named_and_is_the_way_back_and_an_unknown_one_is_not(application: Registered) -> None:
    page = page_of(application, redirect_uri="https://evil.example/callback")
    person, developer = layers(page)
    assert f"{application.row.name} sent you here" in person
    assert "Nothing was shared" in person
    assert f'href="{application.row.homepage}"' in page
    assert ("evil.example" in person, "evil.example" in developer) == (False, True)
    assert 'href="https://evil.example' not in page
    assert application.redirect_uri not in page, "nothing that is registered is shown"
    page = page_of(application, client_id="unknown")
    person, developer = layers(page)
    assert application.row.name not in person + developer
    assert "Go back to the application and try again." in person
    assert 'class="button"' not in page
    assert "No application with this client_id is registered" in developer
    person, _ = layers(sign_out_page(client_id="unknown", post_logout_redirect_uri="x"))
    assert "If you were signed in here, you still are." in person
    assert "Nothing was shared" not in person


def test_an_application_that_is_switched_off_is_named_and_nobody_is_told_to_try_again(application: Registered) -> None:
    application.row.name, application.row.is_enabled = "100% off %(name)s", False
    application.row.save()
    for changes in ({}, {"redirect_uri": "https://evil.example/"}, {"response_type": "token"}):
        page = page_of(application, **changes)
        person, developer = layers(page)
        assert "100% off %(name)s is switched off here" in person
        assert "try again" not in person
        assert "mistake" not in person
        assert "evil.example" not in person + developer
    sent = {"client_id": application.client_id, "post_logout_redirect_uri": "https://app.example/after"}
    person, _ = layers(sign_out_page(**sent))
    assert "The application is switched off." in person
    assert "mistake" not in person


def test_the_application_is_blamed_for_what_is_wrong_with_its_link_alone(application: Registered) -> None:
    person, developer = layers(page_of(application, redirect_uri=""))
    assert f"{application.row.name} sent you here without the callback address" in person
    assert "The parameter redirect_uri is missing" in developer
    person, _ = layers(html_of(Client().get(link_of(application), headers={**PAGE, "Host": "another.example"})))
    assert "mistake" not in person


def test_the_developer_finds_the_cause_the_address_the_time_and_the_reference(application: Registered) -> None:
    _, developer = layers(page_of(application, redirect_uri="https://reading.example/callback/"))
    assert re.search(
        r"For the developer The redirect_uri is not one that is registered .*"
        r" Sent https://reading\.example/callback/ Error invalid_request, status 400"
        r" Time \d+ \w+ \d{4}, \d\d:\d\d:\d\d UTC Documentation What each error means Reference [0-9A-HJKMNP-TV-Z]{8}",
        developer,
    )
    _, developer = layers(page_of(application, redirect_uri=f"https://reading.example/<b>/{'x' * 1000}"))
    assert f"https://reading.example/<b>/{'x' * 300}" in developer
    assert "x" * 400 not in developer


LOOPBACK, APP, TENANT = (
    "http://127.0.0.1:8000/callback",
    "https://app.example/cb",
    "https://app.example/cb?tenant=a&x=1",
)
ENCODING = "the percent-encoding (the & and + of an address in a link are %26 and %2B)"
HOST = "the host (localhost and 127.0.0.1 are different addresses)"
# The registered address, the sent one as it stands in the link, and what is named.
DIFFERENCES = [
    (TENANT, TENANT, ENCODING),
    ("https://app.example/cb?q=a+b", "https://app.example/cb?q=a+b", ENCODING),
    (APP, "https%3A%2F%2Fapp.example%2Fcb%3Fa%3D1&utm_source=x", "the query"),
    (APP, "http://localhost:8000/cb", "every part"),
    (LOOPBACK, "http://127.0.0.1:8000/calback", "the path"),
    (LOOPBACK, "127.0.0.1:8000/callback", "the missing scheme"),
    (LOOPBACK, "http://[::1]:8001/callback", f"{HOST} and the port"),
    (LOOPBACK, "https://localhost:8000/other", f"the scheme, {HOST} and the path"),
    ("http://[::1]/cb/", "http://[::1]/cb", "the slash at the end"),
    # A public application: any port is right.
    ("http://127.0.0.1/cb", "http://127.0.0.1:51004/other", "the path"),
    ("http://127.0.0.1/cb", "http://localhost:51004/cb", HOST),
]


def test_only_what_differs_is_named() -> None:
    for registered, sent, checked in DIFFERENCES:
        kind = "public" if registered == "http://127.0.0.1/cb" else "confidential"
        application = ApplicationFactory(redirect_uris=registered, client_type=kind)
        query = f"client_id={application.client_id}&redirect_uri={sent}&response_type=code&state=s"
        description = Client().get(f"/oauth/authorize?{query}").json()["error_description"]
        assert f"Check {checked} of the one in the link." in description, sent
