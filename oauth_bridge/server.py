"""The toolkit, cut down to what this service offers: the authorization code grant with S256, nothing else.

D9, D11. The library sees only what `views` have read strictly; no header, cookie or raw body reaches it.
"""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from oauth2_provider.oauth2_backends import OAuthLibCore
from oauthlib.common import urlencode
from oauthlib.oauth2 import AuthorizationCodeGrant, AuthorizationEndpoint, BearerToken, TokenEndpoint
from oauthlib.oauth2.rfc6749.grant_types.authorization_code import code_challenge_method_s256

from oauth_bridge import codes


class Server(AuthorizationEndpoint, TokenEndpoint):
    """One grant, one response type, one kind of token."""

    def __init__(self, request_validator: Any, **settings: Any) -> None:
        grant = AuthorizationCodeGrant(request_validator, pre_auth=[request_validator.check_authorization_request])
        grant.refresh_token = False
        grant._code_challenge_methods = {"S256": code_challenge_method_s256}
        bearer = BearerToken(
            request_validator,
            token_generator=lambda request: codes.new_credential(),
            expires_in=codes.TOKEN_LIFETIME_SECONDS,
        )
        AuthorizationEndpoint.__init__(
            self, default_response_type="code", default_token_type=bearer, response_types={"code": grant}
        )
        TokenEndpoint.__init__(
            self,
            default_grant_type="authorization_code",
            default_token_type=bearer,
            grant_types={"authorization_code": grant},
        )


class Core(OAuthLibCore):
    """Hands the library `request.oauth_parameters`, and beside them what `validator` wants to know of the call."""

    def _extract_params(self, request: HttpRequest) -> tuple[str, str, str, dict[str, Any]]:
        encoded = urlencode(list(request.oauth_parameters.items()))  # type: ignore[attr-defined]
        if request.method == "POST" and request.path == "/oauth/token":
            return "/oauth/token", "POST", encoded, request.oauth_call  # type: ignore[attr-defined]
        return f"/oauth/authorize?{encoded}", "GET", "", {}
