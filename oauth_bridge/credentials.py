"""Codes, access tokens and client secrets: 256 random bits each, stored as a SHA-256 digest. D15."""

from __future__ import annotations

import hashlib
import secrets


def new_credential() -> str:
    """A random credential: 256 bits in 43 URL-safe characters."""
    return secrets.token_urlsafe(32)


def digest_of(credential: str) -> bytes:
    """The 32 bytes that are stored. They identify the credential, and it can't be computed from them."""
    return hashlib.sha256(credential.encode()).digest()
