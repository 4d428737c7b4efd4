"""The backend that the views of Django OAuth Toolkit call: the class in the setting `OAUTH2_BACKEND_CLASS`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from django.http import HttpRequest
from oauth2_provider.signals import app_authorized

from accounts.sign_in import reauthentication
from config.infrastructure import events
from config.infrastructure.errors import RequestError, subject
from config.infrastructure.events import Event
from config.infrastructure.network import client_address
from oauth_bridge.consent.pending_request import FIELD_NAME, PendingRequest
from oauth_bridge.credentials import codes
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.credentials.tokens import Bearer
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import AccessToken, Application
from oauth_bridge.oauth import authentication, authorization, exchange, parameters, revocation_introspection, userinfo
from oauth_bridge.oauth.parameters import Parameters
from oauth_bridge.openid import claims
from oauth_bridge.openid import request as openid_request

Response = tuple[str | None, dict[str, str], str, int]  # URL, headers, body, status


@dataclass(frozen=True, slots=True)
class VerifiedRequest:
    """An authorization request whose client and callback address are verified.

    Before a code is issued, `authorization.check` must accept the other parameters.
    """

    application: Application
    pending: PendingRequest
    attempt: UUID
    query: Parameters
    form: dict[str, str]


class Backend:
    """Replaces `OAuthLibCore`, the toolkit's backend. Errors are RequestErrors instead of the toolkit's exceptions."""

    def __init__(self, server: object) -> None:
        pass  # the toolkit passes an oauthlib server

    def validate_authorization_request(self, request: HttpRequest) -> tuple[list[str], VerifiedRequest]:
        """Verify the request. Return [] (the toolkit expects scopes) and the verified request. Raises RequestError."""
        is_post = request.method == "POST"
        form = parameters.read_form(request, has_been_read=True).texts() if is_post else {}
        query = parameters.of_query(request)
        pending = PendingRequest.unseal(form.get(FIELD_NAME, "")) if is_post else PendingRequest.of_link(query)
        subject().attempt = attempt = UUID(pending.attempt)
        application = authorization.verify(pending, query)
        return [], VerifiedRequest(application, pending, attempt, query, form)

    def create_authorization_response(
        self, request: HttpRequest, _scopes: list[str], verified: VerifiedRequest, allow: bool
    ) -> Response:
        """Return the callback address with a code if `allow`, otherwise with an error. Raises AlreadyRedeemed."""
        pending = verified.pending
        if not allow:
            # Use the person who saw the page. The browser session may have ended since, or belong to another person.
            subject().person = person_id = pending.person_id or request.user.pk
            codes.discard(verified.attempt, person_id)
            return pending.error_url(RequestError(OAuthFault.REFUSED)), {}, "", 302
        granted = openid_request.granted(
            pending.parameters,
            lambda: reauthentication.proof_of(request),
            profile_in_id_token=verified.application.profile_in_id_token,
        )
        asked = pending.parameters.get("scope", "")
        code = codes.issue(
            request.user,  # type: ignore[arg-type]
            verified.application,
            attempt=verified.attempt,
            redirect_uri=pending.redirect_uri,
            scope=" ".join(claims.granted_scopes(asked)) if claims.is_openid(asked) else userinfo.PROFILE_SCOPE,
            code_challenge=pending.parameters.get("code_challenge", ""),
            openid=granted.to_json() if granted else None,
            received_at=request.received_at,  # type: ignore[attr-defined]
        )
        events.write(Event.CODE_ISSUED, client_id=verified.application.client_id, person=request.user.pk)
        return pending.url(code=code), {}, "", 302

    def create_token_response(self, request: HttpRequest) -> Response:
        sent = parameters.of_query(request)  # if `read_form` raises, the URL may contain the code
        try:
            sent = parameters.read_form(request)
            form = authentication.of_request(request, sent.texts())
            members = exchange.exchange_code(form, client_address(request))
        except RequestError as error:
            error.about(presented=(digest_of(sent.text("code")), authentication.named_client(request, sent)))
            raise
        if app_authorized.has_listeners():
            token = AccessToken.objects.get(digest=digest_of(str(members["access_token"])))
            app_authorized.send_robust(sender=self, request=request, token=token)  # an error costs no token
        return None, {"Content-Type": "application/json"}, json.dumps(members), 200

    def create_revocation_response(self, request: HttpRequest) -> Response:
        form = authentication.of_request(request, parameters.read_form(request).texts())
        revocation_introspection.revoke(form, client_address(request))
        return None, {"Content-Type": "application/json"}, "", 200

    def verify_request(self, request: HttpRequest, scopes: list[str]) -> tuple[bool, Bearer]:
        return True, userinfo.verify(request, scopes)
