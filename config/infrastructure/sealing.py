"""Encryption of what the database holds but must be read again (D15): AES-GCM under a key derived from SECRET_KEY."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.encoding import force_bytes

_NONCE_BYTES = 12


def seal(purpose: str, content: bytes, bound_to: bytes = b"") -> bytes:
    """The encrypted content. Each purpose has its own key; `bound_to`, such as a row's id, is needed to open it."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _cipher(purpose, settings.SECRET_KEY).encrypt(nonce, content, bound_to)


def unseal(purpose: str, sealed: bytes, bound_to: bytes = b"") -> bytes | None:
    """The content; None when it was sealed under a SECRET_KEY that is neither the present one nor a fallback."""
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        try:
            return _cipher(purpose, secret_key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
        except (InvalidTag, ValueError):
            continue
    return None


def _cipher(purpose: str, secret_key: str | bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(force_bytes(secret_key)))
