"""Invisible characters, and a validator for texts that people see."""

from __future__ import annotations

import re
import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Four letters and a symbol that are as invisible as format characters (Cf).
_SHAPELESS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Format characters have the category Cf. These are as invisible: marks that change the character before them.
_SELECTORS = re.compile("[\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def is_invisible(character: str) -> bool:
    """Return whether nobody sees the character. White space is not invisible, except line breaks and controls."""
    is_format = unicodedata.category(character) in {"Cf", *_CATEGORIES}
    return is_format or character in _SHAPELESS or bool(_SELECTORS.match(character))


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: the text is invisible, or contains a control character or a change of direction.

    PostgreSQL cannot store NUL. A change of direction would reorder the text of a page. Text that is only white space
    is accepted, because forms strip it.
    """
    if _is_unseen(text.strip()) or any(
        unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text
    ):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")


def _is_unseen(text: str) -> bool:
    return bool(text) and all(
        unicodedata.category(character) in ("Cf", "Zs") or character in _SHAPELESS for character in text
    )
