"""Validation of names, nicknames and passwords; addresses as they were sent; words."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from urllib.parse import quote

from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

_JOINER = "\u200d"
_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Letters and a symbol without a shape, beside the format characters (Cf).
_SHAPELESS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: the text contains NUL, another control character, or one that changes text direction.

    A database cannot store them, or a page would show the text in another order. So does a text of which nothing can be
    seen, apart from white space, which forms remove.
    """
    if _is_unseen(text.strip()) or any(
        unicodedata.category(character) in _CATEGORIES or character in _DIRECTIONS for character in text
    ):
        raise ValidationError(_("This holds characters that can't be used here."), code="control_characters")


def first_letter(text: str) -> str:
    """The first character as a reader sees it: with its accents, or an emoji with all its parts.

    A simplification of the grapheme clusters of Unicode (UAX #29), enough for one letter in place of a logo.
    """
    end = 1
    if all(_is_flag_half(character) for character in text[:2]):
        end = 2
    while end < len(text) and (text[end] == _JOINER or text[end - 1] == _JOINER or _extends(text[end])):
        end += 1
    return text[:end]


class Words:
    """Words of ours within a sentence, several as a list: English as text, in the active language by `translate`.

    Each text is marked for translation where it stands; `details` are inserted.
    """

    def __init__(self, *texts: str, **details: object) -> None:
        self.texts, self.details = texts, details

    def __str__(self) -> str:
        return self._join(str)

    def translate(self) -> str:
        return self._join(_)

    def _join(self, spoken: Callable[[str], str]) -> str:
        *others, last = [spoken(text).format(**self.details) for text in self.texts]
        return (
            spoken(gettext_noop("{others} and {last}")).format(others=", ".join(others), last=last) if others else last
        )


def path_as_sent(request: HttpRequest) -> str:
    """Path and query, with the query's own spelling kept: it may hold a `state` (D5)."""
    path = quote(request.path, safe="/!$&'()*+,;=:@-._~")
    # WSGI passes the bytes of the query decoded as latin-1 (PEP 3333).
    query = quote(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"), safe="!$&'()*+,;=:@/?%-._~[]")
    return f"{path}?{query}" if query else path


def _is_unseen(text: str) -> bool:
    return bool(text) and all(
        unicodedata.category(character) in ("Cf", "Zs") or character in _SHAPELESS for character in text
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _extends(character: str) -> bool:
    """Whether it changes the character before it: an accent, a form of an emoji, or a skin tone."""
    return unicodedata.category(character) in ("Mn", "Mc", "Me") or "\U0001f3fb" <= character <= "\U0001f3ff"
