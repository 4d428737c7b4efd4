"""The reference of a request: the same on the page, in `X-Reference` and in the log. D24."""

from __future__ import annotations

import base64
import secrets
from contextvars import ContextVar

_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")

# Of the request that is answered; empty outside of one, such as in a command.
current: ContextVar[str] = ContextVar("reference", default="")


def new() -> str:
    """Eight characters of Crockford's base 32 (no I, L, O, U): 40 random bits. Not unique: no secret, no key."""
    return base64.b32encode(secrets.token_bytes(5)).translate(_CROCKFORD).decode()
