"""The rules for passwords that Django does not bring along."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

PASSWORD_MAX_LENGTH = 1024


class PlainTextValidator:
    """At most 1,024 characters (hashing more only costs time), and none that a keyboard can't type."""

    def validate(self, password: str, user: object = None) -> None:
        if len(password) > PASSWORD_MAX_LENGTH:
            raise ValidationError(
                _("This password is too long. It may have %(count)d characters.") % {"count": PASSWORD_MAX_LENGTH},
                code="password_too_long",
            )
        refuse_control_characters(password)

    def get_help_text(self) -> str:
        return _("Your password can have up to %(count)d characters, spaces included.") % {"count": PASSWORD_MAX_LENGTH}


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: for what a database can't hold or a page would garble (NUL, escapes, text direction)."""
    if any(unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")


_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
