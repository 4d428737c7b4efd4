"""allauth's forms with our fields (labels, attributes, upper bounds, no control characters), and the profile's."""

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
    """An e-mail address, in the spelling in which it is stored (`normalise_email`)."""

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
    """A password as typed. Without `maxlength`, with which browsers shorten a pasted password silently."""

    def __init__(self, label: Any, autocomplete: str, help_text: Any = "") -> None:
        super().__init__(
            label=label,
            strip=False,
            help_text=help_text,
            widget=forms.PasswordInput(attrs={"autocomplete": autocomplete}),
            validators=[MaxLengthValidator(PASSWORD_MAX_LENGTH), refuse_control_characters],
        )


class NicknameField(forms.CharField):
    def __init__(self, help_text: Any = "", attrs: dict[str, str] | None = None) -> None:
        super().__init__(
            label=_("Nickname"),
            required=False,
            max_length=NICKNAME_MAX_LENGTH,
            help_text=help_text,
            validators=[refuse_control_characters],
            widget=forms.TextInput(attrs),
        )


class PasswordFormMixin(forms.Form):
    """A form whose password must be typed again when this process hashes another one (accounts.hashing)."""

    is_busy = False

    def add_busy_error(self, password: str) -> None:
        """Keep the other fields as typed and set the focus to the field `password`."""
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
        """Find the active account in one statement. Without one, an account that is not stored takes its place."""
        email: str = self.cleaned_data["email"]
        self.users = list(User.objects.filter(email=email, is_active=True)) or [User(email=email, is_active=False)]
        return email

    def save(self, request: HttpRequest, **kwargs: Any) -> str:
        """Send a link, or an e-mail that says there is no account. Both take the same steps and show the same page.

        Beyond the limit nothing is sent, and the page does not say so. The links of the earlier e-mails still work, so
        repeated requests neither flood the owner's mailbox nor lock the owner out.
        """
        email: str = self.cleaned_data["email"]
        if not throttling.may_send_reset_email(request, email):
            return email
        return str(super().save(request, **kwargs))


class NewPasswordForm(PasswordFormMixin, ResetPasswordKeyForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rules = password_validation.password_validators_help_text_html()
        # Names the account to a password manager. The posted value is not read.
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
        """Also mark the address as verified: the link was sent to it."""
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
    """The nickname and the picture."""

    nickname = NicknameField(
        _("The name that applications show. Without one they show a name that says nothing about you."),
        {"autocomplete": "nickname"},
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
        """Raises NotStored: the picture could not be stored. The nickname is saved."""
        person: User = super().save(commit=False)
        if "nickname" in self.data:  # a form that was posted without the field keeps it
            person.save(update_fields=["nickname"])
        if self.cleaned_data["picture"]:
            avatars.set_picture(person, self.cleaned_data["picture"])
        return person
