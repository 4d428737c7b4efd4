"""Tell the owners of an application by e-mail before one of its secrets ends. Called by `manage.py purge`."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from oauth_bridge import application_mails
from oauth_bridge.storage import secret_states

# The e-mails are sent this many days before the end, at most one for each number. Earlier ones that were missed are not
# sent later.
TOLD_BEFORE = (1, 7)


def tell(now: datetime) -> int:
    """Write the e-mails about all secrets that end soon, and return the number of secrets.

    One transaction stores the e-mails and marks the secret. So two simultaneous processes send one e-mail, and a crash
    leaves both changes or none.
    """
    told = 0
    for days in TOLD_BEFORE:
        for key in secret_states.ending(now, days):
            with transaction.atomic():
                if secret := secret_states.claim_ending(key, now, days):
                    application_mails.secret_ends(secret)
                    told += 1
    return told
