"""Make codes, access tokens and client secrets of 256 random bits, and their SHA-256 digests."""

from __future__ import annotations

import hashlib
import re
import secrets

# The prefix of a code for a request with the scope `openid`. To redeem such a code, the service needs a signing key.
OPENID_MARK = "openid-"
CREDENTIAL = re.compile(rf"(?:{OPENID_MARK})?[A-Za-z0-9_-]{{43}}")


def new_credential() -> str:
    """Return 256 random bits as 43 URL-safe characters."""
    return secrets.token_urlsafe(32)


def digest_of(credential: str) -> bytes:
    return hashlib.sha256(credential.encode()).digest()
