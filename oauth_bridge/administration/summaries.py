"""Summaries of applications, for lists: the state, the number of sign-ins, the end of the last secret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.utils import timezone
from django.utils.translation import gettext_lazy, pgettext_lazy

from oauth_bridge.activity import statistics
from oauth_bridge.activity.causes import needs_mending
from oauth_bridge.credentials import issued_codes
from oauth_bridge.models import Application, ApplicationSecret

MONTH = 30
# An application is failing if more than this share of a day's sign-ins failed.
FAILING_SHARE = 0.05
# An application is stale if nobody has signed in to it for this period.
STALE_AFTER = timedelta(days=90)
# A secret that ends within this time "ends soon".
ENDS_SOON = timedelta(days=30)

KINDS = {"confidential": gettext_lazy("Confidential"), "public": gettext_lazy("Public, PKCE")}


class State(NamedTuple):
    """The badge of a state: the CSS class and the word."""

    badge: str
    word: Any


WORKING = State("good", pgettext_lazy("application", "Working"))
FAILING = State("danger", pgettext_lazy("application", "Failing"))
RISKY = State("warning", pgettext_lazy("application", "Risky"))
STALE = State("", pgettext_lazy("application", "Stale"))
NO_OWNER = State("warning", pgettext_lazy("application", "No owner"))
UNUSED = State("", pgettext_lazy("application", "Not used yet"))
OFF = State("", pgettext_lazy("application", "Off"))


class Summary(NamedTuple):
    """The summary of an application: sign-ins in 24 hours and in MONTH days, failures in 24 hours.

    `last_at` is the time of the last sign-in. Once the authorization code of that sign-in is deleted, the time is
    accurate only to the hour. `secret_ends_at` is the end of the last secret that works.
    """

    state: State
    day: int
    month: int
    failed: int
    last_at: datetime | None
    has_secret: bool
    secret_ends_at: datetime | None


def of(applications: Collection[Application]) -> dict[int, Summary]:
    """The summary of each application, by primary key. Runs eight statements for any number of applications."""
    client_ids, keys = [each.client_id for each in applications], [each.pk for each in applications]
    day = statistics.sign_ins(statistics.start_of(1), client_ids)
    month = statistics.sign_ins(statistics.start_of(MONTH), client_ids)
    failed: Counter[str] = Counter()
    for failing, number in statistics.failures(statistics.start_of(1), None, client_ids).items():
        if needs_mending(failing.step, failing.cause):
            failed[failing.client_id] += number
    hours, last = statistics.last_hours(client_ids), issued_codes.last_redeemed(keys)
    unowned = _unowned(keys)
    secrets: dict[int, list[ApplicationSecret]] = {}
    for secret in ApplicationSecret.objects.filter(application__in=keys):
        secrets.setdefault(secret.application_id, []).append(secret)
    found = {}
    for each in applications:
        figures = day[each.client_id], month[each.client_id], failed[each.client_id]
        last_at = last.get(each.pk) or hours.get(each.client_id)
        state = _state(each, figures[0], figures[2], last_at, is_unowned=each.pk in unowned)
        found[each.pk] = Summary(state, *figures, last_at, *_ends(secrets.get(each.pk, [])))
    return found


def month(application: Application) -> int:
    """The number of sign-ins in MONTH days."""
    since = statistics.start_of(MONTH)
    return statistics.sign_ins(since, [application.client_id])[application.client_id]


def _ends(secrets: list[ApplicationSecret]) -> tuple[bool, datetime | None]:
    """Return whether a secret works, and when the last working secret ends.

    The time is None if no secret works, or a working secret has no end.
    """
    ends = [secret.expires_at for secret in secrets if secret.works]
    return bool(ends), None if None in ends else max((end for end in ends if end), default=None)


def _state(each: Application, day: int, failed: int, last_at: datetime | None, *, is_unowned: bool) -> State:
    if not each.is_enabled:
        return OFF
    if is_failing(day, failed):
        return FAILING
    if is_risky(each):
        return RISKY
    if timezone.now() - (last_at or each.created) > STALE_AFTER:
        return STALE
    if is_unowned:
        return NO_OWNER
    return WORKING if last_at else UNUSED


def _unowned(applications: Collection[int]) -> set[int]:
    """The keys of those applications that have no owner who may open the administration.

    The result is empty if no application of the service has an owner.
    """
    owners = Application.owners.through.objects
    if not owners.exists():
        return set()
    owned = owners.filter(user__is_active=True, user__is_staff=True, application__in=applications)
    return {*applications} - {*owned.values_list("application", flat=True)}


def is_failing(finished: int, failed: int) -> bool:
    """Return whether more than FAILING_SHARE of the sign-ins failed."""
    return failed > FAILING_SHARE * (finished + failed)


def is_risky(each: Application) -> bool:
    """Return whether the application is trusted and has an http address. Trusted applications need no consent page."""
    return each.is_trusted and any(address.startswith("http://") for address in each.callback_addresses)
