"""The OpenID Foundation's plans Basic OP, Form Post OP and Config OP: one test for each of their modules, by its name.

https://openid.net/certification/. The plan Form Post OP runs the modules of Basic OP with `response_mode=form_post`, so
each test runs twice. A test asserts what its module fails on and what it warns about.
"""

from __future__ import annotations

import base64
import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest

from oauth_bridge.models import AuthorizationCode
from oauth_bridge.random_values import digest_of
from tests.contract.openid_conformance import NOT_APPLICABLE, PLANS, Client
from tests.contract_coverage import contract
from tests.driver import Form, OAuthDriver, Page, error_of
from tests.factories import Registered

Rewind = Callable[..., None]


@pytest.fixture(params=["default", "form_post"])
def client(request: Any, driver: OAuthDriver, application: Registered, alice: Any) -> Client:
    mode = {} if request.param == "default" else {"response_mode": request.param}
    return Client(driver, application, alice, mode)


def test_every_module_of_the_plans_has_a_test_or_a_reason() -> None:
    modules = {module for plan in PLANS.values() for module in plan}
    tested = {module for module in modules if hasattr(sys.modules[__name__], name_of(module))}
    assert modules - tested == set(NOT_APPLICABLE)


def name_of(module: str) -> str:
    return f"test_{module.removeprefix('oidcc-').replace('-', '_')}"


# Basic OP and Form Post OP --------------------------------------------------------------------------------------------


@contract("I2.members")
def test_server(client: Client) -> None:
    """The flow with all its checks: `Client.flow` makes them for every module."""
    tokens = client.flow()
    code = AuthorizationCode.objects.get(digest=digest_of(tokens.code))
    assert code.redeemed_at
    assert len(tokens.code) >= 43
    assert "name" not in tokens.claims


def test_response_type_missing(client: Client) -> None:
    assert client.error(client.ask(response_type=None)) in ("invalid_request", "unsupported_response_type")


def test_idtoken_signature(client: Client) -> None:
    header = jwt.get_unverified_header(client.flow().id_token)
    keys = client.driver.call("GET", "/oauth/jwks").json()["keys"]
    assert header["alg"] == "RS256"
    assert [key["kty"] for key in keys if key["kid"] == header["kid"]] == ["RSA"]


def test_userinfo_get(client: Client) -> None:
    tokens = client.flow(scope="openid profile email")
    answer = client.driver.userinfo(tokens.access_token)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["sub"] == tokens.claims["sub"]


def test_userinfo_post_header(client: Client) -> None:
    tokens = client.flow()
    headers = {"Authorization": f"Bearer {tokens.access_token}"}
    answer = client.driver.call("POST", "/oauth/userinfo", headers=headers)
    assert answer.json() == {"sub": tokens.claims["sub"]}


def test_userinfo_post_body(client: Client) -> None:
    tokens = client.flow()
    answer = client.driver.call("POST", "/oauth/userinfo", data={"access_token": tokens.access_token})
    assert answer.json() == {"sub": tokens.claims["sub"]}


def test_ensure_request_without_nonce_succeeds_for_code_flow(client: Client) -> None:
    assert "nonce" not in client.flow(nonce=None).claims


def userinfo_of(client: Client, scope: str) -> set[str]:
    """The names of the claims at user info. None of them is in the ID token, and none is null."""
    tokens = client.flow(scope=scope)
    found = client.driver.userinfo(tokens.access_token).json()
    assert not set(found) - {"sub"} & set(tokens.claims)
    assert None not in found.values()
    return set(found)


def test_scope_profile(client: Client) -> None:
    """The suite warns here: it misses names, gender and the like, which the service does not know of anybody."""
    assert {"sub", "name", "nickname", "preferred_username", "picture"} <= userinfo_of(client, "openid profile")


def test_scope_email(client: Client) -> None:
    assert userinfo_of(client, "openid email") == {"sub", "email", "email_verified"}


def test_ensure_other_scope_order_succeeds(client: Client) -> None:
    assert userinfo_of(client, "email openid") == {"sub", "email", "email_verified"}


def test_display_page(client: Client) -> None:
    client.flow(display="page")


def test_display_popup(client: Client) -> None:
    client.flow(display="popup")


def test_prompt_login(client: Client) -> None:
    first = client.flow()
    answer = client.ask(prompt="login")
    assert "/accounts/confirm" in answer.url
    second = client.tokens(client.answer(client.prove(answer)))
    assert second.claims["sub"] == first.claims["sub"]
    assert second.claims["auth_time"] >= first.claims["auth_time"]
    assert time.time() - second.claims["auth_time"] < 60


def test_prompt_none_not_logged_in(client: Client) -> None:
    assert client.error(client.ask(prompt="none", state="s" * 128)) == "login_required"


def test_prompt_none_logged_in(client: Client) -> None:
    first = client.flow(remember=True)
    second = client.tokens(client.answer(client.ask(prompt="none")))
    assert (first.claims["sub"], first.claims["auth_time"]) == (second.claims["sub"], second.claims["auth_time"])


def test_max_age_1(client: Client) -> None:
    first = client.flow()
    time.sleep(2)  # as the module does: the time of the sign-in is in the session, which is encrypted
    answer = client.ask(max_age="1")
    assert "/accounts/confirm" in answer.url
    second = client.tokens(client.answer(client.prove(answer)))
    assert second.claims["auth_time"] >= first.claims["auth_time"]


