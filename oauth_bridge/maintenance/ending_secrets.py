"""Tell the owners of an application by e-mail before one of its secrets ends. `manage.py purge` calls `tell`."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from oauth_bridge import application_mails
from oauth_bridge.storage import secret_states

# Owners receive e-mails these numbers of days before a secret ends. For each number, an owner receives at most one
# e-mail. A missed e-mail is not sent later.
TOLD_BEFORE = (1, 7)


def tell(now: datetime) -> int:
    """Write the e-mails about all secrets that end soon, and return the number of secrets.

    One transaction stores the e-mails about a secret and marks the secret. Two simultaneous processes therefore write
    the e-mails only once. After a crash, the database contains both the e-mails and the mark, or neither.
    """
    told = 0
    for days in TOLD_BEFORE:
        for key in secret_states.ending(now, days):
            with transaction.atomic():
                if secret := secret_states.claim_ending(key, now, days):
                    application_mails.secret_ends(secret)
                    told += 1
    return told
