"""Password validators in addition to Django's. NIST SP 800-63B requires a blocklist, not composition rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth.password_validation import MinimumLengthValidator
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from zxcvbn import zxcvbn

from config.infrastructure.texts import refuse_control_characters

_WORD_MIN_LENGTH = 4  # shorter words of the person's data, such as "Al", occur in good passwords by chance
MIN_GUESSES = 10**9  # for which one core needs about eight months with a stolen hash
# The time of zxcvbn grows with the square of the length, and with the number of ways to read signs as letters. So it
# gets the first _ESTIMATED_LENGTH characters, and the first two different signs of _READ_AS_LETTERS.
_ESTIMATED_LENGTH = 48
_READ_AS_LETTERS = frozenset("@({[<!|$+/%")
_MOST_READ_AS_LETTERS = 2
_PRIVATE_USE = 0xE000
# Phrases that articles quote as good passwords, or that people type as sample text. zxcvbn's lists do not have them.
_FAMOUS = ("correcthorsebatterystaple", "thequickbrownfox", "jumpsoverthelazydog", "loremipsumdolorsitamet")


class LengthValidator(MinimumLengthValidator):
    def get_error_message(self) -> str:  # Django 5.2 does not have all translations of its own message
        text = _("This password is too short. It must have at least %(count)d characters.")
        return text % {"count": self.min_length}


class PlainTextValidator:
    def validate(self, password: str, user: object = None) -> None:
        if len(password) > settings.PASSWORD_MAX_LENGTH:
            text = _("This password is too long. It may have %(count)d characters.")
            raise ValidationError(text % {"count": settings.PASSWORD_MAX_LENGTH}, code="password_too_long")
        refuse_control_characters(password)


class StrengthValidator:
    """Refuses a password for which zxcvbn, given the person's data, estimates fewer than MIN_GUESSES guesses."""

    def validate(self, password: str, user: object = None) -> None:
        known = [*_FAMOUS, *_known_words(user)]
        if zxcvbn(_estimated(password) or " ", user_inputs=known)["guesses"] < MIN_GUESSES:
            raise ValidationError(
                _("This password is made of words that are guessed first. Add some that don't belong together."),
                code="password_is_guessed",
            )


def _estimated(password: str) -> str:
    # Only the estimate uses normalised text: the hash of a normalised password would not match older hashes.
    text = unicodedata.normalize("NFKC", password[:_ESTIMATED_LENGTH])[:_ESTIMATED_LENGTH]
    signs = list(dict.fromkeys(character for character in text if character in _READ_AS_LETTERS))
    return text.translate({ord(sign): _PRIVATE_USE + ord(sign) for sign in signs[_MOST_READ_AS_LETTERS:]})


def _known_words(user: object) -> Iterator[str]:
    for known in (settings.SERVICE_NAME, getattr(user, "email", ""), getattr(user, "nickname", "")):
        plain = unicodedata.normalize("NFKC", known).casefold()
        words = re.findall(r"[^\W_]+", plain)
        yield from (word for word in (plain, "".join(words), *words) if len(word) >= _WORD_MIN_LENGTH)
