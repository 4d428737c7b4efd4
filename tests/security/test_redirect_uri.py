"""Addresses that resemble a registered callback address: nothing is redirected to them."""

from __future__ import annotations

import itertools
import re
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import Application, AuthorizationCode
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, Registered

REGISTERED = "https://client.example/cb/Back?x=1"
LOOPBACK = "http://127.0.0.1:8181/cb"
VERIFIER = "v" * 43
S256 = {"code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256"}

AFTER_IT = [
    b"/",
    b"&y=2",
    b"#",
    b"\n",
    b"\r\nX-Evil: 1",
    b"\x00",
    b"\t",
    b"\xff",
    b" https://client.example/cb/Back?x=1",
]
AS_HOST = b"""CLIENT.example client.example:443 client.example. user@client.example client.example@evil.example
    client.example\\@evil.example client.example.evil.example sub.client.example evil.example/https://client.example"""
AS_PATH = b"/Back/?x=1 /Back /Back? /back?x=1 /%42ack?x=1 /./Back?x=1 /x/../Back?x=1 //Back?x=1 /Back;y?x=1".split()
BEFORE_IT = [b" ", b"javascript:alert(1)//", b"data:text/html,"]
NEAR_MISSES: dict[str, list[bytes]] = {
    REGISTERED: [
        *(REGISTERED.encode() + end for end in AFTER_IT),
        *(b"https://" + host + b"/cb/Back?x=1" for host in AS_HOST.split()),
        *(b"https://client.example/cb" + path for path in AS_PATH),
        *(start + REGISTERED.encode() for start in BEFORE_IT),
        b"HTTPS://client.example/cb/Back?x=1",
        b"http://client.example/cb/Back?x=1",
        b"https://client.example//cb/Back?x=1",
        b"//client.example/cb/Back?x=1",
        b"/cb/Back?x=1",
        "https://client.example/cb/Back?x=１".encode(),
        "https://clıent.example/cb/Back?x=1".encode(),
    ],
    LOOPBACK: [
        *(b"http://" + host + b"/cb" for host in b"127.0.0.1:8182 127.0.0.1 localhost:8181 [::1]:8181".split()),
        *(b"http://" + host + b"/cb" for host in b"127.0.0.1:08181 127.1:8181 2130706433:8181".split()),
        b"https://127.0.0.1:8181/cb",
    ],
}


def link(driver: OAuthDriver, application: Registered, miss: bytes) -> str:
    return f"{driver.authorization_url(application, redirect_uri=None)}&redirect_uri={quote_from_bytes(miss, safe='')}"


@contract(
    "D3.exact", "5.4", "2.1/redirect_uri", "D3.nothing-before", "4.1/redirect_uri", "D4.page", "D4.json", "D7.trusted"
)
@pytest.mark.parametrize("registered", NEAR_MISSES)
def test_a_near_miss_is_never_redirected_to(driver: OAuthDriver, alice: Any, registered: str) -> None:
    application = ApplicationFactory(redirect_uris=registered, is_trusted=True)
    hers = ApplicationFactory(redirect_uris="https://mallory.example/cb", is_trusted=True)
    changes = itertools.cycle(["", "&response_type=token", "&prompt=none"])
    for is_signed_in in (False, True):
        if is_signed_in:
            driver.signed_in(alice.email, PASSWORD)
        for miss, change in zip([hers.redirect_uri.encode(), *NEAR_MISSES[registered]], changes, strict=False):
            asked = link(driver, application, miss) + (change if is_signed_in else "")
            answer = driver.get(asked)
            assert (answer.status_code, answer.headers.get("Location")) == (400, None), miss
            assert Page(answer).refresh is None, miss
            assert not any("evil" in url for url in Page(answer).links), miss
            error_of(driver.get(asked, headers={"Accept": "*/*"}), 400, "invalid_request")
    assert AuthorizationCode.objects.filter(application=application.row).count() == 0
    answer = driver.get(link(driver, application, registered.encode()))
    assert driver.callback(answer).url.startswith(registered)


FREE = "http://127.0.0.1/cb?x=1", "http://[::1]/", "http://localhost"
NO_PORTS = ["", "0", "00080", "65536", "100000", "+80", "-80", " 80", "８０", "٨٠", "8 0", "80:80", "80@evil"]


def with_port(registered: str, port: object) -> str:
    host = re.match("http://[^/]+", registered)
    assert host
    return f"{host[0]}:{port}{registered[host.end() :]}"


def public(**fields: Any) -> Registered:
    return ApplicationFactory(client_type=Application.CLIENT_PUBLIC, **fields)


@contract("D3.loopback", "D10.equal")
def test_a_public_application_may_name_any_port_of_a_loopback_address_without_one(signed_in: OAuthDriver) -> None:
    for registered in FREE:
        application = public(redirect_uris=f"https://client.example/cb\n{registered}")
        for port in (1, 80, 9999, 51004, 65535):
            sent = with_port(registered, port)
            asked = signed_in.authorization_url(application, redirect_uri=sent, state="s", **S256)
            refused = signed_in.callback(signed_in.decide(signed_in.open(asked), "refuse"))
            callback = signed_in.callback(signed_in.decide(signed_in.open(asked)))
            assert (refused.address, callback.address) == (sent.partition("?")[0],) * 2
            assert refused.parameters["error"] == "access_denied"
            code, proof = callback.parameters["code"], {"client_secret": None, "code_verifier": VERIFIER}
            for wrong in (registered, with_port(registered, 2), f"{sent}/"):
                error_of(signed_in.exchange(application, code, redirect_uri=wrong, **proof), 400, "invalid_grant")
            assert signed_in.exchange(application, code, redirect_uri=sent, **proof).status_code == 200


