"""The error that a command prints for an invalid value."""

from __future__ import annotations

from collections.abc import Mapping

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

_JOINERS = "\u200c\u200d"  # Persian words and emoji need these invisible characters


def command_error(problem: ValidationError, options: Mapping[str, str] | None = None) -> CommandError:
    """Return the error of a command. Each sentence about a field begins with the name of the field.

    `options` maps the name of a field to its name on the command line.
    """
    return CommandError(" ".join(shown(text) for text in sentences(problem, options or {})))


def sentences(problem: ValidationError, names: Mapping[str, str]) -> list[str]:
    """Return one sentence for each field. It begins with the field's name, which `names` may replace."""
    if not hasattr(problem, "error_dict"):
        return [" ".join(problem.messages)]
    named = [(names.get(field, field), " ".join(texts)) for field, texts in problem.message_dict.items()]
    return [text if field == "__all__" else f"{field}: {text}" for field, text in named]


def shown(text: str) -> str:
    """Return the text for a terminal. A number replaces each invisible character and each control character."""
    return "".join(each if each.isprintable() or each in _JOINERS else f"\\u{ord(each):04x}" for each in text)
