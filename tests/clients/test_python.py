"""Authlib and requests-oauthlib complete the plain OAuth flow without changes. Specification 1.

Their code in the documents, with OpenID Connect: test_snippets.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from oauthlib.oauth2 import AccessDeniedError, InvalidGrantError
from requests_oauthlib import OAuth2Session

from tests.clients.conftest import Answer, expected
from tests.contract_coverage import contract
from tests.factories import Registered
from tests.server import Server


@contract("1.4", "1.5", "5.2", "4.3", "4.4", "3.1", "D13.twice", "D19/invalid_grant")
@pytest.mark.parametrize(
    ("method", "more"), [("client_secret_post", {}), ("client_secret_basic", {"code_verifier": "v" * 43})]
)
def test_authlib(
    provider: Server, answer: Answer, application: Registered, alice: Any, method: str, more: dict[str, str]
) -> None:
    """With and without PKCE; a code that was spent is an error that it understands."""
    session = AuthlibSession(
        application.client_id,
        application.client_secret,
        redirect_uri=application.redirect_uri,
        token_endpoint_auth_method=method,
        code_challenge_method="S256" if more else None,
        scope="profile",
    )
    url, state = session.create_authorization_url(f"{provider.auth_url}/oauth/authorize", **more)
    allowed = {"authorization_response": answer(url).url, "state": state, **more}
    token = session.fetch_token(f"{provider.base_url}/oauth/token", **allowed)
    assert token["token_type"] == "Bearer"
    profile = session.get(f"{provider.base_url}/oauth/userinfo").json()
    assert profile == expected(alice, profile)
    with pytest.raises(OAuthError, match="invalid_grant"):
        session.fetch_token(f"{provider.base_url}/oauth/token", **allowed)


@contract("1.4", "1.5", "5.2", "4.3", "4.4", "D12.basic", "3.4", "4.2/error", "7/callback", "D13.twice")
@pytest.mark.parametrize(("pkce", "more"), [(None, {"include_client_id": True}), ("S256", {})], ids=["body", "basic"])
def test_requests_oauthlib(
    provider: Server, answer: Answer, application: Registered, alice: Any, pkce: str | None, more: dict[str, Any]
) -> None:
    """With and without PKCE; a refusal and a code that was spent are errors that it understands."""
    session = OAuth2Session(application.client_id, redirect_uri=application.redirect_uri, pkce=pkce)
    given = {"client_secret": application.client_secret, **more}
    ask, token_url = f"{provider.auth_url}/oauth/authorize", f"{provider.base_url}/oauth/token"
    with pytest.raises(AccessDeniedError):
        session.fetch_token(
            token_url, authorization_response=answer(session.authorization_url(ask)[0], "refuse").url, **given
        )
    allowed = answer(session.authorization_url(ask)[0])
    token = session.fetch_token(token_url, authorization_response=allowed.url, **given)
    assert token["expires_in"] == 3600
    profile = session.get(f"{provider.base_url}/oauth/userinfo").json()
    assert profile == expected(alice, profile)
    with pytest.raises(InvalidGrantError):
        session.fetch_token(token_url, authorization_response=allowed.url, **given)
