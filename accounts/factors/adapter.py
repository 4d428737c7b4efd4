"""allauth's adapter for second factors and passkeys: what is encrypted, what devices are told, what a person has."""

from __future__ import annotations

import base64
import logging
import os
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from allauth.account.authentication import get_authentication_records
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.utils import is_mfa_enabled
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from qrcode import QRCode

from accounts import passkeys
from accounts.credentials import end_credentials
from accounts.models import User
from config.infrastructure import sealing

logger = logging.getLogger(__name__)

_PURPOSE = "accounts.factors"


def overview(person: AbstractBaseUser) -> dict[str, Any]:
    """The person's passkeys and second factor, for the page "Security"."""
    rows = list(Authenticator.objects.filter(user_id=person.pk).order_by("created_at"))
    codes = next((row for row in rows if row.type == Authenticator.Type.RECOVERY_CODES), None)
    return {
        "passkeys": [
            {"pk": row.pk, "name": row.wrap().name, "created_at": row.created_at, "used_at": row.last_used_at}
            for row in rows
            if row.type == Authenticator.Type.WEBAUTHN
        ],
        "passkeys_are_possible": passkeys.are_possible(),
        "totp": next((row for row in rows if row.type == Authenticator.Type.TOTP), None),
        "codes_left": len(codes.wrap().get_unused_codes()) if codes else None,
    }


def described(person: User) -> list[dict[str, Any]]:
    """The person's factors for the file with their data: never a secret."""
    rows = Authenticator.objects.filter(user=person).order_by("created_at")
    return [
        {"type": row.type, "name": str(row), "created_at": row.created_at, "last_used_at": row.last_used_at}
        for row in rows
    ]


def has_confirmed(request: HttpRequest) -> bool:
    """Whether the person has a second factor or passkey, and used one in this browser session."""
    records = get_authentication_records(request, request.user)
    return any(record.get("method") == "mfa" for record in records) and has_any(request.user)


def has_any(person: AbstractBaseUser | AnonymousUser) -> bool:
    return is_mfa_enabled(person, [Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN])  # type: ignore[no-any-return]


def has_passkey(person: AbstractBaseUser) -> bool:
    return is_mfa_enabled(person, [Authenticator.Type.WEBAUTHN])  # type: ignore[no-any-return]


@transaction.atomic
def remove_all(person: User) -> None:
    """Remove the person's passkeys, authenticator app and recovery codes, and end the credentials."""
    end_credentials(person)
    Authenticator.objects.filter(user=person).delete()


def _dark_runs(row: list[bool | None]) -> Iterator[tuple[int, int]]:
    """Where each run of dark modules of a QR code begins, and its length."""
    x = 0
    for is_dark, modules in groupby(row):
        length = len(list(modules))
        if is_dark:
            yield x, length
        x += length


class FactorAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy("This code is not right, or was used before. Wait for the next one."),
        "cannot_generate_recovery_codes": gettext_lazy("Set up an authenticator app or add a passkey first."),
        "unverified_email": gettext_lazy("Confirm your e-mail address first."),
    }

    def is_mfa_enabled(self, user: AbstractBaseUser | AnonymousUser | None, types: Any = None) -> bool:
        """False for the person of a sign-in whose account was deleted meanwhile (None) as well."""
        return user is not None and bool(super().is_mfa_enabled(user, types))

    # The database holds no readable secret (D15) ---------------------------------------------------------------------

    def encrypt(self, text: str) -> str:
        return base64.b64encode(sealing.seal(_PURPOSE, text.encode())).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """The secret; a random one, which no code fits, when SECRET_KEY is no longer the one it was encrypted with."""
        content = sealing.unseal(_PURPOSE, base64.b64decode(encrypted_text))
        if content is None:
            logger.error("a second factor can't be read: it was stored under another SECRET_KEY")
            return base64.b32encode(os.urandom(20)).decode()
        return content.decode()

    # Authenticator apps ----------------------------------------------------------------------------------------------

    def build_totp_svg(self, url: str) -> SafeString:
        """An SVG element to put into the page, whose policy allows no image in a `data:` URL."""
        code = QRCode(border=4)
        code.add_data(url)
        rows = code.get_matrix()
        return format_html(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><path d="{}"/></svg>',
            len(rows),
            len(rows),
            _("QR code for the authenticator app"),
            "".join(f"M{x},{y}h{length}v1h-{length}z" for y, row in enumerate(rows) for x, length in _dark_runs(row)),
        )

    # Passkeys --------------------------------------------------------------------------------------------------------

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """False for the last passkey of a person without a password."""
        if authenticator.type != Authenticator.Type.WEBAUTHN or authenticator.user.has_usable_password():
            return True
        others = Authenticator.objects.filter(user_id=authenticator.user_id, type=Authenticator.Type.WEBAUTHN)
        return bool(others.exclude(pk=authenticator.pk).exists())

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user_id=user.pk, type=type).count() + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """The host of AUTH_URL, whatever the Host header says (D1). Passkeys of another host don't work here."""
        return {"id": passkeys.host(), "name": settings.SERVICE_NAME}
