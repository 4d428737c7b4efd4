"""PKCE: the formats of a code_challenge and a code_verifier, the S256 method, and their comparison. D9; RFC 7636."""

from __future__ import annotations

import base64
import hashlib
import re

CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636 §4.2); an empty string if the verifier is empty."""
    if not verifier:
        return ""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def matches(verifier: str, challenge: str) -> bool:
    """Return whether the verifier has this challenge. RFC 7636 §4.6.

    The statement `credentials.code_redemption.REDEEM` makes the same comparison when it redeems the code.
    """
    return challenge_of(verifier) == challenge
