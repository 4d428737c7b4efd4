"""The library's forms with our fields: labels and attributes, upper bounds, and nothing a database can't hold."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import get_adapter
from allauth.account.forms import (
    ConfirmEmailVerificationCodeForm,
    LoginForm,
    ResetPasswordForm,
    ResetPasswordKeyForm,
)
from django import forms
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from accounts import avatars, hashing, throttling, verification
from accounts.models import EMAIL_MAX_LENGTH, NICKNAME_MAX_LENGTH, User, normalise_email
from accounts.passwords import PASSWORD_MAX_LENGTH
from config.infrastructure.text import refuse_control_characters


class EmailField(forms.EmailField):
    """An address in the one spelling under which addresses are kept."""

    def __init__(self) -> None:
        super().__init__(
            label=_("E-mail address"),
            max_length=EMAIL_MAX_LENGTH,
            widget=forms.EmailInput(
                attrs={"autocomplete": "username", "autocapitalize": "none", "spellcheck": "false"}
            ),
            error_messages={"invalid": _("Type an e-mail address, like name@example.com.")},
        )

    def clean(self, value: Any) -> str:
        return normalise_email(super().clean(value))


class PasswordField(forms.CharField):
    """A password as typed. Bounded without `maxlength`, with which browsers cut a pasted password short unseen."""

    def __init__(self, label: Any, autocomplete: str, help_text: Any = "") -> None:
        super().__init__(
            label=label,
            strip=False,
            help_text=help_text,
            widget=forms.PasswordInput(attrs={"autocomplete": autocomplete}),
            validators=[MaxLengthValidator(PASSWORD_MAX_LENGTH), refuse_control_characters],
        )


class PasswordFormMixin(forms.Form):
    """A form whose password may have to be typed again, because others are hashed just then (accounts.hashing)."""

    is_busy = False

    def add_busy_error(self, password: str) -> None:
        """All else that was typed stays, and the field `password` has the focus."""
        self.is_busy = True
        self.fields[password].widget.attrs["autofocus"] = True
        text = _("Too many people are signing in at this moment. Wait a few seconds, then type your password again.")
        self.add_error(None, ValidationError(text, code="busy", params={"seconds": hashing.RETRY_AFTER_SECONDS}))


class SignInForm(PasswordFormMixin, LoginForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {"login": EmailField(), "password": PasswordField(_("Password"), "current-password")}

    def clean(self) -> Any:
        try:
            hashing.hashes.raise_if_busy()
            return super().clean()
        except hashing.HashingBusy:
            self.add_busy_error("password")
            return self.cleaned_data


class ResetRequestForm(ResetPasswordForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {"email": EmailField()}

    def clean_email(self) -> str:
        """Finds the active account with one statement; without one, goes on with one that is not active nor stored."""
        email: str = self.cleaned_data["email"]
        self.users = list(User.objects.filter(email=email, is_active=True)) or [User(email=email, is_active=False)]
        return email

    def save(self, request: HttpRequest, **kwargs: Any) -> str:
        """Mail a link, or word that there is no account: both take the same steps, so neither can be told apart.

        Beyond the limit nothing is sent, and nobody is told: the links in the earlier mails still work, so a stranger
        who asks again and again neither floods nor locks out the owner.
        """
        email: str = self.cleaned_data["email"]
        if not throttling.may_mail_reset(request, email):
            return email
        return str(super().save(request, **kwargs))


class NewPasswordForm(PasswordFormMixin, ResetPasswordKeyForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rules = password_validation.password_validators_help_text_html()
        # Tells a password manager whose password it is; what comes back is not read.
        account = forms.CharField(
            required=False,
            initial=self.user.email if self.user else "",
            widget=forms.HiddenInput(attrs={"autocomplete": "username"}),
        )
        self.fields = {
            "account": account,
            "password1": PasswordField(_("New password"), "new-password", rules),
            "password2": PasswordField(_("New password again"), "new-password"),
        }

    def clean_password1(self) -> str:
        return str(get_adapter().clean_password(self.cleaned_data["password1"], user=self.user))

    def save(self) -> None:
        """The link came by mail, so whoever holds it reads that mailbox: the address counts as verified."""
        super().save()
        verification.mark_verified(self.user)


class CodeForm(ConfirmEmailVerificationCodeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["code"] = forms.CharField(
            label=_("Code from the mail"),
            max_length=32,
            widget=forms.TextInput(
                attrs={"autocomplete": "one-time-code", "autocapitalize": "characters", "spellcheck": "false"}
            ),
        )


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    """What the person may say about themselves: a nickname and a picture."""

    nickname = forms.CharField(
        label=_("Nickname"),
        required=False,
        max_length=NICKNAME_MAX_LENGTH,
        help_text=_("The name that applications show. Without one they show a name that says nothing about you."),
        validators=[refuse_control_characters],
        widget=forms.TextInput(attrs={"autocomplete": "nickname"}),
    )
    picture = forms.FileField(
        label=_("Picture"),
        required=False,
        help_text=_("JPEG, PNG, GIF or WebP, at most 5 MB. The middle of it is shown as a square."),
        widget=forms.FileInput(attrs={"accept": ",".join(avatars.ACCEPTED_TYPES)}),
    )

    class Meta:
        model = User
        fields = ("nickname",)

    def clean_picture(self) -> bytes | None:
        upload = self.cleaned_data["picture"]
        return avatars.reencode(upload) if upload else None

    def save(self, commit: bool = True) -> User:
        """Raises NotStored: for the picture; the nickname is saved."""
        person: User = super().save(commit=False)
        if "nickname" in self.data:  # a form without the field says nothing about it
            person.save(update_fields=["nickname"])
        if self.cleaned_data["picture"]:
            avatars.set_picture(person, self.cleaned_data["picture"])
        return person
