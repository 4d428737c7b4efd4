"""What a command says about a value that can't be stored."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError


def command_error(problem: ValidationError) -> CommandError:
    """The error of a command: each sentence begins with the name of its field, if it has one."""
    if not hasattr(problem, "error_dict"):
        return CommandError(" ".join(problem.messages))
    named = [(name, " ".join(texts)) for name, texts in problem.message_dict.items()]
    return CommandError(" ".join(text if name == "__all__" else f"{name}: {text}" for name, text in named))
