"""Text: forbidden characters, first letters, translatable parts of sentences, paths as they were sent."""

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
# Letters and one symbol that are invisible, as the format characters (Cf) are.
_SHAPELESS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refuse_control_characters(text: str) -> None:
    """Raises ValidationError: a control character, one that changes the text direction, or an invisible text.

    PostgreSQL can't store NUL, and a page would show text in another order. White space alone is no error: forms strip
    it.
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
    """A translatable part of a sentence; several texts become a list. English as `str`, else see `translate`.

    Each text is marked for translation in the code that makes it; `details` are inserted.
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
    """The path and the query. The query keeps its spelling, because it may contain a `state` (D5)."""
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
