"""allauth's forms of second factors and passkeys, with our fields, and passkeys of this origin only."""

from __future__ import annotations

import base64
import json
import re
import struct
from typing import Any

from allauth.mfa.adapter import get_adapter
from allauth.mfa.base import forms as base
from allauth.mfa.models import Authenticator
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as webauthn
from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from accounts.factors.used_codes import mark_used, was_used
from accounts.models import User
from config.infrastructure.validators import refuse_control_characters

NAME_MAX_LENGTH = 60


class CodeField(forms.CharField):
    """Six digits of an authenticator app; where recovery codes are accepted too, any text."""

    def __init__(self, label: Any, *, is_numeric: bool) -> None:
        attrs = {"autocomplete": "one-time-code", "spellcheck": "false"}
        super().__init__(
            label=label,
            max_length=32,
            validators=[refuse_control_characters],
            widget=forms.TextInput(attrs | ({"inputmode": "numeric"} if is_numeric else {})),
        )

    def clean(self, value: Any) -> str:
        """The code without the spaces and hyphens that apps show between groups of digits."""
        return str(super().clean(value)).replace(" ", "").replace("-", "")


class UnusedCodeMixin(forms.Form):
    """Accepts each code once. allauth does so for recovery codes."""

    user: User
    code = CodeField(_("Code from your authenticator app, or a recovery code"), is_numeric=False)

    def clean_code(self) -> Any:
        if was_used(self.user, self.cleaned_data["code"]):
            # A right code resets allauth's count of wrong ones, and a used one must not. An empty code counts as wrong.
            self.cleaned_data["code"] = ""
        code = super().clean_code()  # type: ignore[misc]
        accepted: Authenticator = self.authenticator  # type: ignore[attr-defined]
        if accepted.type == Authenticator.Type.TOTP and not mark_used(accepted, code):
            raise get_adapter().validation_error("incorrect_code")
        return code


class AuthenticateForm(UnusedCodeMixin, base.AuthenticateForm):
    pass


class ReauthenticateForm(UnusedCodeMixin, base.ReauthenticateForm):
    pass


class ActivateTOTPForm(totp.ActivateTOTPForm):
    code = CodeField(_("Code that the app shows"), is_numeric=True)


# Exceptions of the WebAuthn library for an answer that no browser sends, besides ValidationError.
_MALFORMED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, struct.error)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+={0,2}", re.ASCII)


class PasskeyField(forms.JSONField):
    """The browser's answer to a passkey request, as an object. Its origin must be AUTH_URL.

    allauth accepts every port of the host, and every subdomain. It also stores the object, and the WebAuthn library
    allocates as many bytes as a number in it says. So only the needed members are kept, and only base64url text.
    """

    REQUIRED = ("clientDataJSON",)
    OPTIONAL = ("attestationObject", "authenticatorData", "signature", "userHandle")

    def __init__(self) -> None:
        text = _("Your browser sent no passkey. Try again, or use your password.")
        super().__init__(widget=forms.HiddenInput, error_messages={"required": text, "invalid": text})

    def to_python(self, value: Any) -> Any:
        try:
            answer = self._needed(super().to_python(value))
            client_data = answer["response"]["clientDataJSON"]
            origin = json.loads(base64.urlsafe_b64decode(client_data + "=" * (-len(client_data) % 4)))["origin"]
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            raise ValidationError(self.error_messages["invalid"], code="invalid") from None
        if origin != settings.AUTH_URL:
            raise ValidationError(self.error_messages["invalid"], code="invalid")
        return answer

    def _needed(self, answer: Any) -> dict[str, Any]:
        """The needed members of the answer. Raises ValueError: one of them is not base64url text."""
        response = answer["response"]
        found = {name: response[name] for name in self.REQUIRED}
        found |= {name: response[name] for name in self.OPTIONAL if response.get(name) is not None}
        for text in (answer["id"], answer["rawId"], *found.values()):
            if not isinstance(text, str) or not _BASE64URL.fullmatch(text):
                raise ValueError
        return {"id": answer["id"], "rawId": answer["rawId"], "type": "public-key", "response": found}


class KnownPasskeyMixin(forms.Form):
    """Replaces allauth's error message, which speaks of a code, by one about the passkey."""

    credential = PasskeyField()

    def clean_credential(self) -> Any:
        try:
            return super().clean_credential()  # type: ignore[misc]
        except ValidationError as error:
            if error.code == "too_many_login_attempts":
                raise
        except _MALFORMED:
            pass
        raise ValidationError(
            _("This passkey is not known here, or its answer came too late. Try again, or use your password."),
            code="unknown",
        )


class AddPasskeyForm(webauthn.AddWebAuthnForm):
    """Every key is a passkey: the device verifies the person, so no password is needed as well."""

    name = forms.CharField(
        label=_("Name"),
        required=False,
        max_length=NAME_MAX_LENGTH,
        help_text=_("For your own list, such as the device that keeps it."),
        validators=[refuse_control_characters],
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    credential = PasskeyField()
    passwordless = None

    def clean(self) -> Any:
        self.cleaned_data["passwordless"] = True
        try:
            return super().clean()
        except (ValidationError, *_MALFORMED):
            raise ValidationError(_("The device's answer was not accepted. Try again."), code="refused") from None


class RenamePasskeyForm(webauthn.EditWebAuthnForm):
    name = forms.CharField(label=_("Name"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters])


class PasskeySignInForm(KnownPasskeyMixin, webauthn.LoginWebAuthnForm):
    pass


class PasskeyAuthenticateForm(KnownPasskeyMixin, webauthn.AuthenticateWebAuthnForm):
    pass


class PasskeyReauthenticateForm(KnownPasskeyMixin, webauthn.ReauthenticateWebAuthnForm):
    pass
