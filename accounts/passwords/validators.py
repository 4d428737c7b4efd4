"""Password validators that Django lacks. NIST SP 800-63B requires a blocklist, not composition rules.

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
from zxcvbn import zxcvbn

from config.infrastructure.validators import refuse_control_characters

# `_unexpected` must count at least HARD_TO_GUESS_MIN_LENGTH characters in a password.
HARD_TO_GUESS_MIN_LENGTH = 8
# Words of fewer than _WORD_MIN_LENGTH characters in the person's data are ignored. Such words, for example "Al" or
# "com", occur in good passwords by chance.
_WORD_MIN_LENGTH = 4
# zxcvbn must estimate at least MIN_GUESSES guesses. With a stolen hash, one core needs about eight months for 10**9
# guesses.
MIN_GUESSES = 10**9
# The time of zxcvbn grows with the square of the length, so zxcvbn gets only the first _ESTIMATED_LENGTH characters.
# The time also grows with the number of ways to read characters such as "0" and "@" as letters. So zxcvbn gets at most
# four different characters of _READ_AS_LETTERS: the first four in the password.
_ESTIMATED_LENGTH = 48
_READ_AS_LETTERS = frozenset("@8({[<369!|1$057+/%24")
_MOST_READ_AS_LETTERS = 4
_PRIVATE_USE = 0xE000
# Phrases that articles quote as good passwords, or that people type as sample text. zxcvbn's lists of common words do
# not contain the phrases of _FAMOUS.
_FAMOUS = ("correcthorsebatterystaple", "thequickbrownfox", "jumpsoverthelazydog", "loremipsumdolorsitamet")
_NEIGHBOURS = ("qwertyuiop", "asdfghjkl", "zxcvbnm", "qwertzuiop", "azertyuiop", "1234567890")


class PlainTextValidator:
    """Refuses passwords with control characters or with more than PASSWORD_MAX_LENGTH characters.

    A longer password would not be safer, and would take more time to hash.
    """

    def validate(self, password: str, user: object = None) -> None:
        if len(password) > settings.PASSWORD_MAX_LENGTH:
            raise ValidationError(
                _("This password is too long. It may have %(count)d characters.")
                % {"count": settings.PASSWORD_MAX_LENGTH},
                code="password_too_long",
            )
        refuse_control_characters(password)

    def get_help_text(self) -> str:
        return _("Your password can have up to %(count)d characters, spaces included.") % {
            "count": settings.PASSWORD_MAX_LENGTH
        }


class LengthValidator(password_validation.MinimumLengthValidator):
    """Requires PASSWORD_MIN_LENGTH characters, which config.limits_and_lifetimes defines with the maximum.

    The message is ours, because Django 5.2 lacks the Arabic and Chinese translations of its message.
    """

    def get_error_message(self) -> str:
        text = _("This password is too short. It must have at least %(count)d characters.")
        return text % {"count": self.min_length}


class CommonPasswordValidator(password_validation.CommonPasswordValidator):
    """Refuses Django's common passwords, even if they are repeated or surrounded by digits and signs."""

    def validate(self, password: str, user: object = None) -> None:
        super().validate(password)
        words = set(re.findall(r"[^\W\d_]+", password.lower()))
        if len(words) == 1:
            super().validate(words.pop())


class GuessableValidator:
    """Refuses patterns, and passwords that consist mostly of the person's data or the service's name."""

    def validate(self, password: str, user: object = None) -> None:
        plain = _plain(password)[: settings.PASSWORD_MAX_LENGTH]
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


class StrengthValidator:
    """Refuses passwords for which zxcvbn estimates fewer than MIN_GUESSES guesses."""

    def validate(self, password: str, user: object = None) -> None:
        known = [*_FAMOUS, *_known_words(user)]
        if zxcvbn(_estimated(password) or " ", user_inputs=known)["guesses"] < MIN_GUESSES:
            raise ValidationError(
                _("This password is made of words that are guessed first. Add some that don't belong together."),
                code="password_is_guessed",
            )

    def get_help_text(self) -> str:
        return _("Your password can't be a well-known phrase or a few common words.")


def _estimated(password: str) -> str:
    """Return a shorter and simpler password for zxcvbn, so that an estimate takes a limited time."""
    text = unicodedata.normalize("NFKC", password[:_ESTIMATED_LENGTH])[:_ESTIMATED_LENGTH]
    signs = list(dict.fromkeys(character for character in text if character in _READ_AS_LETTERS))
    return text.translate({ord(sign): _PRIVATE_USE + ord(sign) for sign in signs[_MOST_READ_AS_LETTERS:]})


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def _period(text: str) -> int:
    """Return the length of the shortest prefix whose repetition is the text. Takes linear time (Knuth, Morris)."""
    borders = [0] * len(text)
    for end in range(1, len(text)):
        border = borders[end - 1]
        while border and text[end] != text[border]:
            border = borders[border - 1]
        borders[end] = border + (text[end] == text[border])
    return len(text) - borders[-1] if text else 0


def _unexpected(text: str) -> int:
    """Count the characters that are unexpected after the previous character.

    A character is expected if it equals the previous character, or is next to it in the alphabet or on the keyboard.
    """
    return len(text[:1]) + sum(not _are_neighbours(first, second) for first, second in pairwise(text))


def _are_neighbours(first: str, second: str) -> bool:
    if abs(ord(first) - ord(second)) <= 1:
        return True
    return any(first + second in row or second + first in row for row in _NEIGHBOURS)


def _known_words(user: object) -> Iterator[str]:
    """Yield the service's name, the person's e-mail address and nickname, and the words in these texts."""
    for known in (settings.SERVICE_NAME, getattr(user, "email", ""), getattr(user, "nickname", "")):
        plain = _plain(known)
        words = re.findall(r"[^\W_]+", plain)
        yield from (word for word in (plain, "".join(words), *words) if len(word) >= _WORD_MIN_LENGTH)