def test_max_age_10000(client: Client) -> None:
    first = client.flow(max_age="15000")
    answer = client.ask(max_age="10000")
    assert Page(answer).sign_in is None
    second = client.tokens(client.answer(client.driver.decide(answer)))
    assert (first.claims["sub"], first.claims["auth_time"]) == (second.claims["sub"], second.claims["auth_time"])


def test_ensure_request_with_unknown_parameter_succeeds(client: Client) -> None:
    client.flow(extra="foobar")


def test_id_token_hint(client: Client) -> None:
    first = client.flow(remember=True)
    second = client.tokens(client.answer(client.ask(prompt="none", id_token_hint=first.id_token)))
    assert first.claims["sub"] == second.claims["sub"]


def test_login_hint(client: Client) -> None:
    client.flow(login_hint="bob@example.com")


def test_ui_locales(client: Client) -> None:
    client.flow(ui_locales="se")


def test_claims_locales(client: Client) -> None:
    client.flow(claims_locales="se")


def test_ensure_request_with_acr_values_succeeds(client: Client) -> None:
    supported = client.driver.call("GET", "/.well-known/openid-configuration").json()["acr_values_supported"]
    assert client.flow(acr_values=" ".join(supported)).claims["acr"] in supported


def test_codereuse(client: Client) -> None:
    tokens = client.flow()
    error_of(client.redeem(tokens.code), 400, "invalid_grant")


def test_codereuse_30seconds(client: Client, rewind: Rewind) -> None:
    tokens = client.flow()
    rewind(AuthorizationCode.objects.get(digest=digest_of(tokens.code)), 30)
    error_of(client.redeem(tokens.code), 400, "invalid_grant")
    error_of(client.driver.userinfo(tokens.access_token), 401, "invalid_token")


def test_ensure_registered_redirect_uri(client: Client) -> None:
    answer = client.ask(redirect_uri=f"{client.application.redirect_uri}/{'x' * 10}")
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    assert "callback address" in Page(answer).text


def test_ensure_post_request_succeeds(client: Client) -> None:
    url, _, query = client.driver.authorization_url(client.application, **client.parameters()).partition("?")
    answer = client.driver.submit(Form(url, "post", dict(parse_qsl(query))))
    client.tokens(client.answer(client.sign_in(answer)))


def test_server_client_secret_post(client: Client) -> None:
    answer = client.answer(client.sign_in(client.ask()))
    assert client.driver.exchange(client.application, answer["code"]).status_code == 200


def request_object(**content: str) -> str:
    parts = ({"alg": "none"}, content)
    return ".".join([*(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts), ""])


def test_unsigned_request_object_supported_correctly_or_rejected_as_unsupported(client: Client) -> None:
    assert client.error(client.ask(request=request_object(state="another"))) == "request_not_supported"


def test_request_uri_unsigned_supported_correctly_or_rejected_as_unsupported(client: Client) -> None:
    assert client.error(client.ask(request_uri="https://app.example/request.jwt")) == "request_uri_not_supported"


@contract("I2.profile")
def test_claims_essential(client: Client) -> None:
    tokens = client.flow(claims=json.dumps({"userinfo": {"name": {"essential": True}}}))
    assert client.driver.userinfo(tokens.access_token).json()["name"] == client.person.nickname
    assert "name" not in tokens.claims


def test_ensure_request_object_with_redirect_uri(client: Client) -> None:
    inner = request_object(redirect_uri=client.application.redirect_uri)
    answer = client.ask(request=inner, redirect_uri="https://evil.example/")
    assert (answer.status_code, "Location" in answer.headers) == (400, False)


def test_ensure_request_with_valid_pkce_succeeds(client: Client) -> None:
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(digest_of(verifier)).decode().rstrip("=")
    answer = client.answer(client.sign_in(client.ask(code_challenge=challenge, code_challenge_method="S256")))
    assert client.redeem(answer["code"], code_verifier=verifier).status_code == 200


# Config OP ------------------------------------------------------------------------------------------------------------


@contract("I1.document")
def test_discovery_endpoint_verification(driver: OAuthDriver) -> None:
    answer = driver.call("GET", "/.well-known/openid-configuration")
    found = answer.json()
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert found["issuer"] == driver.base_url
    assert found["response_types_supported"] == ["code"]
    assert found["subject_types_supported"] == ["public"]
    assert "RS256" in found["id_token_signing_alg_values_supported"]
    assert "none" not in found["id_token_signing_alg_values_supported"]
    assert found["grant_types_supported"] == ["authorization_code"]
    assert "openid" in found["scopes_supported"]
    assert found["claims_parameter_supported"] is True
    assert found["request_parameter_supported"] is found["request_uri_parameter_supported"] is False
    assert len(set(found["claims_supported"])) == len(found["claims_supported"])
    assert isinstance(found["code_challenge_methods_supported"], list)
    for name in (name for name in found if name.endswith(("_endpoint", "_uri"))):  # https where the service is
        assert urlsplit(found[name])._replace(path="", query="").geturl() in (driver.base_url, driver.auth_url), name
    for tag in found["ui_locales_supported"]:  # BCP 47 writes them so; the suite warns otherwise
        assert re.fullmatch(r"[a-z]{2}(-[A-Z][a-z]{3})?(-[A-Z]{2})?", tag)
    for key in driver.call("GET", "/oauth/jwks").json()["keys"]:
        assert key["kid"]
        assert not {"d", "p", "q", "k"} & set(key)
