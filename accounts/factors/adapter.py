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
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from qrcode import QRCode

from accounts import audit_trail
from accounts.factors import passkeys
from accounts.faults import AccountFault
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from config.infrastructure import events, sealing
from config.infrastructure.events import Event

logger = logging.getLogger(__name__)

PURPOSE = "accounts.factors"
# Each passkey of a person costs half a millisecond on a page that lists them to the browser.
MOST_PASSKEYS = 20
# A member of a passkey's `data`: it is true when the person does not want to be asked for it after the password.
_ONLY_SIGNS_IN = "only_signs_in"


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
        "is_asked": any(_is_second_factor(row) for row in rows),
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
    return bool(types_of(person) - {Authenticator.Type.RECOVERY_CODES})


def confirm_path(person: AbstractBaseUser | AnonymousUser) -> str:
    """The page that asks for the second factor of a signed-in person: the app if there is one, or else a passkey."""
    has_app = Authenticator.Type.TOTP in types_of(person)
    return reverse("mfa_reauthenticate" if has_app else "mfa_reauthenticate_webauthn")


def types_of(person: AbstractBaseUser | AnonymousUser) -> set[str]:
    """Which of an authenticator app, passkeys and recovery codes the person has."""
    return set(Authenticator.objects.filter(user_id=person.pk).values_list("type", flat=True))


def is_asked_after_password(person: AbstractBaseUser | AnonymousUser | None) -> bool:
    """Whether the person is asked for a second factor after the password.

    False for None: the account was deleted meanwhile.
    """
    return person is not None and any(map(_is_second_factor, Authenticator.objects.filter(user_id=person.pk)))


def _is_second_factor(row: Authenticator) -> bool:
    if row.type == Authenticator.Type.WEBAUTHN:
        return not row.data.get(_ONLY_SIGNS_IN)
    return bool(row.type == Authenticator.Type.TOTP)


def keep_for_sign_in(person: AbstractBaseUser) -> None:
    """Do not ask for the person's newest passkey after the password. The passkey still signs in without a password."""
    row = Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.WEBAUTHN).latest("pk")
    row.data[_ONLY_SIGNS_IN] = True
    row.save(update_fields=["data"])
    drop_idle_codes(person)


def drop_idle_codes(person: AbstractBaseUser | AnonymousUser) -> None:
    """Delete the recovery codes of a person who is asked for no second factor."""
    if not is_asked_after_password(person):
        Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.RECOVERY_CODES).delete()


def number_of_passkeys(person: AbstractBaseUser | AnonymousUser) -> int:
    return int(Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.WEBAUTHN).count())


@transaction.atomic
def remove_all(person: User) -> None:
    """Remove the person's passkeys, authenticator app and recovery codes, and end the credentials."""
    end_credentials(person)
    Authenticator.objects.filter(user=person).delete()
    events.write(Event.FACTORS_CHANGED, person=person.pk, change="all_removed")
    audit_trail.write("factors_removed", audit_trail.of_person(person))


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
        "incorrect_code": gettext_lazy(AccountFault.NEW_APP_CODE_WRONG.problem),
        "cannot_generate_recovery_codes": gettext_lazy("Set up an authenticator app or add a passkey first."),
        "unverified_email": gettext_lazy("Confirm your e-mail address first."),
    }

    def is_mfa_enabled(self, user: AbstractBaseUser | AnonymousUser | None, types: Any = None) -> bool:
        """Also False for None: the account was deleted during the sign-in.

        allauth asks for both types where it wants to know whether the password is enough.
        """
        if types and {Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN} <= set(types):
            return is_asked_after_password(user)
        return user is not None and bool(super().is_mfa_enabled(user, types))

    # The database holds no readable secret (D15) ---------------------------------------------------------------------

    def encrypt(self, text: str) -> str:
        return base64.b64encode(sealing.seal(PURPOSE, text.encode())).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """The secret; a random one, to which no code belongs, if SECRET_KEY has changed since it was encrypted."""
        content = sealing.unseal(PURPOSE, base64.b64decode(encrypted_text))
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
            '<svg viewBox="0 -.5 {} {}" role="img" aria-label="{}"><path stroke="#000" d="{}"/></svg>',
            len(rows),
            len(rows),
            _("QR code for the authenticator app"),
            "".join(f"M{x},{y}h{length}" for y, row in enumerate(rows) for x, length in _dark_runs(row)),
        )

    # Passkeys --------------------------------------------------------------------------------------------------------

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """False for the last passkey of a person without a password."""
        if authenticator.type != Authenticator.Type.WEBAUTHN or authenticator.user.has_usable_password():
            return True
        others = Authenticator.objects.filter(user_id=authenticator.user_id, type=Authenticator.Type.WEBAUTHN)
        return bool(others.exclude(pk=authenticator.pk).exists())

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = number_of_passkeys(user) + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """The host of AUTH_URL, whatever the Host header says (D1). Passkeys of another host don't work here."""
        return {"id": passkeys.host(), "name": settings.SERVICE_NAME}
