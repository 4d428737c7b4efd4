"""What a command says about a value that can't be stored."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

_JOINERS = "\u200c\u200d"  # which Persian and emoji need


def command_error(problem: ValidationError, options: Mapping[str, str] | None = None) -> CommandError:
    """The error of a command: each sentence begins with the name of its field, if it has one.

    `options` says what a field is called on the command line.
    """
    return CommandError(" ".join(shown(text) for text in sentences(problem, options or {})))


def sentences(problem: ValidationError, names: Mapping[str, str]) -> list[str]:
    """One for each field, which begins with the field's name: that of `names`, if it has one there."""
    if not hasattr(problem, "error_dict"):
        return [" ".join(problem.messages)]
    named = [(names.get(field, field), " ".join(texts)) for field, texts in problem.message_dict.items()]
    return [text if field == "__all__" else f"{field}: {text}" for field, text in named]


def shown(text: str) -> str:
    """The text for a terminal: a character that is invisible, or controls the terminal, is written as its number."""
    return "".join(each if each.isprintable() or each in _JOINERS else f"\\u{ord(each):04x}" for each in text)
