"""OpenID Connect: discovery, keys, the ID token, user info by scope, consent, revocation, introspection."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from typing import Any
from urllib.parse import parse_qsl, quote
from uuid import uuid4

import jwt
import pytest
from django.contrib.auth.models import Group

from oauth_bridge.consent import consents
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.openid import signing_keys
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, Registered, TokenFactory

SCOPE = "openid profile email"
CLAIMS_OF_THE_SIGN_IN = {"iss", "sub", "aud", "azp", "exp", "iat", "auth_time", "nonce", "at_hash", "acr", "amr"}


def exchanged(driver: OAuthDriver, application: Registered, person: Any, **changes: str | None) -> dict[str, Any]:
    url = driver.authorization_url(application, **{"scope": SCOPE, "nonce": "n-0S6_WzA2Mj", **changes})
    callback = driver.authorize(url, person.email, PASSWORD)
    answer = driver.exchange(application, callback.parameters["code"])
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def remade(token: str, **changes: Any) -> str:
    """The same ID token with other claims, signed by the service's own key. For tests with only_keys_of_the_service."""
    claims = jwt.decode(token, options={"verify_signature": False}) | changes
    signer = signing_keys.signer("RS256")
    return jwt.encode(claims, signer.key.as_pem(private=True), "RS256", {"kid": signer.kid})


def verified(driver: OAuthDriver, application: Registered, token: str) -> dict[str, Any]:
    """The claims of an ID token, verified with the published keys as an application does."""
    key = jwt.PyJWKClient(f"{driver.base_url}/oauth/jwks").get_signing_key_from_jwt(token)
    trusted: dict[str, Any] = {"audience": application.client_id, "issuer": driver.base_url}
    return dict(jwt.decode(token, key, algorithms=["RS256", "ES256"], **trusted))


@pytest.mark.integration
@contract("I2.members", "I2.profile", "I3.algorithm")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_the_id_token_says_who_signed_in_and_how(driver: OAuthDriver, alice: Any, algorithm: str) -> None:
    application = ApplicationFactory(id_token_alg=algorithm)
    answer = exchanged(driver, application, alice)
    assert set(answer) == {"access_token", "token_type", "expires_in", "id_token", "scope"}
    assert answer["scope"] == SCOPE
    assert jwt.get_unverified_header(answer["id_token"])["alg"] == algorithm
    claims = verified(driver, application, answer["id_token"])
    assert set(claims) == CLAIMS_OF_THE_SIGN_IN
    named = (str(alice.pk), application.client_id, "n-0S6_WzA2Mj", "1", ["pwd"])
    assert tuple(claims[name] for name in ("sub", "azp", "nonce", "acr", "amr")) == named
    assert claims["exp"] - claims["iat"] == 3600
    code = AuthorizationCode.objects.get(application=application.row)
    assert int(alice.email_verified_at.timestamp()) <= claims["auth_time"] <= claims["iat"]
    assert int(code.issued_at.timestamp()) <= claims["iat"]
    half = hashlib.sha256(answer["access_token"].encode()).digest()[:16]
    assert claims["at_hash"] == base64.urlsafe_b64encode(half).rstrip(b"=").decode()


