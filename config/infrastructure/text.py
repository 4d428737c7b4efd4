"""Validation of names, nicknames and passwords."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: the text contains NUL, another control character, or one that changes text direction.

    A database cannot store them, or a page would show the text in another order.
    """
    if any(unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")
