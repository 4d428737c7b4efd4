"""The characters that names, nicknames and passwords may have."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: a character can't be stored or would garble a page (NUL, escapes, text direction)."""
    if any(unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")
