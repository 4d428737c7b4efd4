"""Read signing keys from files: the folder SIGNING_KEYS contains RSA or P-256 private keys in PEM format.

All keys are published. For each algorithm, the signer is the key in the file whose name comes first. Added and deleted
files take effect at once.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, RSAKey

Key = RSAKey | ECKey

RSA_BITS = 2048
CURVE = "P-256"


def signer(folder: Path, algorithm: str) -> tuple[str, str, Key]:
    """The kid, algorithm and key of the signer. Raises ImproperlyConfigured: no file has a key for the algorithm."""
    for kid, (found, key) in _keys(folder).items():
        if found == algorithm:
            return kid, algorithm, key
    raise ImproperlyConfigured(f"SIGNING_KEYS: the folder has no key for {algorithm}.")


def algorithms(folder: Path) -> set[str]:
    return {algorithm for algorithm, _key in _keys(folder).values()}


def published(folder: Path) -> list[dict[str, Any]]:
    return [public_jwk(key, algorithm) for algorithm, key in _keys(folder).values()]


def verification_key(folder: Path, kid: str) -> tuple[str, Key] | None:
    return _keys(folder).get(kid)


def public_jwk(key: Key, algorithm: str) -> dict[str, Any]:
    """The public half of the key as a JWK. RFC 7517 §4."""
    return {**key.as_dict(private=False), "kid": key.thumbprint(), "alg": algorithm, "use": "sig"}


def public_key(jwk: dict[str, Any]) -> Key:
    key = JWKRegistry.import_key(jwk)
    assert isinstance(key, RSAKey | ECKey)  # noqa: S101 - made by `public_jwk`
    return key


def _keys(folder: Path) -> dict[str, tuple[str, Key]]:
    """Algorithm and key by kid, in the order of the file names. Raises ImproperlyConfigured: a file cannot be used."""
    try:
        found = sorted(folder.glob("*.pem"))
        return _read(tuple((file, file.stat().st_mtime_ns) for file in found))
    except OSError as error:
        raise ImproperlyConfigured(f"SIGNING_KEYS: {error.strerror}: {error.filename}.") from None


@functools.lru_cache(maxsize=2)
def _read(files: tuple[tuple[Path, int], ...]) -> dict[str, tuple[str, Key]]:
    keys = {}
    for file, _changed_at in files:
        algorithm, key = _key_of(file)
        keys[key.thumbprint()] = (algorithm, key)
    return keys


def _key_of(file: Path) -> tuple[str, Key]:
    content = file.read_bytes()
    for kind, algorithm in ((RSAKey, "RS256"), (ECKey, "ES256")):
        try:
            key: Key = kind.import_key(content)
        except (JoseError, ValueError, TypeError):
            continue
        is_usable = key.curve_name == CURVE if isinstance(key, ECKey) else key.private_key.key_size >= RSA_BITS  # type: ignore[union-attr]
        if key.is_private and is_usable:
            return algorithm, key
    raise ImproperlyConfigured(
        f"SIGNING_KEYS: {file.name} is no unencrypted private key in PEM, RSA with {RSA_BITS} bits or more, or {CURVE}."
    )
