"""allauth's adapter for second factors and passkeys."""

from __future__ import annotations

import base64
import logging
import os
import re
from typing import Any, cast

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from qrcode import QRCode

from accounts.errors import AccountFault
from accounts.factors import authenticators
from accounts.factors.authenticators import (
    is_asked_after_password,
    is_enough_by_link,
    number_of_passkeys,
    other_host,
    types_of,
)
from accounts.models import User
from config.infrastructure import sealing

logger = logging.getLogger(__name__)

PURPOSE = "accounts.factors"


class FactorAdapter(DefaultMFAAdapter):
    error_messages = DefaultMFAAdapter.error_messages | {
        "incorrect_code": gettext_lazy(AccountFault.APP_CODE_WRONG.problem),
        "cannot_generate_recovery_codes": gettext_lazy("Set up an authenticator app or add a passkey first."),
        "unverified_email": gettext_lazy("Confirm your e-mail address first."),
    }

    def is_mfa_enabled(self, user: AbstractBaseUser | AnonymousUser | None, types: Any = None) -> bool:
        """Return whether the person has a factor of one of `types`, or of any type if `types` is None.

        With apps and passkeys in `types`, allauth asks whether a second factor must follow: unusable passkeys count.
        """
        if types and {Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN} <= set(types):
            return is_asked_after_password(user) and not is_enough_by_link(self.request, cast(User, user))
        return user is not None and bool(types_of(user) & set(types or Authenticator.Type.values))

    def encrypt(self, text: str) -> str:
        return base64.b64encode(sealing.seal(PURPOSE, text.encode())).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """Return the secret. If no SECRET_KEY or fallback decrypts it, return a random secret, which fits no code."""
        content = sealing.unseal(PURPOSE, base64.b64decode(encrypted_text))
        if content is None:
            logger.error("a second factor can't be read: it was stored under another SECRET_KEY")
            return base64.b32encode(os.urandom(20)).decode()
        return content.decode()

    def build_totp_svg(self, url: str) -> SafeString:
        """Return the QR code as an SVG element. allauth's is five times as long, too long for a page of 50 kB."""
        code = QRCode(border=4)
        code.add_data(url)
        rows = ["".join("#" if is_dark else " " for is_dark in row) for row in code.get_matrix()]
        dark = "".join(
            f"M{run.start()},{y}h{len(run[0])}" for y, row in enumerate(rows) for run in re.finditer("#+", row)
        )
        return format_html('<svg viewBox="0 -.5 {0} {0}"><path stroke="#000" d="{1}"/></svg>', len(rows), dark)

    def can_delete_authenticator(self, authenticator: Authenticator) -> bool:
        """Return False for the last passkey that a person without a password can use."""
        if authenticator.type != Authenticator.Type.WEBAUTHN or authenticator.user.has_usable_password():
            return True
        passkeys = Authenticator.objects.filter(user_id=authenticator.user_id, type=Authenticator.Type.WEBAUTHN)
        return not all(map(other_host, passkeys.exclude(pk=authenticator.pk)))

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = number_of_passkeys(user) + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """Return the service's name, and the host of AUTH_URL as id: passkeys for another host do not work here."""
        return {"id": authenticators.passkey_host(), "name": settings.SERVICE_NAME}
