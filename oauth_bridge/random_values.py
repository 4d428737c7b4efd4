"""Codes, access tokens and client secrets: 256 random bits each, stored as a SHA-256 digest. D15."""

from __future__ import annotations

import hashlib
import re
import secrets

# The prefix of a code for a request with the scope `openid`, whose redemption needs a signing key.
OPENID_MARK = "openid-"
CREDENTIAL = re.compile(rf"(?:{OPENID_MARK})?[A-Za-z0-9_-]{{43}}")


def new_credential() -> str:
    """A random credential: 256 bits in 43 URL-safe characters."""
    return secrets.token_urlsafe(32)


def is_well_formed(credential: str) -> bool:
    """Whether the text has the format of a credential, or of a code with the prefix."""
    return bool(CREDENTIAL.fullmatch(credential))


def digest_of(credential: str) -> bytes:
    """The 32 bytes that are stored. They identify the credential but do not reveal it."""
    return hashlib.sha256(credential.encode()).digest()
