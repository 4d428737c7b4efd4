"""The answers to the library's questions: the one subclass of the toolkit's validator.

Each override says whose clause it keeps. What is wrong is raised with the sentence of `faults`, so the library's own
wording never reaches anybody.
"""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any, NoReturn

from django.utils import timezone
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.common import Request

from oauth_bridge import applications, codes, redirect_uris
from oauth_bridge.claims import PROFILE_SCOPE
from oauth_bridge.faults import Fault, NotVerified, Refused
from oauth_bridge.models import Application

logger = logging.getLogger("oauth_bridge")

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")
# A redemption of a spent code within this time is the same exchange sent twice; a later one is a replay (D13).
SENT_TWICE_WITHIN = timedelta(seconds=3)


def holds(application: Application | None, parameters: dict[str, str]) -> bool:
    """Whether an authorization request is right in everything that the library would go through. D3, D9, D17.

    Says only yes or no: what is wrong is for the library to find, which asks the methods below in its order.
    """
    if application is None or not application.is_enabled or parameters.get("response_type") != "code":
        return False
    if parameters.get("redirect_uri") not in application.callback_addresses:
        return False
    challenge, method = parameters.get("code_challenge"), parameters.get("code_challenge_method")
    if challenge is None:
        return method is None and application.client_type == Application.CLIENT_CONFIDENTIAL
    return method == "S256" and CHALLENGE.fullmatch(challenge) is not None


def mismatch(redirect_uri: str) -> NotVerified:
    return NotVerified(Fault.REDIRECT_URI_MISMATCH, parts=redirect_uris.conspicuous(redirect_uri))


