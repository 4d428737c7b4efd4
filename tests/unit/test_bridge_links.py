"""The addresses of an application's own pages: which can be registered, and how their hosts are shown."""

from __future__ import annotations

import re

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from oauth_bridge.models import Application
from oauth_bridge.page_addresses import shown_host, validate_page, validate_sign_in_start
from tests.factories import ApplicationFactory, PersonFactory
from tests.grants import PAGE, link_of
from tests.pages import html_of, with_session

CYRILLIC = "https://\u0440\u0430\u0443\u0440\u0430l.example/"  # "раураl": Cyrillic, but for the last letter
WHOLLY_CYRILLIC = "https://\u0430\u0440\u0440\u04cf\u0435.example/"  # reads "apple", not one letter of it is Latin


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://READING.example:8443/a", "reading.example:8443"),
        ("http://[::1]:3000/", "[::1]:3000"),
        (CYRILLIC, "xn--l-7sba6dbr.example"),
        (WHOLLY_CYRILLIC, "xn--80ak6aa92e.example"),
        ("https://fa\u00df.example/", "xn--fa-hia.example"),  # as browsers do; IDNA 2003 would lead to fass.example
        ("https://\uff52eading.example/", "reading.example"),  # a wide letter is the same name to a browser
        ("https://bank.example@evil.example/", "evil.example"),
        ("https://evil.example\u2044bank.example/", ""),
        ("https://a\u202eb.example/", ""),
        ("https://reading.example:x/", ""),
        ("", ""),
    ],
)
def test_a_host_is_shown_as_browsers_send_it(address: str, shown: str) -> None:
    assert shown_host(address) == shown


@pytest.mark.parametrize("address", [CYRILLIC, WHOLLY_CYRILLIC])
def test_letters_of_another_alphabet_deceive_nobody_on_any_page(db: None, client: Client, address: str) -> None:
    application = ApplicationFactory(homepage=address, policy_uri=f"{address}privacy")
    wrong = link_of(application, redirect_uri=f"{application.redirect_uri}x")
    person = with_session(PersonFactory())
    asked = [(client, link_of(application), True), (client, wrong, False), (person, link_of(application), True)]
    for browser, link, is_shown in asked:
        page = html_of(browser.get(link, headers=PAGE, follow=True))
        assert not re.search("[\u0400-\u04ff]", re.sub(r"<[^>]+>", " ", page))
        assert (shown_host(address) in page) is is_shown


def test_the_host_that_a_person_goes_back_to_stays_in_punycode(db: None) -> None:
    application = ApplicationFactory(redirect_uris="https://xn--80ak6aa92e.example/callback")
    application.row.full_clean()
    page = with_session(PersonFactory()).get(link_of(application), headers=PAGE, follow=True)
    assert "<bdi>xn--80ak6aa92e.example</bdi>" in html_of(page)


@pytest.mark.parametrize("field", ["homepage", "policy_uri", "tos_uri", "initiate_login_uri"])
def test_an_address_that_is_no_page_can_not_be_registered(field: str) -> None:
    addresses = [
        "javascript:alert(1)",
        "ftp://reading.example/",
        "/privacy",
        "https://",
        "https://bank.example@evil.example/",
        "https://user:password@reading.example/",
        "https://reading.example:99999/",
        "https://reading.example/a b",
        "https://xn--a.example\u2044b.example/",
    ]
    for address in addresses:
        application = Application(name="Reading List", redirect_uris="https://reading.example/cb", **{field: address})
        with pytest.raises(ValidationError) as refused:
            application.clean_fields()
        assert set(refused.value.message_dict) == {field}, address


def test_a_page_is_https_or_http_and_a_sign_in_starts_at_https_or_on_this_machine() -> None:
    for address in ("https://reading.example/", "http://intranet.example/a?b=c#d", WHOLLY_CYRILLIC):
        validate_page(address)
    for address in (
        "https://a.example/start?via=oauth",
        "http://localhost:3000/",
        "http://127.0.0.1/a",
        "http://[::1]/",
    ):
        validate_sign_in_start(address)
    for address in ("http://reading.example/start", "http://localhost.example/", "http://127.0.0.2/"):
        with pytest.raises(ValidationError, match="Use https"):
            validate_sign_in_start(address)
