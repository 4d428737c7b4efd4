"""What a list says of each application: its state, its sign-ins, when its secret ends. A few statements for a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext_lazy, pgettext_lazy

from oauth_bridge.activity_titles import needs_mending
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.storage import activity_statistics

DAY = timedelta(days=1)
MONTH = 30
# Failing: more than this share of the sign-ins of a day.
FAILING_SHARE = 0.05
# Without a sign-in for so long it may be forgotten.
STALE_AFTER = timedelta(days=90)
# An end of a secret that is so near is told.
ENDS_SOON = timedelta(days=30)

KINDS = {"confidential": gettext_lazy("Confidential"), "public": gettext_lazy("Public, PKCE")}


class State(NamedTuple):
    """The class of the badge, and its word."""

    badge: str
    word: Any


WORKING = State("good", pgettext_lazy("application", "Working"))
FAILING = State("danger", pgettext_lazy("application", "Failing"))
RISKY = State("warning", pgettext_lazy("application", "Risky"))
STALE = State("", pgettext_lazy("application", "Stale"))
UNUSED = State("", pgettext_lazy("application", "Not used yet"))
OFF = State("", pgettext_lazy("application", "Off"))


class Summary(NamedTuple):
    """Of one application. `secret_ends_at` is the end of the last secret that works."""

    state: State
    day: int
    month: int
    failed: int
    last_at: datetime | None
    has_secret: bool
    secret_ends_at: datetime | None


def of(applications: Collection[Application]) -> dict[int, Summary]:
    """By primary key. Five statements, however many applications."""
    client_ids = [each.client_id for each in applications]
    now = timezone.now()
    day = activity_statistics.sign_ins(now - DAY, client_ids)
    month = activity_statistics.sign_ins(now - MONTH * DAY, client_ids)
    failed: Counter[str] = Counter()
    for failing, number in activity_statistics.failures(now - DAY, None, client_ids).items():
        if needs_mending(failing.step, failing.cause):
            failed[failing.client_id] += number
    hours = activity_statistics.last_hours(client_ids)
    secrets: dict[int, list[ApplicationSecret]] = {}
    for secret in ApplicationSecret.objects.filter(application__in=[each.pk for each in applications]):
        secrets.setdefault(secret.application_id, []).append(secret)
    return {
        each.pk: _summary(
            each,
            day[each.client_id],
            month[each.client_id],
            failed[each.client_id],
            hours.get(each.client_id),
            secrets.get(each.pk, []),
        )
        for each in applications
    }


def month(application: Application) -> int:
    """Its sign-ins in MONTH days."""
    since = timezone.now() - MONTH * DAY
    return activity_statistics.sign_ins(since, [application.client_id])[application.client_id]


def _summary(
    each: Application, day: int, month: int, failed: int, hour: datetime | None, secrets: list[ApplicationSecret]
) -> Summary:
    used = [secret.last_used_at for secret in secrets if secret.last_used_at]
    last_at = max([*used, *([hour] if hour else [])], default=None)  # a use is right to the minute
    working = [secret for secret in secrets if secret.works]
    ends = [secret.expires_at for secret in working]
    return Summary(
        _state(each, day, failed, last_at),
        day,
        month,
        failed,
        last_at,
        has_secret=bool(working),
        secret_ends_at=None if None in ends else max((end for end in ends if end), default=None),
    )


def _state(each: Application, day: int, failed: int, last_at: datetime | None) -> State:
    if not each.is_enabled:
        return OFF
    if failed > FAILING_SHARE * (day + failed):
        return FAILING
    if is_risky(each):
        return RISKY
    if timezone.now() - (last_at or each.created) > STALE_AFTER:
        return STALE
    return WORKING if last_at else UNUSED


def is_risky(each: Application) -> bool:
    """Nobody is asked before a code of a trusted application is sent, so http is more dangerous there."""
    return each.is_trusted and any(address.startswith("http://") for address in each.callback_addresses)
