"""Logout tokens, which tell an application that a sign-in has ended. OpenID Connect Back-Channel Logout 1.0 §2.4."""

from __future__ import annotations

from uuid import UUID, uuid5

from django.conf import settings
from joserfc import jwt

from oauth_bridge.storage import signing_keys

EVENT = "http://schemas.openid.net/event/backchannel-logout"
LIFETIME_SECONDS = 120


def make(sid: UUID, *, person_id: UUID, client_id: str, algorithm: str, now: int) -> str:
    """Make a signed token. `now` is a Unix time in seconds. All tokens with the same `sid` have the same `jti`."""
    signer = signing_keys.signer(algorithm)
    content = {
        "iss": settings.BASE_URL,
        "sub": str(person_id),
        "aud": client_id,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        "jti": str(uuid5(sid, "logout")),
        "events": {EVENT: {}},
        "sid": str(sid),
    }
    return jwt.encode({"alg": algorithm, "kid": signer.kid, "typ": "logout+jwt"}, content, signer.key, [algorithm])
