"""Attacks on what OpenID Connect adds: hints, the parameter `claims`, repeated and oversized parameters, keys."""

from __future__ import annotations

import base64
import itertools
import json
import secrets
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from joserfc import jws, jwt

from accounts.models import Session
from oauth_bridge.consent import consents
from oauth_bridge.oauth import revocation_introspection
from oauth_bridge.openid import id_token, signing_keys
from tests.contract.test_openid import signed_in
from tests.contract.test_openid_prompts import ask, at_home, error, post_request
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory, PersonFactory, Registered, TokenFactory

__all__ = ["at_home"]  # a fixture


def encoded(part: Any) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


# id_token_hint --------------------------------------------------------------------------------------------------------

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
            assert id_token.hinted(f"{encoded(header)}.{encoded(body)}.{signature}") == "", header
    signer = signing_keys.signer("ES256")
    for body in ([], None, 1, b"", b"[" * 4000, {"iss": 1}, b'{"exp": NaN}'):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        token = jws.serialize_compact({"alg": "ES256", "kid": signer.kid}, content, signer.key, ["ES256"])
        assert id_token.hinted(token) == "", body


def made(settings: Any, **changes: Any) -> tuple[str, signing_keys.Signer]:
    signer = signing_keys.signer("ES256")
    claims = {"iss": settings.BASE_URL, "aud": "c", "sub": "p", "exp": int(time.time()) - 86_400, **changes}
    return jwt.encode({"alg": "ES256", "kid": signer.kid}, claims, signer.key, ["ES256"]), signer


@contract("I7.hint", "I3.revoked")
@pytest.mark.django_db
def test_an_expired_id_token_is_a_hint_and_that_of_a_revoked_key_or_another_kind_is_none(settings: Any) -> None:
    token, signer = made(settings)
    assert id_token.hinted(token) == "c p"
    assert id_token.hinted(made(settings, iss="https://evil.example")[0]) == ""
    signing_keys.revoke(signer.kid)
    assert id_token.hinted(token) == ""


def test_the_longest_id_token_is_a_hint(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    """It was cut at 2,000 characters, and so refused."""
    asked = json.dumps({"id_token": dict.fromkeys(["name", "nickname", "picture", "avatar", "email"])})
    token = signed_in(driver, application, alice, nonce="\u00e9" * 512, claims=asked)["id_token"]
    assert len(token) > 2000
    assert Page(ask(driver, application, id_token_hint=token)).consent
    assert error(driver, ask(driver, application, id_token_hint=token + "x" * 8000)) == "invalid_request"


# The parameter claims -------------------------------------------------------------------------------------------------


def wanted(name: str, **asked: Any) -> str:
    return json.dumps({"id_token": {name: asked}})


@contract("I7.account")
def test_an_id_token_for_one_person_is_given_to_no_other(
    at_home: OAuthDriver, application: Registered, alice: Any
) -> None:
    """OpenID Connect Core 1.0 §3.1.2.2: the `sub` that `claims` wants, also beside the hint of the right person."""
    other = str(PersonFactory().pk)
    for claims in (wanted("sub", value=other), wanted("sub", values=[other])):
        page = Page(ask(at_home, application, claims=claims))
        assert "expects another account" in page.text
        assert page.consent is None
        assert error(at_home, ask(at_home, application, claims=claims, prompt="none")) == "login_required"
    assert Page(ask(at_home, application, claims=wanted("sub", value=str(alice.pk)))).consent
    token = signed_in(at_home, application, alice, scope="openid")["id_token"]
    assert "expects another account" in Page(ask(at_home, application, claims=claims, id_token_hint=token)).text


# Sessions, repeated and oversized parameters, Unicode -----------------------------------------------------------------


def test_a_silent_request_with_an_expired_session(at_home: OAuthDriver, application: Registered, alice: Any) -> None:
    consents.remember(alice, application.row, ["sub"])
    assert "code" in at_home.callback(ask(at_home, application, prompt="none")).parameters
    Session.objects.filter(user=alice).update(expire_date=timezone.now())
    before = Session.objects.count()
    answer = ask(at_home, application, prompt="none")
    assert error(at_home, answer) == "login_required"
    assert 'delegated_session=""' in answer.headers["Set-Cookie"]
    assert Session.objects.count() <= before


def test_a_repeated_parameter_is_refused(driver: OAuthDriver, application: Registered) -> None:
    url = driver.authorization_url(application, scope="openid")
    for name in ("nonce", "prompt", "max_age", "claims", "response_mode", "id_token_hint", "scope"):
        answer = driver.open(f"{url}&{name}=x" + ("" if name == "scope" else f"&{name}=y"))
        callback = driver.callback(answer).parameters
        assert callback["error"] == "invalid_request"
        assert name in callback["error_description"]


def test_the_longest_posted_request_is_answered(driver: OAuthDriver, application: Registered) -> None:
    """Each byte of the state is three characters in the URL."""
    state = "\u00e9" * 1900
    answer = post_request(driver, application, prompt="none", state=state)
    assert answer.status_code == 303
    assert driver.callback(driver.open(f"{driver.auth_url}{answer.headers['Location']}")).parameters["state"] == state


def test_no_login_hint_makes_an_error(driver: OAuthDriver, application: Registered) -> None:
    for hint in ("\u202e\U0001f600" * 100, "\u0000", "'\"><script>", "x" * 5000):
        answer = ask(driver, application, login_hint=hint)
        assert Page(answer).sign_in
        assert "<script>" not in answer.text.partition("</head>")[2] or "&lt;script&gt;" in answer.text


def test_a_hidden_parameter_of_ours_in_a_link_says_nothing(at_home: OAuthDriver, alice: Any) -> None:
    """`hint` is the name under which a verified hint is kept."""
    application = ApplicationFactory(is_trusted=True)
    hint = f"{application.client_id} {PersonFactory().pk}"
    assert "code" in at_home.callback(ask(at_home, application, hint=hint, prompt="none")).parameters


# Tokens of others -----------------------------------------------------------------------------------------------------


@contract("I8.others")
@pytest.mark.django_db
@pytest.mark.parametrize("operation", [revocation_introspection.introspect, revocation_introspection.revoke])
def test_a_token_of_another_application_runs_the_statements_of_an_unknown_one(operation: Callable[..., Any]) -> None:
    """So nothing is learned from the time either."""
    application = ApplicationFactory()

    def ran(token: str) -> list[str]:
        form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": token}
        with CaptureQueriesContext(connection) as captured:
            assert operation(form, "192.0.2.1") in (None, {"active": False})
        return [query["sql"].split()[0] for query in captured]

    ran("first")  # notes the use of the secret
    assert ran(secrets.token_urlsafe(32)) == ran(TokenFactory().raw) != []
