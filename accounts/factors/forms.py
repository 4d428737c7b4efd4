"""allauth's forms for second factors and passkeys, with our fields."""

from __future__ import annotations

import base64
import json
import re
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

from accounts import throttling
from accounts.errors import AccountFault, refused
from accounts.factors import authenticators
from accounts.form_fields import CodeField
from accounts.mail import composing
from accounts.models import User
from config.infrastructure import events
from config.infrastructure.texts import refuse_control_characters

NAME_MAX_LENGTH = 60


class UnusedCodeMixin(forms.Form):
    """Accepts each code of an authenticator app only once. allauth already does this for recovery codes."""

    user: User
    code = CodeField(inputmode="numeric")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.types = authenticators.types_of(self.user)
        has_app, has_codes = Authenticator.Type.TOTP in self.types, Authenticator.Type.RECOVERY_CODES in self.types
        self.fields["code"].label = {
            (True, True): _("Code from your authenticator app, or a recovery code"),
            (True, False): _("Code from your authenticator app"),
        }.get((has_app, has_codes), _("Recovery code"))

    def clean_code(self) -> Any:
        return throttling.check_second_factor(get_adapter().request, self.user, self._unused_code)

    def _unused_code(self) -> Any:
        code = self.cleaned_data["code"]
        try:
            super().clean_code()  # type: ignore[misc]
            is_accepted = not authenticators.is_of_an_app(code) or authenticators.mark_used(self.user, code)
        except ValidationError:
            is_accepted = False
        if not is_accepted:
            cause = "factor_used" if authenticators.was_used(self.user, code) else "factor_wrong"
            is_code_of_app = Authenticator.Type.TOTP in self.types and authenticators.is_of_an_app(code)
            fault = AccountFault.APP_CODE_WRONG if is_code_of_app else AccountFault.FACTOR_WRONG
            raise refused(fault, "incorrect_code", person=self.user.pk, cause=cause)
        if not authenticators.is_of_an_app(code):
            left = authenticators.overview(self.user)["codes_left"]
            events.write(events.Event.RECOVERY_CODE_USED, person=self.user.pk, left=left)
            composing.tell(get_adapter().request, self.user, "recovery_code_used", left=left)
        return code


class AuthenticateForm(UnusedCodeMixin, base.AuthenticateForm):
    pass


class ReauthenticateForm(UnusedCodeMixin, base.ReauthenticateForm):
    pass


class ActivateTOTPForm(totp.ActivateTOTPForm):
    code = CodeField(_("Code that the app shows"), inputmode="numeric")


_BASE64URL = re.compile(r"[A-Za-z0-9_-]+={0,2}", re.ASCII)


class PasskeyField(forms.JSONField):
    """The browser's answer to a passkey request, as a dictionary. The origin in the answer must be AUTH_URL."""

    # Only these members are kept. allauth would store the whole answer.
    MEMBERS = ("clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle")

    def __init__(self) -> None:
        super().__init__(widget=forms.HiddenInput)

    def to_python(self, value: Any) -> Any:
        try:
            answer = super().to_python(value)
            response = {name: text for name in self.MEMBERS if (text := answer["response"].get(name)) is not None}
            texts = (answer["id"], answer["rawId"], *response.values())
            # For a number instead of a text, the WebAuthn library would allocate as many bytes.
            if not all(isinstance(text, str) and _BASE64URL.fullmatch(text) for text in texts):
                raise ValueError
            client_data = response["clientDataJSON"]
            origin = json.loads(base64.urlsafe_b64decode(client_data + "=" * (-len(client_data) % 4)))["origin"]
        except (AttributeError, KeyError, RecursionError, TypeError, ValidationError, ValueError):
            raise refused(AccountFault.PASSKEY_UNREADABLE, "invalid") from None
        if origin != settings.AUTH_URL:  # allauth would accept every port and every subdomain of the host
            raise refused(AccountFault.PASSKEY_UNREADABLE, "invalid", cause="passkey_of_another_origin")
        return {"id": answer["id"], "rawId": answer["rawId"], "type": "public-key", "response": response}


class KnownPasskeyMixin(forms.Form):
    credential = PasskeyField()

    def clean_credential(self) -> Any:
        person = getattr(self, "user", None)  # before a sign-in by passkey, the person is unknown
        try:
            return authenticators.find_used(get_adapter().request, person, self.cleaned_data["credential"])
        except authenticators.MALFORMED:
            raise refused(AccountFault.PASSKEY_UNKNOWN, "unknown", person=person and person.pk) from None


class AddPasskeyForm(webauthn.AddWebAuthnForm):
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
        if credential := self.cleaned_data.get("credential"):
            try:
                authenticators.check_new(get_adapter().request, credential)
            except authenticators.MALFORMED:
                raise refused(AccountFault.PASSKEY_REFUSED, "refused", person=self.user.pk) from None
            credential[authenticators.HOST] = authenticators.passkey_host()
        return self.cleaned_data


class RenamePasskeyForm(webauthn.EditWebAuthnForm):
    name = forms.CharField(label=_("Name"), max_length=NAME_MAX_LENGTH, validators=[refuse_control_characters])


class PasskeySignInForm(KnownPasskeyMixin, webauthn.LoginWebAuthnForm):
    pass


class LimitedPasskeyMixin(KnownPasskeyMixin):
    user: User

    def clean_credential(self) -> Any:
        return throttling.check_second_factor(get_adapter().request, self.user, super().clean_credential)


class PasskeyAuthenticateForm(LimitedPasskeyMixin, webauthn.AuthenticateWebAuthnForm):
    pass


class PasskeyReauthenticateForm(LimitedPasskeyMixin, webauthn.ReauthenticateWebAuthnForm):
    pass
