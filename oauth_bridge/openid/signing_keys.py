"""The keys that sign ID tokens: make, read, rotate, revoke. OpenID Connect Core 1.0 §10.1; RFC 7517, RFC 7638.

Applications cache the published keys, so `rotate` publishes a key before the key signs.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from django.db import transaction
from django.db.models import Q
from django.utils import timezone
from joserfc.jwk import ECKey, JWKRegistry, RSAKey

from accounts import audit_trail
from config.infrastructure import events, sealing
from config.infrastructure.events import Event
from config.infrastructure.sql import as_uuid, fetch_all
from oauth_bridge.models import SigningKey

logger = logging.getLogger(__name__)

Key = RSAKey | ECKey

PURPOSE = "oauth_bridge signing key"
ALGORITHMS = ("RS256", "ES256")

PUBLISHED_FOR = timedelta(minutes=5)
PUBLISHED_BEFORE = 2 * PUBLISHED_FOR
# After the last signature: the lifetime of an ID token, plus time for a caller's slow clock.
PUBLISHED_AFTER = timedelta(hours=1, minutes=10)
REPLACED_AFTER = timedelta(days=90)
# After the last signature: an expired ID token may be sent as `id_token_hint`.
KEPT_FOR = timedelta(days=400)

# Each signature reads the current key from the database, so that a revocation takes effect at once in every worker.
# Only parsed keys are cached.
SIGNERS = f"""
    SELECT id, kid, private FROM {SigningKey._meta.db_table}
     WHERE algorithm = %(algorithm)s AND revoked_at IS NULL AND private IS NOT NULL AND signs_from <= %(now)s
       AND (signs_until IS NULL OR signs_until > %(now)s)
     ORDER BY signs_from DESC
"""  # noqa: S608 - the name of the table only
_loaded: dict[str, Key] = {}


class Signer(NamedTuple):
    kid: str
    algorithm: str
    key: Key


def signer(algorithm: str) -> Signer:
    """Return the key that signs now. If no such key can be read, make a key."""
    for row_id, kid, sealed in fetch_all(SIGNERS, algorithm=algorithm, now=timezone.now()):
        key = _loaded.get(kid) or _load(kid, algorithm, as_uuid(row_id).bytes, bytes(sealed))
        if key:
            return Signer(kid, algorithm, key)
    row, key = _make(algorithm, timezone.now())
    return Signer(row.kid, algorithm, key)


def published() -> list[dict[str, Any]]:
    """Return the public keys as JWKs (JSON Web Keys). Make a key for each algorithm that has no key. RFC 7517 §5."""
    is_needed = Q(signs_until=None) | Q(signs_until__gt=timezone.now() - PUBLISHED_AFTER)
    rows = list(SigningKey.objects.filter(is_needed, revoked_at=None))
    missing = set(ALGORITHMS) - {row.algorithm for row in rows}
    rows += [_make(algorithm, timezone.now())[0] for algorithm in sorted(missing)]
    return [json.loads(row.public) for row in rows]


def verification_key(kid: str) -> tuple[str, Key] | None:
    row = SigningKey.objects.filter(kid=kid, revoked_at=None).first()
    return (row.algorithm, cast(Key, JWKRegistry.import_key(json.loads(row.public)))) if row else None


@transaction.atomic
def rotate(algorithm: str) -> SigningKey:
    """Publish a new key. PUBLISHED_BEFORE (10 minutes) later, it signs instead of the algorithm's older keys."""
    signs_from = timezone.now() + PUBLISHED_BEFORE
    older = SigningKey.objects.filter(algorithm=algorithm, revoked_at=None)
    list(older.select_for_update().order_by("made_at"))  # wait for another rotation, so that its key ends too
    older.filter(Q(signs_until=None) | Q(signs_until__gt=signs_from)).update(signs_until=signs_from)
    row, _key = _make(algorithm, signs_from)
    return row


@transaction.atomic
def revoke(kid: str) -> SigningKey:
    """End a key at once: the key no longer signs, is not published, and verifies nothing."""
    row = SigningKey.objects.select_for_update().get(kid=kid)
    if row.revoked_at is None:
        row.revoked_at, row.private = timezone.now(), None
        row.save(update_fields=["revoked_at", "private"])
        events.write(Event.SIGNING_KEY_REVOKED, kid=kid)
        audit_trail.write("signing_key_revoked", audit_trail.Subject("signing key", kid, row.algorithm))
    return row


def revoke_all() -> int:
    """Revoke all keys, and return their number. For use after a restore, which may bring back revoked keys."""
    return SigningKey.objects.filter(revoked_at=None).update(revoked_at=timezone.now(), private=None)


def tidy(now: datetime) -> None:
    """Replace keys older than REPLACED_AFTER. Delete an ended key's private half, and KEPT_FOR later the whole key."""
    for algorithm in ALGORITHMS:
        newest = SigningKey.objects.filter(algorithm=algorithm, revoked_at=None).first()
        if newest and newest.made_at <= now - REPLACED_AFTER:
            rotate(algorithm)
    SigningKey.objects.filter(signs_until__lte=now).update(private=None)
    forgotten = now - KEPT_FOR
    SigningKey.objects.filter(Q(signs_until__lte=forgotten) | Q(revoked_at__lte=forgotten)).delete()


def _make(algorithm: str, signs_from: datetime) -> tuple[SigningKey, Key]:
    """Make and store a key. If two workers make the first key at the same time, both keys are published."""
    key = _generated(algorithm)
    kid = key.thumbprint()
    public = {**key.as_dict(private=False), "kid": kid, "alg": algorithm, "use": "sig"}  # RFC 7517 §4
    row = SigningKey(kid=kid, algorithm=algorithm, public=json.dumps(public), signs_from=signs_from)
    row.private = sealing.seal(PURPOSE, key.as_der(private=True), row.id.bytes)
    row.save()
    events.write(Event.SIGNING_KEY_MADE, kid=row.kid, algorithm=algorithm)
    audit_trail.write("signing_key_made", audit_trail.Subject("signing key", kid, algorithm))
    return row, key


def _generated(algorithm: str) -> Key:
    key: Key = RSAKey.generate_key(2048) if algorithm == "RS256" else ECKey.generate_key("P-256")
    # One of 64 thumbprints begins with "-". `signing-key revoke` would parse such a kid as an option.
    return _generated(algorithm) if key.thumbprint().startswith("-") else key


def _load(kid: str, algorithm: str, row_id: bytes, sealed: bytes) -> Key | None:
    content = sealing.unseal(PURPOSE, sealed, row_id)
    if content is None:
        logger.error("signing key can't be opened: SECRET_KEY has changed without a fallback", extra={"kid": kid})
        return None
    _loaded[kid] = key = RSAKey.import_key(content) if algorithm == "RS256" else ECKey.import_key(content)
    return key
