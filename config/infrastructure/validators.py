"""A validator for texts that people see."""

from __future__ import annotations

import unicodedata

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Four letters and a symbol that are as invisible as format characters (Cf).
_SHAPELESS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


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
