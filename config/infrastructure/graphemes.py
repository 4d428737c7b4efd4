"""Find the first grapheme of a text, which a reader sees as one character."""

from __future__ import annotations

import unicodedata

_JOINER = "\u200d"


def first_grapheme(text: str) -> str:
    """Return the first character with its accents, or an emoji with all its parts; empty for an empty text.

    The function simplifies Unicode's rules for grapheme clusters (UAX #29). The result is precise enough for a letter
    that replaces a logo.
    """
    end = 1
    if all(_is_flag_half(character) for character in text[:2]):
        end = 2
    while end < len(text) and (text[end] == _JOINER or text[end - 1] == _JOINER or _extends(text[end])):
        end += 1
    return text[:end]


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _extends(character: str) -> bool:
    """Return whether the character changes the previous one: an accent, a form of an emoji, or a skin tone."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= character <= "\U0001f3ff"
