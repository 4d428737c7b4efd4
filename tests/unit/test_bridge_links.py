"""The addresses of an application's own pages: which can be registered, and how their hosts are shown."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from oauth_bridge.models import Application
from oauth_bridge.page_addresses import shown_host, validate_page, validate_sign_in_start
from tests.factories import ApplicationFactory, PersonFactory

CYRILLIC = "https://\u0440\u0430\u0443\u0440\u0430l.example/"  # "раураl": Cyrillic, but for the last letter
WHOLLY_CYRILLIC = "https://\u0430\u0440\u0440\u04cf\u0435.example/"  # reads "apple", not one letter of it is Latin


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://reading.example/", "reading.example"),
        ("https://READING.example:8443/a", "reading.example:8443"),
        ("http://[::1]:3000/", "[::1]:3000"),
        (CYRILLIC, "xn--l-7sba6dbr.example"),
        (WHOLLY_CYRILLIC, "xn--80ak6aa92e.example"),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example"),
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
def test_letters_of_another_alphabet_deceive_nobody_on_any_page(db: None, address: str) -> None:
    person, application = PersonFactory(), ApplicationFactory(homepage=address, policy_uri=f"{address}privacy")
    link = f"/oauth/authorize?client_id={application.client_id}&redirect_uri={application.redirect_uri}"
    client = Client(headers={"Accept": "text/html"})
    pages = [client.get(f"{link}&response_type=code", follow=True), client.get(f"{link}x&response_type=code")]
    client.force_login(person)
    pages.append(client.get(f"{link}&response_type=code", follow=True))
    for page in pages:
        read = re.sub(r"<[^>]+>", " ", page.content.decode())
        assert read.isascii() or not re.search("[\u0400-\u04ff]", read)
    assert [shown_host(address) in page.content.decode() for page in pages] == [True, False, True]


@pytest.mark.parametrize("host", ["xn--80ak6aa92e.example", "xn--bcher-kva.example"])
def test_the_host_that_a_person_goes_back_to_stays_in_punycode(db: None, host: str) -> None:
    application = ApplicationFactory(redirect_uris=f"https://{host}/callback")
    application.row.full_clean()
    client = Client(headers={"Accept": "text/html"})
    client.force_login(PersonFactory())
    link = f"/oauth/authorize?client_id={application.client_id}&redirect_uri={application.redirect_uri}"
    assert f"<bdi>{host}</bdi>" in client.get(f"{link}&response_type=code", follow=True).content.decode()


PAGES = ["homepage", "policy_uri", "tos_uri", "initiate_login_uri"]


@pytest.mark.parametrize("field", PAGES)
@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "data:text/html,x",
        "ftp://reading.example/",
        "/privacy",
        "https://",
        "https://bank.example@evil.example/",
        "https://user:password@reading.example/",
        "https://reading.example:99999/",
        "https://reading.example/a b",
        "https://xn--a.example\u2044b.example/",
    ],
)
def test_an_address_that_is_no_page_can_not_be_registered(field: str, address: str) -> None:
    application = Application(name="Reading List", redirect_uris="https://reading.example/cb", **{field: address})
    with pytest.raises(ValidationError) as refused:
        application.clean_fields()
    assert set(refused.value.message_dict) == {field}


@pytest.mark.parametrize("address", ["https://reading.example/", "http://intranet.example/a?b=c#d", WHOLLY_CYRILLIC])
def test_a_page_may_be_https_or_http(address: str) -> None:
    validate_page(address)


@pytest.mark.parametrize(
    "address",
    ["https://reading.example/start?via=oauth", "http://localhost:3000/", "http://127.0.0.1/a", "http://[::1]/"],
)
def test_a_sign_in_starts_at_https_or_on_this_machine(address: str) -> None:
    validate_sign_in_start(address)


@pytest.mark.parametrize("address", ["http://reading.example/start", "http://localhost.example/", "http://127.0.0.2/"])
def test_a_sign_in_starts_at_no_other_http(address: Any) -> None:
    with pytest.raises(ValidationError, match="Use https"):
        validate_sign_in_start(address)
