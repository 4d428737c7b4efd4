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
        # With apps and passkeys in `types`, allauth asks whether a second factor must follow: unusable passkeys count.
        if types and {Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN} <= set(types):
            is_asked = authenticators.is_asked_after_password(user)
            return is_asked and not authenticators.is_enough_by_link(self.request, cast(User, user))
        return user is not None and bool(authenticators.types_of(user) & set(types or Authenticator.Type.values))

    def encrypt(self, text: str) -> str:
        return base64.b64encode(sealing.seal(PURPOSE, text.encode())).decode()

    def decrypt(self, encrypted_text: str) -> str:
        content = sealing.unseal(PURPOSE, base64.b64decode(encrypted_text))
        if content is None:
            logger.error("a second factor can't be read: it was stored under another SECRET_KEY")
            return base64.b32encode(os.urandom(20)).decode()  # a random secret, which fits no code
        return content.decode()

    def build_totp_svg(self, url: str) -> SafeString:
        """Return the QR code as an SVG element, a fifth as long as allauth's. A page may have 50 kB."""
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
        others = authenticators.passkeys_of(authenticator.user_id).exclude(pk=authenticator.pk)
        return not all(map(authenticators.other_host, others))

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = authenticators.passkeys_of(user.pk).count() + 1
        return _("Passkey") if number == 1 else _("Passkey %(number)d") % {"number": number}

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        return {"id": authenticators.passkey_host(), "name": settings.SERVICE_NAME}
