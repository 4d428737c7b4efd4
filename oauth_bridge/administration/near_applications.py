"""Find the applications that are meant by a mistyped client ID or by a callback address."""

from __future__ import annotations

from difflib import get_close_matches
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.models import CLIENT_ID_LENGTH, TYPING_ERRORS, Application

MOST_NEAR = 5  # applications that are named
PART = (CLIENT_ID_LENGTH - TYPING_ERRORS) // 5


def with_callback(seen: QuerySet[Application], sent: str) -> list[Application]:
    """Return the applications in `seen` that have registered the callback address."""
    if not sent or MASK in sent:
        return []
    rows = seen.filter(redirect_uris__contains=sent)[: 10 * MOST_NEAR]
    return [row for row in rows if sent in row.callback_addresses][:MOST_NEAR]


def with_client_id(seen: QuerySet[Application], sent: str) -> list[Application]:
    """Return the applications in `seen` whose client ID differs in at most TYPING_ERRORS characters."""
    if abs(len(sent) - CLIENT_ID_LENGTH) > TYPING_ERRORS or not sent.isprintable():  # or only a length was recorded
        return []
    # Two wrong characters, or pairs of swapped characters, change at most four of the five parts.
    parts = [Q(client_id__contains=sent[start : start + PART]) for start in range(0, 5 * PART, PART)]
    rows = {row.client_id: row for row in seen.filter(reduce(or_, parts))}
    similarity = 1 - TYPING_ERRORS / CLIENT_ID_LENGTH
    return [rows[client_id] for client_id in get_close_matches(sent, rows, MOST_NEAR, similarity)]
