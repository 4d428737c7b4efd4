"""Add a passkey, and check the answer of a passkey. WebAuthn §7.1, §7.2.

The browser gets the stored IDs of the person's passkeys. Only the stored passkey that answers is parsed, whereas
allauth would parse all stored passkeys several times.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from django.contrib.auth.base_user import AbstractBaseUser
from django.db.models import QuerySet
from django.http import HttpRequest
from fido2.server import Fido2Server
from fido2.utils import websafe_decode
from fido2.webauthn import (
    AttestedCredentialData,
    PublicKeyCredentialDescriptor,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialType,
    PublicKeyCredentialUserEntity,
    RegistrationResponse,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

_SESSION_KEY = "passkey"  # the challenge of the browser's last options, until a passkey has answered it
_VERIFIED = UserVerificationRequirement.REQUIRED
_TYPE = PublicKeyCredentialType.PUBLIC_KEY


def creation_options(request: HttpRequest, person: AbstractBaseUser) -> dict[str, Any]:
    """Return the options with which the browser makes a passkey.

    The device keeps the key and verifies the person, so the passkey alone is enough to sign in.
    """
    user = PublicKeyCredentialUserEntity(**get_adapter().get_public_key_credential_user_entity(person))
    options, request.session[_SESSION_KEY] = _server().register_begin(
        user, _descriptors(person), ResidentKeyRequirement.REQUIRED, _VERIFIED, extensions={"credProps": True}
    )
    return dict(options)


def check_new(request: HttpRequest, answer: dict[str, Any]) -> None:
    """Check the browser's answer to `creation_options`. Raises one of `forms.MALFORMED`: the answer is not accepted."""
    _server().register_complete(request.session[_SESSION_KEY], answer)
    del request.session[_SESSION_KEY]


def request_options(request: HttpRequest, person: AbstractBaseUser | None = None) -> dict[str, Any]:
    """Return the options with which the browser asks for a passkey of the person, or of anybody if `person` is None."""
    options, request.session[_SESSION_KEY] = _server().authenticate_begin(
        _descriptors(person) if person else None, _VERIFIED
    )
    return dict(options)


def find_used(request: HttpRequest, person: AbstractBaseUser | None, answer: dict[str, Any]) -> Authenticator:
    """Return the passkey that signed the answer to `request_options`. If `person` is None, the answer names the owner.

    Raises one of `forms.MALFORMED`: the passkey is unknown, or the answer is not accepted.
    """
    owner = person.pk if person else UUID(websafe_decode(answer["response"]["userHandle"]).decode())
    known = _passkeys(owner).select_related("user").filter(data__credential__rawId=answer["rawId"]).first()
    if known is None:
        raise LookupError
    stored = RegistrationResponse.from_dict(known.data["credential"]).response.attestation_object.auth_data
    credential = cast(AttestedCredentialData, stored.credential_data)
    _server().authenticate_complete(request.session[_SESSION_KEY], [credential], answer)
    del request.session[_SESSION_KEY]
    return known


def _passkeys(owner: UUID) -> QuerySet[Authenticator]:
    found: QuerySet[Authenticator] = Authenticator.objects.filter(user_id=owner, type=Authenticator.Type.WEBAUTHN)
    return found


def _descriptors(person: AbstractBaseUser) -> list[PublicKeyCredentialDescriptor]:
    ids = _passkeys(person.pk).values_list("data__credential__rawId", flat=True)
    return [PublicKeyCredentialDescriptor(type=_TYPE, id=websafe_decode(each)) for each in ids]


def _server() -> Fido2Server:
    return Fido2Server(PublicKeyCredentialRpEntity(**get_adapter().get_public_key_credential_rp_entity()))
