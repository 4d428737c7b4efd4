"""The form fields for e-mail addresses, codes, passwords and nicknames."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.validators import MaxLengthValidator
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from accounts.email_addresses import EMAIL_MAX_LENGTH, NOT_AN_ADDRESS, normalise_email
from accounts.models import NICKNAME_MAX_LENGTH
from config.infrastructure.texts import refuse_control_characters, typed_code

# Messages of Django and allauth. With our own translations, all pages use the same words and form of address. Django's
# Portuguese translation begins months with a capital letter.
# fmt: off
MESSAGES = [
    _("This field is required."), _("You must type the same password each time."), _("This password is too common."),
    _("Your password can’t be a commonly used password."), _("The submitted file is empty."),
    _("Null characters are not allowed."), _("Confidential"), _("Public"), _("created"), _("updated"),
    ngettext_lazy(
        "Ensure this value has at most %(limit_value)d character (it has %(show_value)d).",
        "Ensure this value has at most %(limit_value)d characters (it has %(show_value)d).",
        "limit_value",
    ),
]
MONTHS = [
    _("January"), _("February"), _("March"), _("April"), _("May"), _("June"),
    _("July"), _("August"), _("September"), _("October"), _("November"), _("December"),
]
# fmt: on


class EmailField(forms.EmailField):
    """An e-mail address. `clean` returns the address as it is stored (`normalise_email`)."""

    def __init__(self, autocomplete: str = "username", label: Any = None) -> None:
        attrs = {"autocomplete": autocomplete, "autocapitalize": "none", "spellcheck": "false"}
        super().__init__(
            label=label or _("E-mail address"),
            max_length=EMAIL_MAX_LENGTH,
            widget=forms.EmailInput(attrs),
            error_messages={"invalid": NOT_AN_ADDRESS},
        )

    def to_python(self, value: Any) -> str:
        typed = super().to_python(value)
        return normalise_email(typed) if typed else ""


class CodeField(forms.CharField):
    """A code from an e-mail or an authenticator app, or a recovery code."""

    def __init__(self, label: Any = "", **attrs: str) -> None:
        attrs = {"autocomplete": "one-time-code", "spellcheck": "false", **attrs}
        super().__init__(label=label, max_length=64, widget=forms.TextInput(attrs))

    def to_python(self, value: Any) -> str:
        return typed_code(super().to_python(value) or "")


class HiddenEmailInput(forms.EmailInput):
    """A hidden field with the type "email", which password managers look for."""

    is_hidden = True


class PasswordField(forms.CharField):
    """A password, exactly as typed. The control has no `maxlength`: browsers would silently cut a pasted password."""

    def __init__(self, label: Any, autocomplete: str, help_text: Any = "") -> None:
        super().__init__(
            label=label,
            strip=False,
            help_text=help_text,
            widget=forms.PasswordInput(attrs={"autocomplete": autocomplete}),
            validators=[MaxLengthValidator(settings.PASSWORD_MAX_LENGTH), refuse_control_characters],
        )


class NewPasswordField(PasswordField):
    minimum = settings.PASSWORD_MIN_LENGTH
    rules = (
        format_lazy(_("At least {count} characters; spaces count"), count=minimum),
        _("More than your name, your address and the name of this service"),
        _("No pattern and no well-known phrase; some words that don't belong together are best"),
    )

    def __init__(self, label: Any = None) -> None:
        super().__init__(label or _("New password"), "new-password", format_lazy("{} {} {}", *self.rules))


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
