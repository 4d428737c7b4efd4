"""ID tokens: their claims and their signature. OpenID Connect Core 1.0 §2, §3.1.3.6."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from joserfc import jws, jwt
from joserfc.errors import JoseError

from oauth_bridge.openid import signing_keys
from oauth_bridge.openid.request import Granted

LIFETIME_SECONDS = 3600
# An ID token may name many groups.
MAX_LENGTH = 8000
KID = re.compile(r"[A-Za-z0-9_-]{43}")


def make(
    granted: Granted,
    *,
    client_id: str,
    signer: signing_keys.Signer,
    person_id: UUID,
    access_token: str,
    now: int,
    person_claims: Mapping[str, Any],
) -> str:
    """Return a signed ID token. `now`: a Unix time. `person_claims`: the values of the claims in `granted.id_token`."""
    half_digest = hashlib.sha256(access_token.encode()).digest()[:16]  # §3.1.3.6
    content: dict[str, Any] = {
        **person_claims,
        "iss": settings.BASE_URL,
        "sub": str(person_id),
        "aud": client_id,
        "azp": client_id,
        "iat": now,
        "exp": now + LIFETIME_SECONDS,
        "at_hash": base64.urlsafe_b64encode(half_digest).rstrip(b"=").decode(),
        "acr": granted.acr,
    }
    optional = {"nonce": granted.nonce, "auth_time": granted.auth_time, "amr": granted.amr}
    content |= {name: value for name, value in optional.items() if value}
    header = {"alg": signer.algorithm, "kid": signer.kid}
    return jwt.encode(header, content, signer.key, [signer.algorithm])


def hinted(token: str) -> str:
    """Return the client_id and `sub` of an ID token, separated by a space. Return "" if `verified` raises NotOurs."""
    try:
        content = verified(token)
    except NotOurs:
        return ""
    return f"{content.get('aud')} {content.get('sub')}"


class NotOurs(Exception):
    """The text is not an ID token that the service can verify as its own. The message names the cause."""


def verified(token: str) -> dict[str, Any]:
    """Return the claims of an ID token of this service, even if the token is expired. Raises NotOurs."""
    token = token[:MAX_LENGTH]  # a text that is cut has a wrong signature
    try:
        # Before the signature is verified, the header is used only to find the key, which determines the algorithm.
        kid = str(jws.extract_compact(token.encode()).headers().get("kid"))
        found = signing_keys.verification_key(kid) if KID.fullmatch(kid) else None
        if found is None:
            raise NotOurs("hint_key_unknown")
        algorithm, key = found
        content = jwt.decode(token, key, [algorithm]).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        raise NotOurs("hint_invalid") from None
    if content.get("iss") != settings.BASE_URL:
        raise NotOurs("hint_invalid")
    return dict(content)
