"""The checks of the purge and the signing keys for `manage.py check-deployment`."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone

from config.deployment.findings import Finding, failed, ok, warning
from config.infrastructure import sealing
from oauth_bridge.key_models import SigningKey
from oauth_bridge.maintenance import purging
from oauth_bridge.storage.signing_keys import PURPOSE, REPLACED_AFTER

PURGED_WITHIN = timedelta(days=1)
# The purge replaces a signing key after REPLACED_AFTER. `signing_keys` warns only seven days later, because `purge`
# already reports that the purge is late.
KEY_REPLACED_WITHIN = REPLACED_AFTER + timedelta(days=7)
PURGE_FIX = "Is the timer on (systemctl list-timers)? Run manage.py purge and see what it says."


def purge() -> Finding:
    finished, now = purging.last_finished(), timezone.now()
    if finished is None:
        begun = MigrationRecorder(connection).migration_qs.order_by("applied").first()
        if begun is None or begun.applied > now - PURGED_WITHIN:
            return warning("purge", "No purge has finished yet; the installation is new.", PURGE_FIX)
        return failed("purge", "No purge has ever finished.", PURGE_FIX)
    hours = int((now - finished).total_seconds() // 3600)
    if now - finished > PURGED_WITHIN:
        return failed("purge", f"The last purge finished {hours} hours ago.", PURGE_FIX)
    return ok("purge", f"The last purge finished {'within the hour' if not hours else f'{hours} hours ago'}.")


def signing_keys() -> Finding:
    rows = list(SigningKey.objects.filter(revoked_at=None).exclude(private=None))
    if not rows:
        return ok("signing_keys", "There is no key yet. The first use makes one.")
    closed = [row.kid for row in rows if sealing.unseal(PURPOSE, bytes(row.private or b""), row.id.bytes) is None]
    if closed:
        fix = "Put the SECRET_KEY that sealed them into SECRET_KEY_FALLBACKS and run manage.py reseal."
        return failed("signing_keys", f"SECRET_KEY does not open these keys: {', '.join(closed)}.", fix)
    newest = max(row.made_at for row in rows)
    if newest < timezone.now() - KEY_REPLACED_WITHIN:
        message = f"The newest key was made on {newest:%Y-%m-%d}, and the purge should have replaced it."
        return warning("signing_keys", message, "Run manage.py purge.")
    return ok("signing_keys", "The keys that sign can be opened.")
