"""Read the activity log, newest first."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from config.infrastructure import network, sealing
from oauth_bridge.activity.causes import fix_of
from oauth_bridge.callback_addresses.difference import reason
from oauth_bridge.models.activity import ActivityRecord, Outcome

MOST = 1000
_MARK_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Filters for records. An empty filter accepts all records. `who` is a network address or an e-mail address.

    `client_ids`: only records of these applications; None: all records, also records without an application.
    `is_failure`: leave out successes, and steps that wait for the person.
    """

    client_id: str = ""
    client_ids: Collection[str] | None = None
    cause: str = ""
    step: str = ""
    who: str = ""
    reference: str = ""
    since: datetime | None = None
    person_id: UUID | None = None
    after_id: int = 0
    is_failure: bool = False
    limit: int = 100


class Sight(NamedTuple):
    """What a reader of records may see: `all_applications`, even deleted ones; the `people` in the records."""

    all_applications: bool
    people: bool

    def cut(self, detail: dict[str, Any]) -> dict[str, Any]:
        """The details of a record without the names that the reader may not see."""
        hidden = set() if self.all_applications else OF_OTHERS
        hidden = hidden if self.people else hidden | {"deleted_by"}
        return {name: value for name, value in detail.items() if name not in hidden}


OPERATOR = Sight(all_applications=True, people=True)
OF_OTHERS = {"deleted_name", "deleted_at", "deleted_by"}  # the details that describe a deleted application


def fix(entry: ActivityRecord, sight: Sight) -> str:
    facts = sight.cut(entry.detail)
    return reason(facts.get("differs", ())) or fix_of(entry.cause, facts)


def described(entry: ActivityRecord, sight: Sight) -> dict[str, Any]:
    """The record as values for JSON, without what the reader may not see.

    Only records about an unregistered callback address have `sent`, `nearest` or `differs`. Only a reader who sees all
    applications gets `detail`, which may name another application's secret.
    """
    of_the_address = {name: entry.detail[name] for name in ("sent", "nearest", "differs") if name in entry.detail}
    detail = sight.cut(entry.detail) if sight.all_applications else {}
    detail = {name: value for name, value in detail.items() if name not in of_the_address}
    return {
        "time": entry.at.isoformat(),
        "step": entry.step,
        "outcome": entry.outcome,
        "cause": entry.cause,
        "fix": fix(entry, sight),
        "client_id": entry.client_id or None,
        "person": str(entry.person_id) if entry.person_id and sight.people else None,
        "address": entry.address or None,
        "browser": entry.browser.strip("/") or None,
        "reference": entry.reference or None,
        "attempt": entry.attempt and str(entry.attempt),
        **of_the_address,
        **({"detail": detail} if detail else {}),
    }


def entries(filters: Filters) -> list[ActivityRecord]:
    """The records that the filters accept, the latest first, at most `filters.limit` and at most MOST."""
    return list(records(filters)[: min(filters.limit, MOST)])


def entry(pk: int, client_ids: Collection[str] | None = None) -> ActivityRecord | None:
    """The record with this id. None: no record of the applications in `client_ids` has this id."""
    return records(Filters(client_ids=client_ids)).filter(pk=pk).first()


def latest_id() -> int:
    """The id of the newest record; 0 without records."""
    return ActivityRecord.objects.order_by("-id").values_list("id", flat=True).first() or 0


def records(filters: Filters) -> QuerySet[ActivityRecord]:
    """The rows that the filters accept; the row that was written last comes first."""
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
    """HMACs of an e-mail address. If a typed address has no account, the record has the first HMAC, never the address.

    The first HMAC is under SECRET_KEY; the others are under SECRET_KEY_FALLBACKS, as in older records. So an
    administrator who enters the address finds the records.
    """
    return [bytes.fromhex(each)[:_MARK_BYTES] for each in sealing.digests("oauth_bridge.activity.login", address)]


def person_with(address: str) -> UUID | None:
    """The id of the person with this e-mail address. None: no account has it, or it is a network address."""
    people = get_user_model().objects.filter(email=address) if "@" in address else get_user_model().objects.none()
    found: UUID | None = people.values_list("pk", flat=True).first()
    return found
