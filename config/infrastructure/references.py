"""The reference of a request: a short name that an error page, the header `X-Reference` and the log share. D24."""

from __future__ import annotations

import base64
import secrets
from contextvars import ContextVar

from config.infrastructure.texts import typed_code

_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")

# The reference of the present request; empty outside of a request, such as in a command.
current: ContextVar[str] = ContextVar("reference", default="")


_MISREAD = str.maketrans("OIL", "011")


def normalised(text: str) -> str:
    """Return the reference in a typed text, which may contain small letters, spaces, hyphens, O for 0, I or L for 1."""
    return typed_code(text).upper().translate(_MISREAD)


def added_to(sentence: str) -> str:
    """Return the sentence with the reference of the present request. Outside of a request, return it unchanged."""
    reference = current.get()
    return f"{sentence} Reference {reference}." if reference else sentence


def new() -> str:
    """Return 40 random bits as eight characters of Crockford's base 32 (no I, L, O, U), neither unique nor secret."""
    return base64.b32encode(secrets.token_bytes(5)).translate(_CROCKFORD).decode()
