"""Tell the owners of an application by e-mail before one of its secrets ends. `manage.py purge` calls `tell`. C13."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from oauth_bridge.applications import mails
from oauth_bridge.models import ApplicationSecret

# Owners receive e-mails these numbers of days before a secret ends. For each number, an owner receives at most one
# e-mail. A missed e-mail is not sent later.
TOLD_BEFORE = (1, 7)
# One run sends e-mails about at most this number of secrets, for each of TOLD_BEFORE.
MOST_TOLD = 1_000


def tell(now: datetime) -> int:
    """Write the e-mails about all secrets that end soon, and return the number of secrets.

    Switched-off applications are left out. One transaction stores the e-mails about a secret and marks the secret. Two
    simultaneous processes therefore write the e-mails only once. After a crash, the database contains both the e-mails
    and the mark, or neither.
    """
    told = 0
    for days in TOLD_BEFORE:
        ends = Q(is_revoked=False, expires_at__gt=now, expires_at__lte=now + timedelta(days=days))
        untold = ApplicationSecret.objects.filter(ends, Q(told_days=None) | Q(told_days__gt=days))
        ending = untold.filter(application__is_enabled=True).order_by("expires_at", "pk")
        for key in ending.values_list("pk", flat=True)[:MOST_TOLD]:
            with transaction.atomic():
                if untold.filter(pk=key).update(told_days=days):
                    mails.secret_ends(ApplicationSecret.objects.select_related("application").get(pk=key))
                    told += 1
    return told