class Validator(OAuth2Validator):
    # -- Authorize -------------------------------------------------------------------------------------------------

    def validate_client_id(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> bool:
        """D3: the client comes first. RFC 6749 §4.1.2.1: its absence is never reported by a redirect."""
        request.client = applications.find(client_id)
        if request.client is None:
            raise NotVerified(Fault.CLIENT_UNKNOWN)
        if not request.client.is_usable(request):
            raise NotVerified(Fault.CLIENT_DISABLED)
        return True

    def validate_redirect_uri(self, client_id: str, redirect_uri: str, request: Request, *a: Any, **kw: Any) -> bool:
        """D3, specification 5.4: equal to a registered address, byte for byte; no exception for loopback ports."""
        if redirect_uri not in request.client.callback_addresses:
            raise mismatch(redirect_uri)
        return True

    def check_authorization_request(self, request: Request) -> dict[str, Any]:
        """D9, RFC 7636 §4.4.1: what the library would let pass or report under another name."""
        if request.response_type is None:
            raise Refused(Fault.MISSING, name="response_type")
        if request.response_type != "code":
            raise Refused(Fault.RESPONSE_TYPE)
        if request.code_challenge is None:
            if self.is_pkce_required(request.client_id, request):
                raise Refused(Fault.CHALLENGE_NEEDED)
            if request.code_challenge_method is not None:
                raise Refused(Fault.MISSING, name="code_challenge")
        elif request.code_challenge_method != "S256":
            raise Refused(Fault.CHALLENGE_METHOD)
        elif not CHALLENGE.fullmatch(request.code_challenge):
            raise Refused(Fault.CHALLENGE_MALFORMED)
        return {}

    def is_pkce_required(self, client_id: str, request: Request) -> bool:
        """D9: required for public clients, optional for confidential ones."""
        return bool(request.client.client_type == Application.CLIENT_PUBLIC)

    def validate_scopes(self, client_id: str, scopes: Any, client: Any, request: Request, *a: Any, **kw: Any) -> bool:
        """D18: unknown scopes are ignored; what is left of none at all is the profile."""
        request.scopes = [PROFILE_SCOPE]
        return True

    # -- Token -----------------------------------------------------------------------------------------------------

    def client_authentication_required(self, request: Request, *args: Any, **kwargs: Any) -> bool:
        """No longer: `clients.authenticate` has seen to it."""
        return False

    def authenticate_client_id(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> bool:
        request.client = request.headers["client"]
        return True

    def validate_grant_type(self, client_id: str, grant_type: str, client: Any, request: Request, *a: Any) -> bool:
        """The library knows one grant only (`server`), and every application may use it."""
        return True

    def validate_code(
        self, client_id: str, code: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """D9, D13, D14, D17, specification 3: first whether the client may redeem the code, then whether it still can.

        The code_verifier comes before all that revokes: whoever read a code but can't redeem it must not end the token
        of those who could.
        """
        row = codes.find(code)
        if row is None:
            raise Refused(Fault.CODE_UNKNOWN)
        if row.application_id != client.pk:
            raise Refused(Fault.CODE_OF_ANOTHER)
        if row.code_challenge and not request.code_verifier:
            raise Refused(Fault.VERIFIER_MISSING)
        if row.code_challenge and codes.challenge_of(request.code_verifier) != row.code_challenge:
            raise Refused(Fault.VERIFIER_WRONG)
        if row.redeemed_at is not None:
            self._refuse_spent(row, request)
        if row.expires_at <= timezone.now():
            raise Refused(Fault.CODE_EXPIRED)
        if not row.person_is_active:
            raise Refused(Fault.CODE_PERSON_AWAY)
        if row.is_ended:
            raise Refused(Fault.CODE_REVOKED)
        if request.code_verifier and not row.code_challenge:
            raise Refused(Fault.VERIFIER_UNASKED)
        request.code_row = row
        request.user = row.user_id
        request.scopes = row.scope.split()
        return True

    def get_code_challenge(self, code: str, request: Request) -> str | None:
        return request.code_row.code_challenge or None

    def get_code_challenge_method(self, code: str, request: Request) -> str:
        return "S256"

    def get_default_redirect_uri(self, client_id: str, request: Request, *args: Any, **kwargs: Any) -> str:
        """D10: the token operation does not ask for it; at authorize it is required (D3)."""
        row = getattr(request, "code_row", None)
        if row is None:
            raise NotVerified(Fault.MISSING, name="redirect_uri")
        return str(row.redirect_uri)

    def confirm_redirect_uri(
        self, client_id: str, code: str, redirect_uri: str, client: Any, request: Request, *args: Any, **kwargs: Any
    ) -> bool:
        """D10: when it is sent it must be the one the code was issued for. RFC 6749 §4.1.3."""
        issued_for = request.code_row.redirect_uri
        if redirect_uri != issued_for:
            form = request.headers["presented"]
            credentials = [form[name] for name in ("code", "client_secret", "code_verifier") if name in form]
            sent = redirect_uris.shown(redirect_uri, without=credentials)
            raise Refused(Fault.CODE_REDIRECT_URI, sent=sent, issued_for=redirect_uris.shown(issued_for))
        return True

    def save_bearer_token(self, token: dict[str, Any], request: Request, *args: Any, **kwargs: Any) -> None:
        """D13: spends the code and stores the token in one step, so a lost race leaves nothing behind."""
        if not codes.redeem(request.headers["presented"], request.client.pk, token["access_token"]):
            raise Refused(Fault.CODE_RACED)

    def invalidate_authorization_code(self, client_id: str, code: str, request: Request, *args: Any, **kw: Any) -> None:
        """Nothing is left to do: `save_bearer_token` has spent it."""

    # -- Within ----------------------------------------------------------------------------------------------------

    def _refuse_spent(self, row: Any, request: Request) -> NoReturn:
        """Refuse a code that is spent already; revoke the token that was issued from it when this is a replay. D13.

        The same exchange sent twice, by a double click, a retry or two workers, is far likelier than a theft, and only
        the holder of the secret or the code_verifier can send it: a loser of that race revokes nothing.
        By the clock alone, so that it does not matter how long a request waited for a thread. A code that was spent at
        a time still to come is always a replay: the clock was set back since (or another host's differs), so nobody
        can say how long ago that was, and a grace period until the clock is back there could last for hours.
        """
        now = timezone.now()
        if row.redeemed_at <= now < row.redeemed_at + SENT_TWICE_WITHIN:
            raise Refused(Fault.CODE_RACED)
        age = max(now - row.redeemed_at, timedelta())
        codes.revoke_issued_from(row)
        logger.warning(
            "code replayed, token revoked",
            extra={
                "client_id": request.client_id,
                "code_row": row.pk,
                "age_seconds": round(age.total_seconds(), 1),
                "address": request.headers["address"],
            },
        )
        raise Refused(Fault.CODE_SPENT, age=f"{age.total_seconds():.1f}")
