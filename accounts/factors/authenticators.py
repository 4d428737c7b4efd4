"""Authenticator apps, passkeys and recovery codes of a person, and allauth's adapter for second factors."""

from __future__ import annotations

import base64
import logging
import os
import re
import struct
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

from allauth.account.authentication import get_authentication_records
from allauth.mfa import app_settings
from allauth.mfa.adapter import DefaultMFAAdapter, get_adapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
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
from qrcode import QRCode

from accounts import audit_trail
from accounts.errors import AccountFault
from accounts.mail import composing
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from config.infrastructure import events, sealing
from config.infrastructure.network import is_ip_address

logger = logging.getLogger(__name__)

PURPOSE = "accounts.factors"  # of the key that encrypts secrets of apps and seeds of recovery codes
MOST_PASSKEYS = 20  # a page sends their IDs to the browser
_SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
HOST = "host"  # the name of the value in a passkey's `data["credential"]` that says for which host it was made
_REMEMBERED = 10  # used codes of an app; at most three codes are valid at a time
_USED = "used_codes"


def overview(person: AbstractBaseUser) -> dict[str, Any]:
    rows = list(Authenticator.objects.filter(user_id=person.pk).order_by("created_at"))
    return {
        "passkeys": [(row, other_host(row)) for row in rows if row.type == Authenticator.Type.WEBAUTHN],
        "unusable_passkeys": sum(1 for row in rows if other_host(row)),
        "passkeys_are_possible": passkeys_are_possible(),
        "totp": next((row for row in rows if row.type == Authenticator.Type.TOTP), None),
        "is_asked": any(row.type in _SECOND_FACTORS for row in rows),
        "codes_left": next((_unused(row) for row in rows if row.type == Authenticator.Type.RECOVERY_CODES), None),
    }


def _unused(row: Authenticator) -> int:
    return int(app_settings.RECOVERY_CODE_COUNT) - int(row.data["used_mask"]).bit_count()


def described(person: User) -> list[dict[str, Any]]:
    rows = Authenticator.objects.filter(user=person).order_by("created_at")
    return [
        {"type": row.type, "name": str(row), "created_at": row.created_at, "last_used_at": row.last_used_at}
        for row in rows
    ]


def has_confirmed(request: HttpRequest) -> bool:
    """Return whether this session used a second factor, and the person has an authenticator app or usable passkey."""
    records = get_authentication_records(request, request.user)
    return any(record.get("method") == "mfa" for record in records) and has_any(request.user)


def has_any(person: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the person has an authenticator app, or a passkey for the host of AUTH_URL."""
    return bool(types_of(person) - {Authenticator.Type.RECOVERY_CODES})


def confirm_path(person: AbstractBaseUser | AnonymousUser) -> str:
    has_app = Authenticator.Type.TOTP in types_of(person)
    return reverse("mfa_reauthenticate" if has_app else "mfa_reauthenticate_webauthn")


def types_of(person: AbstractBaseUser | AnonymousUser) -> set[str]:
    """Return the types of the person's authenticators. Passkeys for another host and used-up codes do not count."""
    rows = Authenticator.objects.filter(user_id=person.pk)
    is_code = Authenticator.Type.RECOVERY_CODES
    return {row.type for row in rows if (_unused(row) if row.type == is_code else not other_host(row))}


def other_hosts(person: AbstractBaseUser | AnonymousUser) -> list[str]:
    return sorted({other_host(row) for row in passkeys_of(person.pk)} - {""})


def of_other_hosts() -> QuerySet[Authenticator]:
    passkeys = Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN, data__credential__has_key=HOST)
    others: QuerySet[Authenticator] = passkeys.exclude(**{f"data__credential__{HOST}": passkey_host()})
    return others


def other_host(row: Authenticator) -> str:
    """Return the host of a passkey if it is another host than that of AUTH_URL. In all other cases, return ""."""
    host = str(row.data.get("credential", {}).get(HOST, ""))
    return "" if host == passkey_host() else host


