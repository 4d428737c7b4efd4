"""User info: verify the access token, answer four claims. Specification 2.4, 4.4; D16, D17, D18; RFC 6750."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.http import HttpRequest

from accounts.pictures.current_picture import avatar_url
from config.infrastructure.errors import RequestError
from oauth_bridge import throttling
from oauth_bridge.errors import OAuthFault
from oauth_bridge.protocol import authorization_header
from oauth_bridge.storage import tokens

if TYPE_CHECKING:
    from accounts.models import User

PROFILE_SCOPE = "profile"


def verify(request: HttpRequest, scopes: Sequence[str]) -> tokens.Bearer:
    """The person of the request's access token, which must carry all the scopes.

    Raises RequestError: there is no token, it is not valid, it lacks a scope, or a limit is reached.
    """
    try:
        bearer = tokens.read(authorization_header.bearer_token(request))
    except RequestError:
        throttling.userinfo_failure(request)
        raise
    try:
        throttling.userinfo(bearer.application_id, bearer.user.pk, is_public=bearer.is_public)
        if not set(scopes) <= set(bearer.scopes):
            raise RequestError(OAuthFault.TOKEN_SCOPE)
    except RequestError as error:
        raise _known(error, bearer) from None
    return bearer


def profile_of(bearer: tokens.Bearer) -> dict[str, str]:
    """The four claims of the bearer's person. Raises RequestError: as `claims_of`."""
    try:
        return claims_of(bearer.user)
    except RequestError as error:
        raise _known(error, bearer) from None


def _known(error: RequestError, bearer: tokens.Bearer) -> RequestError:
    return error.about(client=bearer, person=bearer.user.pk, attempt=bearer.attempt, is_proven=True)


def claims_of(person: User) -> dict[str, str]:
    """The four members of the user-info answer: always all of them, always strings.

    Raises RequestError: the person's e-mail address is not confirmed, so it may not be sent (D16).
    """
    if person.email_verified_at is None:
        raise RequestError(OAuthFault.NO_VERIFIED_EMAIL).about(person=person.pk)
    return {
        "sub": str(person.pk),
        "nickname": person.display_name,
        "email": person.email,
        "avatar": avatar_url(person),
    }
