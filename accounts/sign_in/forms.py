"""allauth's forms with the fields of accounts.form_fields, and the check of a password."""

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
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from accounts.errors import AccountFault, FormError, refuse, refused
from accounts.form_fields import CodeField, EmailField, HiddenEmailInput, NewPasswordField, PasswordField
from accounts.models import User
from accounts.passwords import hashing


def check_password(email: str, password: str) -> tuple[User | None, str]:
    """Return the account with the address (or None), and the cause of a failure ("" if the password is right).

    Raises HashingBusy. An unknown address takes as long as a wrong password, so that the time reveals no account.
    """
    person = User.objects.filter(email=email).first()
    if person is None:
        User().set_password(password)
        return None, "account_unknown"
    if person.check_password(password):
        return person, ""
    if not person.is_active:
        return person, "account_inactive"
    return person, "password_wrong" if person.has_usable_password() else "account_without_password"


class PasswordFormMixin(forms.Form):
    is_busy = False

    def add_busy_error(self, password: str) -> None:
        """Add the error for HashingBusy. `password` is the name of the field that gets the focus."""
        self.is_busy = True
        self.fields[password].widget.attrs["autofocus"] = True
        self.add_error(None, refused(AccountFault.PASSWORD_BUSY, "busy", seconds=hashing.RETRY_AFTER_SECONDS))


class PresentPasswordMixin(PasswordFormMixin):
    """Checks the present password only if the form has no other error: a wrong password counts as a failed sign-in."""

    user: Any
    present_password: str  # the name of the field

    def clean(self) -> Any:
        cleaned = super().clean()
        if not self.errors:
            try:
                adapter, password = get_adapter(), self.cleaned_data[self.present_password]
                if not adapter.authenticate(adapter.request, email=self.user.email, password=password):
                    fault = AccountFault.PRESENT_PASSWORD_WRONG
                    self.add_error(self.present_password, FormError(fault, "wrong_password"))
            except hashing.HashingBusy:
                self.add_busy_error(self.present_password)
        return cleaned


class SignInForm(PasswordFormMixin, LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # With "webauthn", browsers list passkeys together with saved passwords.
        self.fields = {
            "login": EmailField("username webauthn"),
            "password": PasswordField(_("Password"), "current-password webauthn"),
        }

    def offer(self, email: str) -> None:
        self.initial["login"] = email
        self.fields["login"].widget = HiddenEmailInput({"autocomplete": "username", "hidden": True})

    def clean(self) -> Any:
        try:
            return super().clean()
        except ValidationError as error:
            if error.code == "too_many_login_attempts":
                refuse(AccountFault.SIGN_IN_TOO_SOON)
            raise
        except hashing.HashingBusy:
            self.add_busy_error("password")
            return self.cleaned_data


class NewPasswordFormMixin(PasswordFormMixin):
    user: Any

    password1 = NewPasswordField()
    password2 = PasswordField(_("New password again"), "new-password")

    def clean_password1(self) -> str:
        return str(get_adapter().clean_password(self.cleaned_data["password1"], user=self.user))


class PasswordChangeForm(PresentPasswordMixin, NewPasswordFormMixin, ChangePasswordForm):
    present_password = "oldpassword"
    oldpassword = PasswordField(_("Present password"), "current-password")
    field_order = ("oldpassword", "password1", "password2")

    def clean_oldpassword(self) -> str:
        return str(self.cleaned_data["oldpassword"])


class ConfirmForm(PresentPasswordMixin, ReauthenticateForm):
    present_password = "password"
    password = PasswordField(_("Password"), "current-password")

    def clean_password(self) -> str:
        return str(self.cleaned_data["password"])


class NewAddressForm(AddEmailForm):
    """Accepts a taken address, so that the answer reveals no account. The code page refuses the address."""

    email = EmailField("email", _("New e-mail address"))

    def clean_email(self) -> str:
        email: str = self.cleaned_data["email"]
        if email == self.user.email:
            raise refused(AccountFault.SAME_ADDRESS, "same_address", person=self.user.pk)
        return email


class CodeForm(ConfirmEmailVerificationCodeForm):
    code = CodeField(_("Code from the mail"), autocapitalize="characters")

    def clean_code(self) -> str:
        try:
            return str(super().clean_code())
        except ValidationError as error:
            is_taken = error.code == "email_taken"
            fault = AccountFault.ADDRESS_TAKEN if is_taken else AccountFault.MAIL_CODE_WRONG
            refuse(fault, person=self.user and self.user.pk)
            raise