def is_enough_by_link(request: HttpRequest, person: User) -> bool:
    """Return whether a person who is no administrator signs in by reset link and has only unusable second factors."""
    records = get_authentication_records(request, person)
    is_by_link = any(record.get("method") == "password_reset" for record in records)
    # A reader of an administrator's e-mails must not administer the service.
    is_administrator = person.is_staff or person.is_superuser
    return is_by_link and not is_administrator and is_asked_after_password(person) and not types_of(person)


def is_asked_after_password(person: AbstractBaseUser | AnonymousUser | None) -> bool:
    """Return whether the person has an authenticator app or a passkey, usable or not. `person` is None if deleted."""
    owned = Authenticator.objects.filter(user_id=person and person.pk, type__in=_SECOND_FACTORS)
    return bool(owned.exists())


def passkeys_of(owner: UUID | None) -> QuerySet[Authenticator]:
    found: QuerySet[Authenticator] = Authenticator.objects.filter(user_id=owner, type=Authenticator.Type.WEBAUTHN)
    return found


@transaction.atomic
def remove_all(person: User) -> None:
    end_credentials(person)
    if Authenticator.objects.filter(user=person).delete()[0]:
        composing.factors_removed(person)
    events.write(events.Event.FACTORS_CHANGED, person=person.pk, change="all_removed")
    audit_trail.write("factors_removed", audit_trail.of_person(person))


@transaction.atomic
def mark_used(person: AbstractBaseUser | AnonymousUser, code: str) -> bool:
    """Mark a code as used. Return False if it was used before or the person has no authenticator app. RFC 6238 §5.2."""
    # allauth remembers a used code for only one period and, without Redis, in only one worker.
    apps = Authenticator.objects.select_for_update().filter(user_id=person.pk, type=Authenticator.Type.TOTP)
    row = apps.first()
    if row is None or _is_used(row, code):
        return False
    row.data[_USED] = [*row.data.get(_USED, []), _digests(code)[0]][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True


def was_used(person: AbstractBaseUser | AnonymousUser, code: str) -> bool:
    app = Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.TOTP).first()
    return app is not None and _is_used(app, code)


def _is_used(app: Authenticator, code: str) -> bool:
    return not set(_digests(code)).isdisjoint(app.data.get(_USED, []))


def is_of_an_app(code: str) -> bool:
    return len(_digits(code)) == 6  # recovery codes are longer


def _digits(code: str) -> str:
    return re.sub(r"[^0-9]", "", code)  # allauth accepts any punctuation and white space in a code


def _digests(code: str) -> list[str]:
    return sealing.digests("accounts.factors.used_codes", _digits(code))


def passkey_host() -> str:
    return urlsplit(settings.AUTH_URL).hostname or ""


def passkeys_are_possible() -> bool:
    """Return whether AUTH_URL has a host name: browsers make no passkeys for IP addresses."""
    return not is_ip_address(passkey_host())


# The options and answers of a browser with passkeys. WebAuthn §7.1, §7.2 ----------------------------------------------

# The WebAuthn library raises ValueError for an answer that is not accepted, and any of these for a malformed one.
MALFORMED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, struct.error)
_SESSION_KEY = "passkey"  # the challenge of the browser's last options, until a passkey has answered it
_VERIFIED = UserVerificationRequirement.REQUIRED
_TYPE = PublicKeyCredentialType.PUBLIC_KEY


def creation_options(request: HttpRequest, person: AbstractBaseUser) -> dict[str, Any]:
    """Return options for making a passkey that alone is enough to sign in. Store their challenge in the session."""
    user = PublicKeyCredentialUserEntity(**get_adapter().get_public_key_credential_user_entity(person))
    options, request.session[_SESSION_KEY] = _server().register_begin(
        user, _descriptors(person), ResidentKeyRequirement.REQUIRED, _VERIFIED, extensions={"credProps": True}
    )
    return dict(options)


