"""allauth's forms with the fields of accounts.form_fields."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import (
    AddEmailForm,
    ChangePasswordForm,
    ConfirmEmailVerificationCodeForm,
    LoginForm,
    ReauthenticateForm,
)
from django import forms
from django.utils.translation import gettext_lazy as _

from accounts.errors import AccountFault, FormError, recorded, refused
from accounts.form_fields import CodeField, EmailField, HiddenEmailInput, NewPasswordField, PasswordField
from accounts.models import User
from accounts.passwords import hashing


class PasswordFormMixin(forms.Form):
    """Asks for the password again if the process is too busy to hash the password (accounts.passwords.hashing)."""

    is_busy = False

    def add_busy_error(self, password: str) -> None:
        """Add the error, keep the other fields as typed, and set the focus to the field `password`."""
        self.is_busy = True
        self.fields[password].widget.attrs["autofocus"] = True
        self.add_error(None, refused(AccountFault.PASSWORD_BUSY, "busy", seconds=hashing.RETRY_AFTER_SECONDS))

    def check_present_password(self, user: User, field: str) -> None:
        """Check the person's password. If the password is wrong, add an error and count a failed sign-in (D21).

        Raises ValidationError: the limit of failed sign-ins is reached.
        """
        try:
            if not get_adapter().reauthenticate(user, self.cleaned_data[field]):
                self.add_error(field, FormError(AccountFault.PRESENT_PASSWORD_WRONG, "wrong_password"))
        except hashing.HashingBusy:
            self.add_busy_error(field)


class SignInForm(PasswordFormMixin, LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # With "webauthn", browsers list passkeys together with saved passwords.
        login = EmailField("username webauthn")
        password = PasswordField(_("Password"), "current-password webauthn")
        self.fields = {"login": login, "password": password}

    def offer(self, email: str) -> None:
        """Ask only for the password, because the page shows the account."""
        self.initial["login"] = email
        self.fields["login"].widget = HiddenEmailInput({"autocomplete": "username", "hidden": True})

    def clean(self) -> Any:
        try:
            with recorded({"too_many_login_attempts": AccountFault.SIGN_IN_TOO_SOON}):
                return super().clean()
        except hashing.HashingBusy:
            self.add_busy_error("password")
            return self.cleaned_data


class NewPasswordFormMixin(PasswordFormMixin):
    """A form that asks twice for a new password of `user`."""

    user: Any

    @staticmethod
    def new_password_fields() -> dict[str, forms.Field]:
        return {
            "password1": NewPasswordField(),
            "password2": PasswordField(_("New password again"), "new-password"),
        }

    def clean_password1(self) -> str:
        return str(get_adapter().clean_password(self.cleaned_data["password1"], user=self.user))


class PasswordChangeForm(NewPasswordFormMixin, ChangePasswordForm):
    """Checks the current password last: the check computes a hash, and a wrong password counts as a failure."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {
            "oldpassword": PasswordField(_("Present password"), "current-password"),
            **self.new_password_fields(),
        }

    def clean_oldpassword(self) -> str:
        return str(self.cleaned_data["oldpassword"])

    def clean(self) -> Any:
        cleaned = super().clean()
        if not self.errors:
            self.check_present_password(self.user, "oldpassword")
        return cleaned


class ConfirmForm(PasswordFormMixin, ReauthenticateForm):
    """Asks a signed-in person for the password again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {"password": PasswordField(_("Password"), "current-password")}

    def clean_password(self) -> str:
        return str(self.cleaned_data["password"])

    def clean(self) -> Any:
        cleaned = super().clean()
        if not self.errors:
            self.check_present_password(self.user, "password")
        return cleaned


class NewAddressForm(AddEmailForm):
    """The form does not look up the new address, so it reveals no account. The code page refuses a taken address."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = EmailField("email")
        field.label = _("New e-mail address")
        self.fields = {"email": field}

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email == self.user.email:
            raise refused(AccountFault.SAME_ADDRESS, "same_address", person=self.user.pk)
        return email


class CodeForm(ConfirmEmailVerificationCodeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"] = CodeField(_("Code from the mail"), autocapitalize="characters")

    def clean_code(self) -> str:
        faults = {"incorrect_code": AccountFault.MAIL_CODE_WRONG, "email_taken": AccountFault.ADDRESS_TAKEN}
        with recorded(faults, self.user and self.user.pk):
            return str(super().clean_code())
