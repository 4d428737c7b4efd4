"""Read records of the activity log, the newest first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from accounts.models import User
from config.infrastructure import network, sealing
from oauth_bridge.activity.causes import fix_of
from oauth_bridge.callback_addresses.difference import reason
from oauth_bridge.models.activity import ActivityRecord, Outcome

MOST = 1000
_MARK_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters for records. A filter with its default value accepts all records."""

    client_id: str = ""
    client_ids: Collection[str] | None = None  # only records of these applications; an empty collection accepts none
    cause: str = ""
    step: str = ""
    who: str = ""  # a network address or an e-mail address
    reference: str = ""
    since: datetime | None = None
    person_id: UUID | None = None
    after_id: int = 0
    is_failure: bool = False  # leaves out successes, and steps that wait for the person
    limit: int = 100  # only `entries` uses the limit


def fix(entry: ActivityRecord, hidden: Collection[str] = ()) -> str:
    """Return the advice for a record. The advice contains no value of `entry.detail` whose name is in `hidden`."""
    facts = {name: value for name, value in entry.detail.items() if name not in hidden}
    return reason(facts.get("differs", ())) or fix_of(entry.cause, facts)


def described(entry: ActivityRecord) -> dict[str, Any]:
    """Return the record as values for JSON."""
    detail = dict(entry.detail)
    of_the_address = {name: detail.pop(name) for name in ("sent", "nearest", "differs") if name in detail}
    return {
        "time": entry.at.isoformat(),
        "step": entry.step,
        "outcome": entry.outcome,
        "cause": entry.cause,
        "fix": fix(entry),
        "client_id": entry.client_id or None,
        "person": entry.person_id and str(entry.person_id),
        "address": entry.address or None,
        "browser": entry.browser.strip("/") or None,
        "reference": entry.reference or None,
        "attempt": entry.attempt and str(entry.attempt),
        **of_the_address,
        **({"detail": detail} if detail else {}),
    }


def entries(filters: Filters) -> list[ActivityRecord]:
    return list(records(filters)[: min(filters.limit, MOST)])


def latest_id() -> int:
    return ActivityRecord.objects.order_by("-id").values_list("id", flat=True).first() or 0


def records(filters: Filters) -> QuerySet[ActivityRecord]:
    """Return a query for the records that the filters accept, the newest first. `filters.limit` is not applied."""
    exact = {
        "client_id": filters.client_id,
        "cause": filters.cause,
        "step": filters.step,
        "reference": network.typed_reference(filters.reference),
        "person": filters.person_id,
        "id__gt": filters.after_id,
        "at__gte": filters.since,
    }
    rows = ActivityRecord.objects.filter(**{name: value for name, value in exact.items() if value})
    if filters.client_ids is not None:
        rows = rows.filter(client_id__in=filters.client_ids)
    if filters.is_failure:
        rows = rows.exclude(outcome__in=[Outcome.SUCCEEDED, Outcome.UNFINISHED])
    if "@" in filters.who:
        is_marked = Q(login_mark__in=login_marks(filters.who))
        person_id = person_with(filters.who)
        rows = rows.filter(is_marked | Q(person=person_id) if person_id else is_marked)
    elif filters.who:
        rows = rows.filter(address=filters.who)
    return rows.order_by("-id")


def login_marks(address: str) -> list[bytes]:
    """Return HMACs of an e-mail address: first with SECRET_KEY, then with each of SECRET_KEY_FALLBACKS.

    If somebody typed an address without an account, the record contains the first HMAC instead of the address.
    """
    return [bytes.fromhex(each)[:_MARK_BYTES] for each in sealing.digests("oauth_bridge.activity.login", address)]


def person_with(address: str) -> UUID | None:
    people = User.objects.filter(email=address) if "@" in address else User.objects.none()
    return people.values_list("pk", flat=True).first()
