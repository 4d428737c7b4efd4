"""Attacks on what OpenID Connect adds: hints, and tokens of others."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from joserfc import jws

from oauth_bridge.oauth import revocation_introspection
from oauth_bridge.openid import id_token, signing_keys
from tests.contract.test_openid import exchanged
from tests.contract.test_openid_prompts import ask, error
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory, Registered, TokenFactory
from tests.pages import encoded


def content_of(part: Any) -> bytes:
    return part if isinstance(part, bytes) else json.dumps(part).encode()


HEADERS = [
    [],
    None,
    "x",
    {"alg": "none"},
    {"alg": 1, "kid": "x"},
    {"alg": "RS256", "kid": "\x00"},
    {"alg": "RS256", "kid": "\ud800"},
    {"alg": "RS256", "kid": ["x"]},
    {"alg": "RS256", "kid": "x", "crit": ["b64"], "b64": False},
    {"alg": "RS256", "kid": "k" * 32_000},
    b"[" * 1500,
    b"\xff\xfe",
    b'{"kid": NaN}',
    b'{"alg": "RS256", "kid": ' + b"9" * 5000 + b"}",
]


@pytest.mark.django_db
def test_no_header_and_no_signed_content_of_a_hint_makes_an_error_of_the_service() -> None:
    for header, body in itertools.product(HEADERS, ({"sub": "x"}, [], b"[" * 1500)):
        for signature in ("", "AAAA", "!"):
            hint = f"{encoded(content_of(header))}.{encoded(content_of(body))}.{signature}"
            assert id_token.hinted(hint) == "", header
    signer = signing_keys.signer("ES256")
    for body in ([], None, 1, b"", b"[" * 4000, {"iss": 1}, b'{"exp": NaN}'):
        token = jws.serialize_compact({"alg": "ES256", "kid": signer.kid}, content_of(body), signer.key, ["ES256"])
        assert id_token.hinted(token) == "", body


def test_the_longest_id_token_is_a_hint(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    asked = json.dumps({"id_token": dict.fromkeys(["name", "nickname", "picture", "avatar", "email"])})
    token = exchanged(driver, application, alice, nonce="\u00e9" * 512, claims=asked)["id_token"]
    assert len(token) > 2000
    assert Page(ask(driver, application, id_token_hint=token)).consent
    assert error(driver, ask(driver, application, id_token_hint=token + "x" * 8000)) == "invalid_request"


@contract("I8.others")
@pytest.mark.django_db
@pytest.mark.parametrize("operation", [revocation_introspection.introspect, revocation_introspection.revoke])
def test_a_token_of_another_application_runs_the_statements_of_an_unknown_one(operation: Callable[..., Any]) -> None:
    application = ApplicationFactory()

    def ran(token: str) -> list[str]:
        form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": token}
        with CaptureQueriesContext(connection) as captured:
            assert operation(form, "192.0.2.1") in (None, {"active": False})
        return [query["sql"].split()[0] for query in captured]

    ran("first")  # notes the use of the secret
    assert ran(secrets.token_urlsafe(32)) == ran(TokenFactory().raw) != []
