"""Password validators for the rules that Django's lack, as NIST SP 800-63B asks: no composition rules, a blocklist.

Passwords are hashed as typed, without Unicode normalisation. See docs/decisions.md, P9.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise

from django.conf import settings
from django.contrib.auth import password_validation
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from config.infrastructure.validators import refuse_control_characters

PASSWORD_MAX_LENGTH = 1024
# How many characters must remain without those that a guess adds at no cost.
HARD_TO_GUESS_MIN_LENGTH = 8
# Shorter words of the person's data, such as "Al" or "com", occur in good passwords by chance.
_WORD_MIN_LENGTH = 4
_NEIGHBOURS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "1234567890")


class PlainTextValidator:
    """At most 1,024 characters, because hashing more only takes longer, and no control characters."""

    def validate(self, password: str, user: object = None) -> None:
        if len(password) > PASSWORD_MAX_LENGTH:
            raise ValidationError(
                _("This password is too long. It may have %(count)d characters.") % {"count": PASSWORD_MAX_LENGTH},
                code="password_too_long",
            )
        refuse_control_characters(password)

    def get_help_text(self) -> str:
        return _("Your password can have up to %(count)d characters, spaces included.") % {"count": PASSWORD_MAX_LENGTH}


class LengthValidator(password_validation.MinimumLengthValidator):
    """Django's, in a sentence that all our languages have: Django 5.2 lacks it in Arabic and Chinese."""

    def get_error_message(self) -> str:
        text = _("This password is too short. It must have at least %(count)d characters.")
        return text % {"count": self.min_length}


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """Django's list of common passwords, also for one of them with digits and signs around it or between copies."""

    def validate(self, password: str, user: object = None) -> None:
        super().validate(password)
        words = set(re.findall(r"[^\W\d_]+", password.lower()))
        if len(words) == 1:
            super().validate(words.pop())


class GuessableValidator:
    """No pattern, and more than the person's own data and the name of the service."""

    def validate(self, password: str, user: object = None) -> None:
        plain = _plain(password)[:PASSWORD_MAX_LENGTH]
        if 3 * _period(plain) <= 2 * len(plain) or _unexpected(plain) < HARD_TO_GUESS_MIN_LENGTH:
            raise ValidationError(
                _("This password is a pattern, like abcabc or 1234. Such passwords are guessed first."),
                code="password_is_a_pattern",
            )
        for word in sorted(_known_words(user), key=len, reverse=True):
            plain = plain.replace(word, "")
        if _unexpected(plain) < HARD_TO_GUESS_MIN_LENGTH:
            raise ValidationError(
                _("This password says little more than your name, your address or the name of this service."),
                code="password_is_known",
            )

    def get_help_text(self) -> str:
        return _("Your password can't be a pattern, nor consist of your name, your address or this service's name.")


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _period(text: str) -> int:
    """The length of the shortest beginning of which the whole text is a repetition. In linear time (Knuth, Morris)."""
    borders = [0] * len(text)
    for end in range(1, len(text)):
        border = borders[end - 1]
        while border and text[end] != text[border]:
            border = borders[border - 1]
        borders[end] = border + (text[end] == text[border])
    return len(text) - borders[-1] if text else 0


def _unexpected(text: str) -> int:
    """How many characters are not the same as the one before, nor its neighbour in the alphabet or on a keyboard."""
    return len(text[:1]) + sum(not _are_neighbours(first, second) for first, second in pairwise(text))


def _are_neighbours(first: str, second: str) -> bool:
    if abs(ord(first) - ord(second)) <= 1:
        return True
    return any(first + second in row or second + first in row for row in _NEIGHBOURS)


def _known_words(user: object) -> Iterator[str]:
    """The service's name and the person's data, whole and in words."""
    for known in (settings.SERVICE_NAME, getattr(user, "email", ""), getattr(user, "nickname", "")):
        plain = _plain(known)
        words = re.findall(r"[^\W_]+", plain)
        yield from (word for word in (plain, "".join(words), *words) if len(word) >= _WORD_MIN_LENGTH)
