"""Authlib and requests-oauthlib complete the flow without changes, and PyJWT verifies ID tokens; the driver is the
browser. Specification 1.
"""

from __future__ import annotations

from typing import Any

import jwt
import pytest
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from oauthlib.oauth2 import AccessDeniedError, InvalidGrantError
from requests_oauthlib import OAuth2Session

from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, Registered
from tests.server import Server


@pytest.fixture(autouse=True)
def _loopback_is_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow http on loopback, for which each library has its own setting."""
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


def check_profile(profile: dict[str, Any], alice: Any) -> None:
    assert set(profile) == {"sub", "nickname", "email", "avatar"}
    assert profile["sub"] == str(alice.pk)


@contract("1.4", "1.5", "5.2", "4.3", "4.4")
@pytest.mark.parametrize("method", ["client_secret_post", "client_secret_basic"])
@pytest.mark.parametrize("challenge", [None, "S256"])
def test_authlib(
    provider: Server, driver: OAuthDriver, application: Registered, alice: Any, method: str, challenge: str | None
) -> None:
    session = AuthlibSession(
        application.client_id,
        application.client_secret,
        redirect_uri=application.redirect_uri,
        token_endpoint_auth_method=method,
        code_challenge_method=challenge,
        scope="profile",
    )
    verifier = {"code_verifier": "v" * 43} if challenge else {}
    url, state = session.create_authorization_url(f"{provider.auth_url}/oauth/authorize", **verifier)
    callback = driver.authorize(url, alice.email, PASSWORD)
    token = session.fetch_token(
        f"{provider.base_url}/oauth/token", authorization_response=callback.url, state=state, **verifier
    )
    assert token["token_type"] == "Bearer"
    check_profile(session.get(f"{provider.base_url}/oauth/userinfo").json(), alice)


@contract("3.1", "D13.twice", "D19/invalid_grant")
def test_authlib_understands_a_spent_code(
    provider: Server, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    session = AuthlibSession(
        application.client_id, application.client_secret, redirect_uri=application.redirect_uri, scope="profile"
    )
    url, state = session.create_authorization_url(f"{provider.auth_url}/oauth/authorize")
    token_url = f"{provider.base_url}/oauth/token"
    allowed = driver.authorize(url, alice.email, PASSWORD)
    session.fetch_token(token_url, authorization_response=allowed.url, state=state)
    with pytest.raises(OAuthError, match="invalid_grant"):
        session.fetch_token(token_url, authorization_response=allowed.url, state=state)


@contract("1.4", "1.5", "5.2", "4.3", "4.4", "D12.basic")
@pytest.mark.parametrize("pkce", [None, "S256"])
@pytest.mark.parametrize("in_body", [True, False])
def test_requests_oauthlib(
    provider: Server, driver: OAuthDriver, application: Registered, alice: Any, pkce: str | None, in_body: bool
) -> None:
    session = OAuth2Session(application.client_id, redirect_uri=application.redirect_uri, pkce=pkce)
    url, _state = session.authorization_url(f"{provider.auth_url}/oauth/authorize")
    callback = driver.authorize(url, alice.email, PASSWORD)
    secret: dict[str, Any] = {"client_secret": application.client_secret}
    if in_body:
        secret["include_client_id"] = True
    token = session.fetch_token(f"{provider.base_url}/oauth/token", authorization_response=callback.url, **secret)
    assert token["expires_in"] == 3600
    check_profile(session.get(f"{provider.base_url}/oauth/userinfo").json(), alice)


@contract("3.4", "4.2/error", "7/callback", "D13.twice")
def test_requests_oauthlib_understands_a_refusal_and_a_spent_code(
    provider: Server, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    session = OAuth2Session(application.client_id, redirect_uri=application.redirect_uri)
    url, _state = session.authorization_url(f"{provider.auth_url}/oauth/authorize")
    given: dict[str, Any] = {"client_secret": application.client_secret, "include_client_id": True}
    token_url = f"{provider.base_url}/oauth/token"
    refused = driver.authorize(url, alice.email, PASSWORD, "refuse")
    with pytest.raises(AccessDeniedError):
        session.fetch_token(token_url, authorization_response=refused.url, **given)
    allowed = driver.authorize(url, alice.email, PASSWORD)
    session.fetch_token(token_url, authorization_response=allowed.url, **given)
    with pytest.raises(InvalidGrantError):
        session.fetch_token(token_url, authorization_response=allowed.url, **given)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_pyjwt_verifies_the_id_token(provider: Server, driver: OAuthDriver, alice: Any, algorithm: str) -> None:
    application = ApplicationFactory(id_token_alg=algorithm)
    url = driver.authorization_url(application, scope="openid", nonce="once")
    code = driver.authorize(url, alice.email, PASSWORD).parameters["code"]
    token = driver.exchange(application, code).json()["id_token"]
    key = jwt.PyJWKClient(f"{provider.base_url}/oauth/jwks").get_signing_key_from_jwt(token)
    required = {"require": ["iss", "sub", "aud", "exp", "iat"]}
    claims = jwt.decode(
        token, key, [algorithm], audience=application.client_id, issuer=provider.base_url, options=required
    )
    assert (claims["sub"], claims["nonce"]) == (str(alice.pk), "once")
    other = {"RS256": "ES256", "ES256": "RS256"}[algorithm]
    with pytest.raises(jwt.InvalidTokenError):
        jwt.decode(token, key, [other], audience=application.client_id)
