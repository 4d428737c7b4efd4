"""Record the codes that no application has exchanged.

The purge writes the records, because no request shows the failure.

Possible causes: the callback did not answer, the application lost its `state`, or a firewall stopped the exchange. A
refusal, a disconnection and `after-restore` delete the code earlier, so they cause no record.
"""

from __future__ import annotations

from collections.abc import Iterable

from oauth_bridge.activity_causes import NEVER_EXCHANGED
from oauth_bridge.activity_models import ActivityRecord, Outcome, Step
from oauth_bridge.storage import activity, activity_counts, issued_codes
from oauth_bridge.storage.activity import Kind


def delete_never_exchanged(keys: Iterable[int]) -> int:
    """Delete the unredeemed codes with these keys. Record and count the codes that were never sent.

    Returns the number of deleted codes.
    """
    number, never_sent = issued_codes.delete_unredeemed(keys)
    for client_id, person_id, attempt, expired_at in never_sent:
        activity_counts.count(expired_at, client_id, Step.EXCHANGE, Outcome.FAILED, NEVER_EXCHANGED)
        record = ActivityRecord(
            at=expired_at,
            step=Step.EXCHANGE,
            outcome=Outcome.FAILED,
            cause=NEVER_EXCHANGED,
            attempt=attempt,
            client_id=client_id,
            person_id=person_id,
            is_proven=True,
        )
        if activity.has_room(client_id, Kind.PERSON, str(person_id)):
            activity.add(record)
    activity_counts.flush()
    return number
