"""Read and verify the request of an application to sign a person out. RP-Initiated Logout 1.0 §2.

No redirect happens before the application and the address are verified.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.infrastructure.errors import RequestError, subject
from oauth_bridge.callback_addresses.masking import masked
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application
from oauth_bridge.protocol import id_token
from oauth_bridge.protocol.parameter_parsing import Parameters
from oauth_bridge.storage import applications

NAMES = ("client_id", "id_token_hint", "post_logout_redirect_uri", "state", "ui_locales")


@dataclass(frozen=True, slots=True)
class LogoutRequest:
    """A verified request. `state` is percent-encoded; None: the request has no `state`.

    `address` is a registered address of the application, or empty. `person_id` is the `sub` of the ID token in the
    hint, or empty.
    """

    application: Application | None = None
    address: str = ""
    state: str | None = None
    person_id: str = ""

    @property
    def url(self) -> str:
        """The URL to which the browser is redirected after the sign-out; empty without an address."""
        if not self.address or self.state is None:
            return self.address
        return f"{self.address}{'&' if '?' in self.address else '?'}state={self.state}"


def read(query: Parameters) -> LogoutRequest:
    """Read the request and check its parameters.

    Raises RequestError: a parameter is repeated; the hint is not an ID token of this service, or was issued to another
    application; an address is sent without an application; the application is unknown or switched off; or the address
    is not registered for the application.
    """
    if name := query.repeated(NAMES):
        raise RequestError(OAuthFault.REPEATED, name=name)
    client_id, person_id = query.text("client_id"), ""
    if hint := query.text("id_token_hint"):
        issued_to, person_id = _hinted(hint, client_id)
        if client_id and client_id != issued_to:
            _note(applications.find(client_id))
            raise RequestError(OAuthFault.LOGOUT_HINT_OF_ANOTHER)
        client_id = issued_to
    address = query.text("post_logout_redirect_uri")
    application = verify(client_id, address)
    return LogoutRequest(application, address, query.percent_encoded("state"), person_id)


def verify(client_id: str, address: str) -> Application | None:
    """Verify application and address. Returns None if both are empty. Raises RequestError: as `read`."""
    if not client_id:
        if address:
            raise RequestError(OAuthFault.MISSING, name="client_id").about(cause="logout_client_id_missing")
        return None
    application = applications.find(client_id)
    if application is None:
        unknown = RequestError(OAuthFault.CLIENT_UNKNOWN)
        applications.explain_unknown(unknown, client_id)
        raise unknown
    _note(application)
    if not application.is_enabled:
        raise RequestError(OAuthFault.CLIENT_DISABLED)
    if address and address not in application.addresses_after_sign_out:
        raise RequestError(OAuthFault.LOGOUT_ADDRESS).about(given=masked(address))
    return application


def _note(application: Application | None) -> None:
    subject().client_id = application.client_id if application else ""


def _hinted(hint: str, client_id: str) -> tuple[str, str]:
    """The client_id and the `sub` of the ID token in the hint. `client_id`: the parameter, for the activity log."""
    try:
        claims = id_token.verified(hint)
    except id_token.NotOurs as unknown:
        _note(applications.find(client_id))
        raise RequestError(OAuthFault.LOGOUT_HINT).about(cause=f"logout_{unknown}") from None
    return str(claims.get("aud", "")), str(claims.get("sub", ""))
