"""Functions for text that people type or read: invisible characters, codes, errors of commands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.utils.translation import gettext as _

_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})  # PostgreSQL cannot store NUL, which is in Cc
_UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Zl", "Zp", "Zs"})
# Letters, marks and a symbol that are as invisible as format characters: the rest of Default_Ignorable_Code_Point.
_UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
_DASHES = frozenset("\u02d7\u2212\u30fc")  # beside the category of punctuation
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they could reorder a page
# A flag, or a character with Latin accents, a form or skin tone, or joined characters. UAX #29, simplified.
_GRAPHEME = re.compile("[\U0001f1e6-\U0001f1ff]{2}|.(?:[\u0300-\u036f\ufe0f\U0001f3fb-\U0001f3ff]|\u200d.)*", re.DOTALL)
_JOINERS = "\u200c\u200d"  # Persian words and emoji need these invisible characters


def refuse_control_characters(text: str) -> None:
    """Raise ValidationError if the text contains a control character, changes the text direction, or is invisible."""
    seen = text.strip()  # forms strip white space, so a text of nothing else is accepted
    if (seen and all(map(is_unseen, seen))) or any(
        unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text
    ):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")


def is_unseen(character: str) -> bool:
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or bool(_UNSEEN.match(character))


def typed_code(text: str) -> str:
    """Return the code with ASCII digits. Remove white space, dashes, punctuation and invisible characters."""
    return "".join(
        str(unicodedata.decimal(each, each))  # keyboards type digits of their own script (`٤`, `४`)
        for each in unicodedata.normalize("NFKC", text)
        if not (is_unseen(each) or each in _DASHES or unicodedata.category(each).startswith("P"))
    )


def first_grapheme(text: str) -> str:
    """Return the first character as a person sees it: with accents, or a whole emoji. Return "" for an empty text."""
    found = _GRAPHEME.match(text)
    return found[0] if found else ""


def command_error(problem: ValidationError, options: Mapping[str, str] | None = None) -> CommandError:
    """Return `problem` as a CommandError. A sentence about a field begins with `options[field]` or the field's name."""
    texts = problem.messages
    if hasattr(problem, "error_dict"):
        names = {"__all__": "", **(options or {})}
        said = {names.get(field, field): " ".join(messages) for field, messages in problem.message_dict.items()}
        texts = [f"{name}: {text}" if name else text for name, text in said.items()]
    return CommandError(" ".join(map(shown, texts)))


def shown(text: str) -> str:
    """Return the text for a terminal. Unprintable characters are replaced by their hexadecimal numbers."""
    return "".join(each if each.isprintable() or each in _JOINERS else f"\\u{ord(each):04x}" for each in text)
