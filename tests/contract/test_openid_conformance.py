"""What the OpenID Foundation's plans Basic OP, Form Post OP and Config OP ask for, by a client that checks each answer.

https://openid.net/certification/. The plan Form Post OP runs the modules of Basic OP with `response_mode=form_post`. Of
the modules, those that no other test is about are here.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from tests.contract.test_openid import verified
from tests.contract_coverage import contract
from tests.driver import Form, OAuthDriver, Page
from tests.factories import PASSWORD, Registered

# The modules oidcc-ensure-request-without-nonce…, oidcc-ensure-other-scope-order…, oidcc-display-…, and so on.
SUCCEED: list[dict[str, str | None]] = [
    {"nonce": None},
    {"scope": "email openid"},
    {"display": "page"},
    {"display": "popup"},
    {"max_age": "10000"},
    {"extra": "foobar"},
    {"login_hint": "bob@example.com"},
    {"ui_locales": "se"},
    {"claims_locales": "se"},
    {"acr_values": "1 2"},
]


class Tokens(NamedTuple):
    """What the token operation answered. `claims` are those of the verified ID token."""

    code: str
    access_token: str
    id_token: str
    claims: dict[str, Any]


class Client:
    """A client with `client_secret_basic`, and the browser of a person. `mode` is the response mode of its plan."""

    def __init__(self, driver: OAuthDriver, application: Registered, person: Any, mode: dict[str, str]) -> None:
        self.driver = driver
        self.application = application
        self.person = person
        self.mode = mode
        self.asked: dict[str, str] = {}

    def parameters(self, **changes: str | None) -> dict[str, str]:
        given = {"scope": "openid", "nonce": secrets.token_urlsafe(8), "state": secrets.token_urlsafe(8)}
        asked = {**given, **self.mode, **changes}
        self.asked = {name: value for name, value in asked.items() if value is not None}
        return self.asked

    def ask(self, **changes: str | None) -> Any:
        """The page, or the redirect, that answers the authorization request."""
        return self.driver.open(self.driver.authorization_url(self.application, **self.parameters(**changes)))

    def sign_in(self, answer: Any, *, remember: bool = False) -> Any:
        """What the person does: sign in, if asked to, and allow."""
        if Page(answer).sign_in:
            answer = self.driver.sign_in(answer, self.person.email, PASSWORD)
        return self.driver.decide(answer, remember=remember) if Page(answer).consent else answer

    def answer(self, answer: Any) -> dict[str, str]:
        """The parameters of the callback, in the response mode that was asked for, with `state` and `iss`."""
        if self.mode:
            [form] = [form for form in Page(answer).forms if form.action == self.application.redirect_uri]
            assert form.method == "post"
            found = form.fields
        else:
            callback = self.driver.callback(answer)
            assert callback.address == self.application.redirect_uri
            found = callback.parameters
        assert (found["state"], found["iss"]) == (self.asked["state"], self.driver.base_url)
        return found

    def error(self, answer: Any) -> str:
        found = self.answer(answer)
        assert set(found) == {"error", "error_description", "state", "iss"}
        return found["error"]

    def redeem(self, code: str) -> Any:
        pair = f"{self.application.client_id}:{self.application.client_secret}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return self.driver.exchange(self.application, code, headers=headers, client_id=None, client_secret=None)

    def tokens(self, found: dict[str, str]) -> Tokens:
        """The tokens for the code of a callback. OpenID Connect Core 1.0 §3.1.3.3, §3.1.3.7, §2."""
        answer = self.redeem(found["code"])
        assert answer.status_code == 200, answer.text
        assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
        assert sorted(body["scope"].split()) == sorted(self.asked["scope"].split())
        claims = verified(self.driver, self.application, body["id_token"])
        assert claims["aud"] == claims["azp"] == self.application.client_id
        assert claims.get("nonce") == self.asked.get("nonce")
        assert claims["sub"] == str(self.person.pk)
        assert claims["auth_time"] <= claims["iat"]
        half = hashlib.sha256(body["access_token"].encode()).digest()[:16]
        assert claims["at_hash"] == base64.urlsafe_b64encode(half).rstrip(b"=").decode()
        return Tokens(found["code"], body["access_token"], body["id_token"], claims)

    def flow(self, *, remember: bool = False, **changes: str | None) -> Tokens:
        return self.tokens(self.answer(self.sign_in(self.ask(**changes), remember=remember)))


@pytest.fixture(params=["default", "form_post"])
def client(request: Any, driver: OAuthDriver, application: Registered, alice: Any) -> Client:
    mode = {} if request.param == "default" else {"response_mode": request.param}
    return Client(driver, application, alice, mode)


@contract("I2.members", "I6.form-post")
def test_requests_of_the_plans_succeed_in_both_response_modes(client: Client) -> None:
    """`Client.flow` makes all checks."""
    for changes in SUCCEED:
        client.flow(**changes)


@contract("I6.form-post", "I7.silent")
def test_a_posted_request_and_a_silent_one_are_answered_in_both_response_modes(client: Client) -> None:
    assert client.error(client.ask(prompt="none", state="s" * 128)) == "login_required"
    url, _, query = client.driver.authorization_url(client.application, **client.parameters()).partition("?")
    answer = client.driver.submit(Form(url, "post", dict(parse_qsl(query))))
    first = client.tokens(client.answer(client.sign_in(answer, remember=True)))
    second = client.tokens(client.answer(client.ask(prompt="none", id_token_hint=first.id_token)))
    assert (first.claims["sub"], first.claims["auth_time"]) == (second.claims["sub"], second.claims["auth_time"])


@contract("I1.document")
def test_discovery_endpoint_verification(driver: OAuthDriver) -> None:
    answer = driver.call("GET", "/.well-known/openid-configuration")
    found = answer.json()
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert found["issuer"] == driver.base_url
    assert found["end_session_endpoint"] == f"{driver.auth_url}/oauth/logout"
    assert not found.get("frontchannel_logout_supported")
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
