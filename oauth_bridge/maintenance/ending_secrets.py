"""Tell the owners of an application by mail before one of its secrets ends. `manage.py purge` calls it."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from oauth_bridge import application_mails
from oauth_bridge.storage import secret_states

# The days before the end. Once each: a secret that ends within the last of them is not told of for the others too.
TOLD_BEFORE = (1, 7)


def tell(now: datetime) -> int:
    """Write the mails of all secrets that end soon, and return the number of secrets.

    The mark that a secret was told of and its mails are one transaction. So two processes at the same moment send one
    mail, and a process that dies in between leaves both or neither.
    """
    told = 0
    for days in TOLD_BEFORE:
        for key in secret_states.ending(now, days):
            with transaction.atomic():
                if secret := secret_states.claim_ending(key, now, days):
                    application_mails.secret_ends(secret)
                    told += 1
    return told