def check_new(request: HttpRequest, answer: dict[str, Any]) -> None:
    """Check the browser's answer to `creation_options`. Raises one of `MALFORMED` if it is not accepted."""
    _server().register_complete(request.session[_SESSION_KEY], answer)
    del request.session[_SESSION_KEY]


def request_options(request: HttpRequest, person: AbstractBaseUser | None = None) -> dict[str, Any]:
    """Return options for using a passkey of `person` (None: of anybody). Store their challenge in the session."""
    options, request.session[_SESSION_KEY] = _server().authenticate_begin(
        _descriptors(person) if person else None, _VERIFIED
    )
    return dict(options)


def find_used(request: HttpRequest, person: AbstractBaseUser | None, answer: dict[str, Any]) -> Authenticator:
    """Return the passkey that signed `answer`. If `person` is None, it may be anybody's. Raises one of `MALFORMED`."""
    owner = person.pk if person else UUID(websafe_decode(answer["response"]["userHandle"]).decode())
    known = passkeys_of(owner).select_related("user").filter(data__credential__rawId=answer["rawId"]).first()
    if known is None:
        raise LookupError
    stored = RegistrationResponse.from_dict(known.data["credential"]).response.attestation_object.auth_data
    credential = cast(AttestedCredentialData, stored.credential_data)
    _server().authenticate_complete(request.session[_SESSION_KEY], [credential], answer)
    del request.session[_SESSION_KEY]
    return known


def _descriptors(person: AbstractBaseUser) -> list[PublicKeyCredentialDescriptor]:
    ids = passkeys_of(person.pk).values_list("data__credential__rawId", flat=True)
    return [PublicKeyCredentialDescriptor(type=_TYPE, id=websafe_decode(each)) for each in ids]


def _server() -> Fido2Server:
    return Fido2Server(PublicKeyCredentialRpEntity(**get_adapter().get_public_key_credential_rp_entity()))


class FactorAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy(AccountFault.APP_CODE_WRONG.problem),
        "cannot_generate_recovery_codes": gettext_lazy("Set up an authenticator app or add a passkey first."),
        "unverified_email": gettext_lazy("Confirm your e-mail address first."),
    }

    def is_mfa_enabled(self, user: AbstractBaseUser | AnonymousUser | None, types: Any = None) -> bool:
        # With apps and passkeys in `types`, allauth asks whether a second factor must follow: unusable passkeys count.
        if types and {Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN} <= set(types):
            is_asked = is_asked_after_password(user)
            return is_asked and not is_enough_by_link(self.request, cast(User, user))
        return user is not None and bool(types_of(user) & set(types or Authenticator.Type.values))

    def encrypt(self, text: str) -> str:
        return base64.b64encode(sealing.seal(PURPOSE, text.encode())).decode()

    def decrypt(self, encrypted_text: str) -> str:
        content = sealing.unseal(PURPOSE, base64.b64decode(encrypted_text))
        if content is None:
            logger.error("a second factor can't be read: it was stored under another SECRET_KEY")
            return base64.b32encode(os.urandom(20)).decode()  # a random secret, which fits no code
        return content.decode()

    def build_totp_svg(self, url: str) -> SafeString:
        """Return the QR code of `url` as an SVG element, which is a fifth as long as allauth's element."""
        code = QRCode(border=4)
        code.add_data(url)
        rows = ["".join("#" if is_dark else " " for is_dark in row) for row in code.get_matrix()]
        dark = "".join(
            f"M{run.start()},{y}h{len(run[0])}" for y, row in enumerate(rows) for run in re.finditer("#+", row)
        )
        return format_html('<svg viewBox="0 -.5 {0} {0}"><path stroke="#000" d="{1}"/></svg>', len(rows), dark)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Return False for a passkey whose owner has no password and no other usable passkey."""
        if authenticator.type != Authenticator.Type.WEBAUTHN or authenticator.user.has_usable_password():
            return True
        others = passkeys_of(authenticator.user_id).exclude(pk=authenticator.pk)
        return not all(map(other_host, others))

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = passkeys_of(user.pk).count() + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": passkey_host(), "name": settings.SERVICE_NAME}
