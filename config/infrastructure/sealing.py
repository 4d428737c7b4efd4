"""AES-GCM encryption. `seal` and `unseal` derive the key from SECRET_KEY and the purpose."""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.utils.crypto import salted_hmac
from django.utils.encoding import force_bytes

_NONCE_BYTES = 12


def seal(purpose: str, content: bytes, bound_to: bytes = b"") -> bytes:
    """Encrypt the content under SECRET_KEY. `unseal` needs the same `purpose` and `bound_to` (such as a row's id)."""
    return encrypt(_key(purpose, settings.SECRET_KEY), content, bound_to)


def unseal(purpose: str, sealed: bytes, bound_to: bytes = b"") -> bytes | None:
    """Return the content, or None if `sealed` was made with an unknown key, another `purpose` or another `bound_to`."""
    for secret_key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS):
        content = decrypt(_key(purpose, secret_key), sealed, bound_to)
        if content is not None:
            return content
    return None


def is_under_first_key(purpose: str, sealed: bytes, bound_to: bytes = b"") -> bool:
    return decrypt(_key(purpose, settings.SECRET_KEY), sealed, bound_to) is not None


def digests(purpose: str, value: str) -> list[str]:
    """Return HMAC digests of the value under SECRET_KEY and each fallback. Store the first; compare with all."""
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [salted_hmac(purpose, value, secret=key, algorithm="sha256").hexdigest() for key in keys]


def encrypt(key: bytes, content: bytes, bound_to: bytes = b"") -> bytes:
    """Encrypt under a `key` of 32 bytes. `decrypt` needs the same `bound_to`."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, bound_to)


def decrypt(key: bytes, encrypted: bytes, bound_to: bytes = b"") -> bytes | None:
    """Return the content, or None if `encrypted` is malformed or was made with another `key` or `bound_to`."""
    try:
        return AESGCM(key).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], bound_to)
    except (InvalidTag, ValueError):  # ValueError: the encrypted content is shorter than a nonce
        return None


def _key(purpose: str, secret_key: str | bytes) -> bytes:
    return HKDF(SHA256(), length=32, salt=None, info=purpose.encode()).derive(force_bytes(secret_key))