@contract("D6.iss", "D7.claims")
def test_the_issuer_is_named_and_what_is_sent_shown(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    consent = driver.consent_page(application, alice.email, PASSWORD, scope="openid email")
    text = Page(consent).text
    assert ["E-mail address" in text, "User ID" in text, "Nickname" in text] == [True, True, False]
    allowed, refused = (driver.callback(driver.decide(consent, decision)) for decision in ("allow", "refuse"))
    assert allowed.raw("iss") == quote(driver.base_url, safe="")
    assert (refused.parameters["error"], refused.parameters["iss"]) == ("access_denied", driver.base_url)


@contract("I4.scopes", "I4.claims", "I2.profile")
def test_user_info_and_id_token_answer_what_the_scopes_and_the_parameter_claims_ask_for(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    profile = {"sub", "name", "nickname", "picture", "avatar", "updated_at"}
    single = {
        "userinfo": {"nickname": None, "unknown": {"essential": True}},
        "id_token": {"email": {"essential": True}},
    }
    for scope, asked, names, in_id_token in (
        ("openid", None, {"sub"}, set()),
        ("email openid email nonsense", None, {"sub", "email", "email_verified"}, set()),
        ("openid profile", None, profile, set()),
        ("openid", json.dumps(single), {"sub", "nickname"}, {"email"}),
    ):
        answer = exchanged(driver, application, alice, scope=scope, claims=asked)
        told = driver.userinfo(answer["access_token"]).json()
        assert set(told) == names
        assert (told["sub"], None in told.values()) == (str(alice.pk), False)
        assert (told.get("email_verified", True), told.get("name", alice.nickname)) == (True, alice.nickname)
        claims = verified(driver, application, answer["id_token"])
        assert claims.keys() - CLAIMS_OF_THE_SIGN_IN == in_id_token
        assert claims.get("email", alice.email) == alice.email


@contract("D25", "I4.groups")
def test_where_an_administrator_wants_it_the_id_token_has_what_user_info_has(driver: OAuthDriver, alice: Any) -> None:
    application = ApplicationFactory(profile_in_id_token=True)
    readers, others = (Group.objects.create(name=f"{name} {uuid4().hex[:8]}") for name in ("Readers", "Others"))
    alice.groups.set([readers, others])
    application.row.groups.set([readers])
    asked = json.dumps({"userinfo": {"nickname": None}})
    for scope in ("openid", "openid email", "profile openid", "openid profile email groups"):
        answer = exchanged(driver, application, alice, scope=scope, claims=asked)
        told = driver.userinfo(answer["access_token"]).json()
        assert told.get("groups", [readers.name]) == [readers.name], "those that the application names"
        if "profile" not in scope:
            del told["nickname"]
        claims = verified(driver, application, answer["id_token"])
        assert {name: claims[name] for name in claims.keys() - CLAIMS_OF_THE_SIGN_IN} | {"sub": claims["sub"]} == told
    plain = driver.authorize(driver.authorization_url(application, scope="profile email"), alice.email, PASSWORD)
    assert "id_token" not in driver.exchange(application, plain.parameters["code"]).json()


@contract("D25", "I4.scopes")
def test_changing_it_ends_no_consent_and_no_name_that_is_not_unique_is_told(driver: OAuthDriver, alice: Any) -> None:
    application = ApplicationFactory()
    consents.remember(alice, application.row, ["sub", "nickname", "avatar", "email"])
    url = driver.authorization_url(application, scope=SCOPE)
    assert driver.callback(driver.sign_in(driver.open(url), alice.email, PASSWORD)).parameters["code"]
    application.row.profile_in_id_token = True
    application.row.save()
    callback = driver.callback(driver.open(url))
    answer = driver.exchange(application, callback.parameters["code"]).json()
    claims = verified(driver, application, answer["id_token"])
    assert (claims["name"], claims["email"]) == (alice.nickname, alice.email)
    supported = driver.call("GET", "/.well-known/openid-configuration").json()["claims_supported"]
    assert "preferred_username" not in {*supported, *claims, *driver.userinfo(answer["access_token"]).json()}


@contract("D7.claims")
def test_a_remembered_consent_covers_what_was_agreed(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    driver.authorize(driver.authorization_url(application, scope="openid email"), "", "", remember=True)
    again = driver.open(driver.authorization_url(application, scope="openid email"))
    assert "code" in driver.callback(again).parameters
    assert Page(driver.open(driver.authorization_url(application, scope=SCOPE))).consent
    assert Page(driver.open(driver.authorization_url(application))).consent


@pytest.mark.integration
@contract("I1.issuer", "I1.absent", "I1.document", "I3.sealed")
def test_both_addresses_announce_the_same_to_every_origin_and_no_private_half_of_a_key(driver: OAuthDriver) -> None:
    answers = [
        driver.call("GET", f"/.well-known/{name}", headers={"Origin": "https://app.example"})
        for name in ("openid-configuration", "oauth-authorization-server")
    ]
    found = answers[0].json()
    assert found == answers[1].json()
    for answer in answers:
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
        assert answer.headers["Access-Control-Allow-Origin"] == "*"
        assert answer.headers["Cache-Control"] == "public, max-age=300"
        assert "X-Reference" not in answer.headers
    assert (
        found.items()
        >= {
            "issuer": driver.base_url,
            "authorization_endpoint": f"{driver.auth_url}/oauth/authorize",
            "token_endpoint": f"{driver.base_url}/oauth/token",
            "userinfo_endpoint": f"{driver.base_url}/oauth/userinfo",
            "end_session_endpoint": f"{driver.auth_url}/oauth/logout",
            "service_documentation": f"{driver.auth_url}/docs",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "grant_types_supported": ["authorization_code"],
            "claims_parameter_supported": True,
            "request_parameter_supported": False,
            "request_uri_parameter_supported": False,
        }.items()
    )
    assert "authorization_response_iss_parameter_supported" not in found
    assert sorted(found["id_token_signing_alg_values_supported"]) == ["ES256", "RS256"]
    assert "openid" in found["scopes_supported"]
    assert len(set(found["claims_supported"])) == len(found["claims_supported"])
    for name in (name for name in found if name.endswith(("_endpoint", "_uri"))):  # https where the service is
        assert found[name].startswith((f"{driver.base_url}/", f"{driver.auth_url}/")), name
    for tag in found["ui_locales_supported"]:  # BCP 47 writes them so; the suite warns otherwise
        assert re.fullmatch(r"[a-z]{2}(-[A-Z][a-z]{3})?(-[A-Z]{2})?", tag)
    keys = driver.call("GET", found["jwks_uri"].removeprefix(driver.base_url)).json()["keys"]
    assert {key["alg"] for key in keys} == {"ES256", "RS256"}
    for key in keys:
        assert {"kid"} <= set(key) <= {"kty", "kid", "alg", "use", "n", "e", "crv", "x", "y"}


# What the plans Basic OP and Form Post OP (https://openid.net/certification/) send, and no other test does.
OF_THE_PLANS = (
    "scope=email+openid&display=popup&max_age=10000&extra=x&login_hint=b@c.example&ui_locales=se&acr_values=1+2"
)


@contract("I2.members", "I6.form-post", "I7.silent")
@pytest.mark.parametrize("mode", [None, "form_post"])
def test_requests_of_the_plans_are_answered_in_both_response_modes(
    driver: OAuthDriver, application: Registered, alice: Any, mode: str | None
) -> None:
    def ask(**changes: str | None) -> dict[str, Any]:
        """The parameters of the callback after whatever the person is asked for, and the request."""
        given = {"scope": "openid", "nonce": secrets.token_urlsafe(8), "state": "s" * 128}
        asked = {**given, "response_mode": mode, **changes}
        answer = driver.open(driver.authorization_url(application, **asked))
        if Page(answer).sign_in:
            answer = driver.sign_in(answer, alice.email, PASSWORD)
        if Page(answer).consent:
            answer = driver.decide(answer, remember=True)
        if mode:
            [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
            assert form.method == "post"
            found = form.fields
        else:
            assert driver.callback(answer).address == application.redirect_uri
            found = driver.callback(answer).parameters
        assert (found["state"], found["iss"]) == (asked["state"], driver.base_url)
        return {**asked, **found}

    def claims_of(found: dict[str, Any]) -> dict[str, Any]:
        body = driver.exchange(application, found["code"]).json()
        assert sorted(body["scope"].split()) == sorted(found["scope"].split())
        claims = verified(driver, application, body["id_token"])
        assert (claims["sub"], claims.get("nonce")) == (str(alice.pk), found["nonce"])
        return claims | {"token": body["id_token"]}

    assert ask(prompt="none")["error"] == "login_required"
    first = claims_of(ask(nonce=None, claims_locales="se", **dict(parse_qsl(OF_THE_PLANS))))
    again = claims_of(ask(prompt="none", id_token_hint=first["token"]))
    assert first["auth_time"] == again["auth_time"]


def send(driver: OAuthDriver, operation: str, application: Registered, token: str, **more: str) -> Any:
    form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": token, **more}
    return driver.call("POST", f"/oauth/{operation}", data={name: value for name, value in form.items() if value})


def token_of(application: Registered, alice: Any) -> str:
    return str(TokenFactory(application=application.row, user=alice).raw)


@pytest.mark.integration
@contract("I8.revoke", "I8.others")
@pytest.mark.parametrize("kind", ["confidential", "public"])
def test_an_application_ends_its_own_token_and_no_other(driver: OAuthDriver, alice: Any, kind: str) -> None:
    application = ApplicationFactory(client_type=kind)
    token = token_of(application, alice)
    for other in (ApplicationFactory(), ApplicationFactory(client_type="public")):
        assert send(driver, "revoke", other, token).status_code == 200
    assert driver.userinfo(token).status_code == 200
    for _ in range(2):
        answer = send(driver, "revoke", application, token, token_type_hint="refresh_token")
        assert (answer.status_code, answer.text) == (200, "")
        error_of(driver.userinfo(token), 401, "invalid_token")


@pytest.mark.integration
@contract("I8.introspect", "I8.others")
def test_a_valid_token_is_active_and_all_others_alike(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    told = send(driver, "introspect", application, token_of(application, alice)).json()
    named = {"active": True, "sub": str(alice.pk), "client_id": application.client_id, "iss": driver.base_url}
    assert told.items() >= (named | {"exp": told["iat"] + 3600}).items()
    revoked = token_of(application, alice)
    send(driver, "revoke", application, revoked)
    for token in (revoked, "x", "x" * 5000, token_of(ApplicationFactory(), alice)):
        assert send(driver, "introspect", application, token).json() == {"active": False}


@contract("I8.client")
@pytest.mark.parametrize("operation", ["revoke", "introspect"])
def test_the_client_must_prove_itself_and_a_public_one_can_not_introspect(
    driver: OAuthDriver, application: Registered, alice: Any, operation: str
) -> None:
    token = token_of(application, alice)
    for secret in ("wrong", ""):
        error_of(send(driver, operation, application, token, client_secret=secret), 401, "invalid_client")
    error_of(send(driver, operation, application, ""), 400, "invalid_request")
    assert driver.userinfo(token).status_code == 200
    public = ApplicationFactory(client_type="public")
    for proof in ({}, {"code_verifier": "v" * 43}):
        answer = send(driver, "introspect", public, token_of(public, alice), client_secret="", **proof)
        error_of(answer, 401, "invalid_client")
