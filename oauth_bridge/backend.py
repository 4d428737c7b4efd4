"""The setting `OAUTH2_BACKEND_CLASS`: the toolkit's views call this class, and it calls `protocol` and `storage`."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from oauth2_provider.settings import oauth2_settings

from config.infrastructure.network import client_address
from oauth_bridge.consent.request import DamagedRequest, PendingRequest
from oauth_bridge.errors import Fault, RequestError
from oauth_bridge.protocol import authentication, authorization, exchange, parameters, userinfo
from oauth_bridge.responses import callback_error_url, callback_url
from oauth_bridge.storage import codes
from oauth_bridge.storage.tokens import Bearer

Response = tuple[str | None, dict[str, str], str, int]  # URL, headers, body, status


class Backend:
    """The methods that the toolkit's views call. They raise RequestError instead of the toolkit's own exceptions."""

    def __init__(self, server: object) -> None:
        """The toolkit passes an oauthlib server, which is not used. docs/architecture.md has the reason."""

    def validate_authorization_request(self, request: HttpRequest) -> tuple[list[str], dict[str, Any]]:
        """The one scope, and the credentials `application`, `pending`, `query` and `form`.

        Requested scopes are ignored (D18). `form` is None unless the request is a post.

        Raises RequestError: the signature of the pending request is wrong, or as `parameters.of_form`,
        `PendingRequest.of_link` and `authorization.verify`.
        """
        form = parameters.of_form(request, has_been_read=True) if request.method == "POST" else None
        try:
            query = parameters.of_query(request)
            pending = PendingRequest.of_link(query) if form is None else PendingRequest.of_form(form)
        except DamagedRequest:
            raise RequestError(Fault.REQUEST_DAMAGED) from None
        application = authorization.verify(pending)
        return [userinfo.PROFILE_SCOPE], {
            "application": application,
            "pending": pending,
            "query": query,
            "form": form,
        }

    def create_authorization_response(
        self, request: HttpRequest, scopes: list[str], credentials: dict[str, Any], allow: bool
    ) -> Response:
        """The callback with a code or, when the person refused, with `access_denied`.

        Raises AlreadyRedeemed: as `codes.issue`.
        """
        pending: PendingRequest = credentials["pending"]
        if not allow:
            if request.user.is_authenticated:
                codes.discard(UUID(pending.attempt), request.user)
            return callback_error_url(pending.redirect_uri, RequestError(Fault.REFUSED), pending.state), {}, "", 302
        attempt = codes.Attempt(
            id=UUID(pending.attempt),
            application=credentials["application"],
            redirect_uri=pending.redirect_uri,
            scope=" ".join(scopes),
            code_challenge=pending.parameters.get("code_challenge", ""),
        )
        code = codes.issue(attempt, request.user, request.received_at)  # type: ignore[arg-type, attr-defined]
        return callback_url(pending.redirect_uri, code=code, state=pending.state), {}, "", 302

    def create_token_response(self, request: HttpRequest) -> Response:
        """The JSON with the access token. Sets `request.access_token` to the token's row.

        Raises RequestError: as `client_credentials`, `of_form` and `exchange`.
        """
        form = authentication.client_credentials(request, parameters.of_form(request))
        token, request.access_token = exchange.exchange(form, client_address(request))  # type: ignore[attr-defined]
        body = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": oauth2_settings.ACCESS_TOKEN_EXPIRE_SECONDS,
        }
        return None, {"Content-Type": "application/json"}, json.dumps(body), 200

    def verify_request(self, request: HttpRequest, scopes: list[str]) -> tuple[bool, Bearer]:
        """True, and the token's Bearer, whose `user` the toolkit sets as `request.resource_owner`.

        Raises RequestError: as `userinfo.verify`. False is never returned.
        """
        return True, userinfo.verify(request, scopes)