@contract("D3.loopback")
def test_no_other_application_and_no_other_part_of_an_address_is_free(signed_in: OAuthDriver) -> None:
    for registered in FREE:
        application = public(redirect_uris=f"{registered}\nhttp://127.0.0.1:8181/other", is_trusted=True)
        sent = with_port(registered, 51004)
        wrong = [with_port(registered, port) for port in NO_PORTS]
        wrong += [f"{sent}x", f"{sent}#", f" {sent}", f"{sent}\n", sent.upper(), sent.replace("http:", "https:")]
        wrong += [sent.replace("://", f"://{user}@") for user in ("evil.example", "user", "user:80")]
        wrong += [sent.replace(":51004", f":80{at}") for at in ("@evil.example", "\\@evil.example", "#@evil.example")]
        hosts = "127.1 2130706433 0.0.0.0 127.0.0.2 [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] ::1 localhost. LOCALHOST"
        hosts += " localhost.evil.example evil.example 127.0.0.1.evil.example"
        path = re.sub("http://[^/]+", "", registered)
        wrong += [f"http://{host}:51004{path}" for host in ["", *hosts.split()]]
        wrong += ["http://127.0.0.1:8182/other", "http://127.0.0.1/other", "//127.0.0.1:51004/cb?x=1"]
        for address in wrong:
            answer = signed_in.get(link(signed_in, application, address.encode()))
            assert (answer.status_code, answer.headers.get("Location")) == (400, None), address
        confidential = ApplicationFactory(redirect_uris=registered)
        assert signed_in.get(link(signed_in, confidential, sent.encode())).status_code == 400
    elsewhere = public(redirect_uris="https://localhost/cb\nhttps://client.example/cb\ncom.example.app:/cb")
    for address in (b"https://localhost:51004/cb", b"https://client.example:51004/cb", b"com.example.app:51004/cb"):
        assert signed_in.get(link(signed_in, elsewhere, address)).status_code == 400


@contract("D3.loopback-asked", "D7.trusted")
def test_who_names_a_port_is_always_asked_about(signed_in: OAuthDriver) -> None:
    """Another program on the machine may listen there, so "trusted" and "don't ask again" do not count."""
    trusted, remembered = (public(redirect_uris="http://localhost/cb", is_trusted=trust) for trust in (True, False))
    signed_in.decide(signed_in.open(signed_in.authorization_url(remembered, **S256)), remember=True)
    for application in (trusted, remembered):
        registered = signed_in.open(signed_in.authorization_url(application, **S256))
        assert "code" in signed_in.callback(registered).parameters
        named = {"redirect_uri": "http://localhost:51004/cb", **S256}
        page = Page(signed_in.open(signed_in.authorization_url(application, **named)))
        assert page.consent
        assert ("Don't ask again" in page.text, "http://localhost:51004/cb" in page.text) == (False, True)
        silent = signed_in.get(signed_in.authorization_url(application, scope="openid", prompt="none", **named))
        assert signed_in.callback(silent).parameters["error"] == "consent_required"
    tampered = public(redirect_uris="http://localhost/cb")
    page_of_port = signed_in.open(signed_in.authorization_url(tampered, **named))
    signed_in.decide(page_of_port, remember=True, follow=False)
    assert Page(signed_in.open(signed_in.authorization_url(tampered, **S256))).consent, "nothing was remembered"


PARTS: dict[bytes, str] = {
    b"https://client.example/cb": "every part",
    b"http://client.example/cb/": "the scheme http and the slash at the end",
    b"HTTPS://client.example/cb": "the upper case",
    b"https://Client.example:8443/cb": "the port and the upper case",
    b"https://client.example/callBack?X": "the upper case and the query",
    b"https://client.example:8443/cb%2F": "the port",
    b"http://localhost@client.example/cb": "the scheme http",
    b"http://localhost.example/cb": "the scheme http",
    b'"https://client.example/cb"': "the missing scheme and the quotation marks",
    b"https://client.example/cb'": "the quotation marks",
    "https://client.example/cb”".encode(): "the quotation marks and the characters outside ASCII",
    b"https://client.example/cb?": "the query",
    b"https://client.example/cb#x": "the fragment",
    b" https://client.example/cb": "the missing scheme and the white space",
    b"https://client.example/cb\n": "the white space",
    b"client.example/cb": "the missing scheme",
    b"https%3A%2F%2Fclient.example%2Fcb": "the percent-encoding (it was encoded twice)",
    b"http://A:1/ ?#": "the scheme http, the port, the upper case, the query, the fragment and the white space",
    b"com.example.app:/cb": "every part",
    b"x" * 5000: "the missing scheme",
}


@contract("D3.hint", "D19.sentence", "D4.page", "D4.json")
def test_what_the_sent_address_shows_is_told_whatever_is_registered(driver: OAuthDriver) -> None:
    addresses = (REGISTERED, LOOPBACK, "https://client.example/", "com.example.app:/callback")
    registered = [ApplicationFactory(redirect_uris=address) for address in addresses]
    for (miss, parts), application in zip(PARTS.items(), itertools.cycle(registered), strict=False):
        answer = driver.get(link(driver, application, miss), headers={"Accept": "*/*"})
        assert f"every character. Check {parts} of the one in the link." in error_of(answer, 400, "invalid_request")
    for application in registered:
        page = driver.get(link(driver, application, b"http://client.example/cb/"))
        assert "Check the scheme http and the slash at the end of the one in the link." in Page(page).text
