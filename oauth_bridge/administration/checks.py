"""The state, figures, problems and risks of applications, for pages and for the command `application check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext_lazy

from accounts.models import User
from oauth_bridge.activity import statistics
from oauth_bridge.activity.causes import fix_of, needs_mending, title_of
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.callback_addresses.registration import hints, registration_problem
from oauth_bridge.credentials import code_history, secret_rotation
from oauth_bridge.models import Application, ApplicationSecret

MONTH = 30
# An application is failing if more than this share of a day's sign-ins failed.
FAILING_SHARE = 0.05
# An application is stale if nobody has signed in to it for this period.
STALE_AFTER = timedelta(days=90)
# A secret that ends within this time "ends soon".
ENDS_SOON = timedelta(days=30)
MOST_CAUSES = 5
# The causes of refusals while an application is switched off, and of refused codes and tokens that ended then.
OF_SWITCHING_OFF = ("client_disabled", "code_ended_application", "token_ended_application")

KINDS = {"confidential": gettext_lazy("with a secret"), "public": gettext_lazy("without a secret")}


class State(NamedTuple):
    badge: str
    word: Any


WORKING = State("good", pgettext_lazy("application", "Working"))
FAILING = State("danger", pgettext_lazy("application", "Failing"))
RISKY = State("warning", pgettext_lazy("application", "Risky"))
STALE = State("", pgettext_lazy("application", "Stale"))
UNUSED = State("", pgettext_lazy("application", "Not used yet"))
OFF = State("", pgettext_lazy("application", "Off"))


class Summary(NamedTuple):
    """The state and figures of an application."""

    state: State
    day: int  # sign-ins of 24 hours
    failed: int  # failures to mend of 24 hours
    last_at: datetime | None  # the last sign-in; may be rounded down to the hour
    secrets: list[ApplicationSecret]  # the latest first
    admits_nobody: bool  # restricted to groups that have no active member

    @property
    def has_secret(self) -> bool:
        return any(each.works for each in self.secrets)

    @property
    def secret_ends_at(self) -> datetime | None:
        """The latest end of the working secrets; None if no secret works, or if a working secret has no end."""
        ends = [each.expires_at for each in self.secrets if each.works]
        return None if None in ends else max((end for end in ends if end), default=None)


def summaries(applications: Collection[Application]) -> dict[int, Summary]:
    """The summary of each application, by primary key. Runs at most six statements for any number of applications."""
    client_ids, keys = [each.client_id for each in applications], [each.pk for each in applications]
    day = statistics.sign_ins(statistics.start_of(1), client_ids)
    failures = to_mend(statistics.failures(statistics.start_of(1), None, client_ids))
    failed: Counter[str] = Counter()
    for each, number in failures.items():
        failed[each.client_id] += number
    are_failing = failing(failures, day)
    last = code_history.last_redeemed(keys)
    hours = statistics.last_hours([each.client_id for each in applications if each.pk not in last])
    secrets = secret_rotation.states_of(keys)
    members = User.groups.through.objects.filter(group=OuterRef("group"), user__is_active=True)
    admitting = Application.groups.through.objects.filter(Exists(members), application__in=keys)
    admits = {*admitting.values_list("application", flat=True)}
    found = {}
    for row in applications:
        last_at = last.get(row.pk) or hours.get(row.client_id)
        found[row.pk] = Summary(
            _state(row, row.client_id in are_failing, last_at),
            day[row.client_id],
            failed[row.client_id],
            last_at,
            secrets.get(row.pk, []),
            admits_nobody=row.is_restricted and row.pk not in admits,
        )
    return found


def month(application: Application) -> int:
    return statistics.sign_ins(statistics.start_of(MONTH), [application.client_id])[application.client_id]


def _state(each: Application, is_failing: bool, last_at: datetime | None) -> State:
    if not each.is_enabled:
        return OFF
    if is_failing:
        return FAILING
    if is_risky(each):
        return RISKY
    if timezone.now() - (last_at or each.created) > STALE_AFTER:
        return STALE
    return WORKING if last_at else UNUSED


def to_mend(failures: Counter[Failing]) -> Counter[Failing]:
    return Counter({each: number for each, number in failures.items() if needs_mending(each.step, each.cause)})


def failing(failures: Counter[Failing], finished: Counter[str]) -> set[str]:
    """The client_ids for which more than FAILING_SHARE of the sign-ins failed. Ignores causes in OF_SWITCHING_OFF."""
    failed: Counter[str] = Counter()
    for each, number in failures.items():
        if each.cause not in OF_SWITCHING_OFF:
            failed[each.client_id] += number
    return {key for key, number in failed.items() if number > FAILING_SHARE * (finished[key] + number)}


def is_risky(each: Application) -> bool:
    """Return whether the application is trusted (people are not asked) and has an http callback address."""
    return each.is_trusted and any(address.startswith("http://") for address in each.callback_addresses)


class Finding(NamedTuple):
    """A problem or a risk of an application."""

    code: str  # the name of the finding for programs
    would_fail: bool  # whether the finding makes sign-ins fail
    problem: str
    fix: str = ""  # the advice


def of_application(application: Application) -> list[Finding]:
    """All findings about the application. Problems that make sign-ins fail come first."""
    of_hints = [
        Finding("address_hint", False, f"{address}: {hint}")
        for address in application.callback_addresses
        if not registration_problem(address)
        for hint in hints(address, is_public=application.is_public)
    ]
    summary = summaries([application])[application.pk]
    return [*of_registration(application, summary), *of_hints, *_of_failures(application)]


def of_registration(application: Application, summary: Summary) -> list[Finding]:
    found = []
    if not application.is_enabled:
        text = _("It is switched off: nobody can sign in to it, and it has no access any more.")
        found.append(Finding("switched_off", True, text, _("Switch it on if people should sign in with it.")))
    if summary.admits_nobody:
        text = _("It is for people in chosen groups only, and nobody is in one of them.")
        fix = _("Put people into one of its groups, or let everybody use it.")
        found.append(Finding("nobody_admitted", True, text, fix))
    found += _of_secrets(application, summary)
    for address in application.callback_addresses:
        if problem := registration_problem(address):
            text = _("%(uri)s: %(problem)s") % {"uri": address[:200], "problem": problem}
            found.append(Finding("address_refused_today", False, text))
        elif is_risky(application) and address.startswith("http://"):
            text = _("Trusted, and a callback address without https")
            found.append(Finding("trusted_without_https", False, f"{address}: {text}"))
    unused_for = timezone.now() - (summary.last_at or application.created)
    if unused_for > STALE_AFTER:
        text = ngettext("No sign-in for %(number)d day", "No sign-in for %(number)d days", unused_for.days)
        found.append(Finding("unused", False, text % {"number": unused_for.days}))
    return sorted(found, key=lambda each: not each.would_fail)


def _of_secrets(application: Application, summary: Summary) -> list[Finding]:
    if application.is_public:
        return []
    fix, now = _("Make a new one, and copy it into the application."), timezone.now()
    if not summary.has_secret:
        return [Finding("no_secret", True, _("It has no client secret that works."), fix)]
    if (end := summary.secret_ends_at) and (days := _days(end, now)) is not None:
        text = ngettext(
            "Its last client secret ends in less than %(count)d day.",
            "Its last client secret ends in less than %(count)d days.",
            days,
        )
        return [Finding("secret_ends", False, text % {"count": days}, fix)]
    return [
        Finding(
            "old_secret_used",
            False,
            _("Client secret No. %(number)d ends soon and is still used.") % {"number": each.number},
            _("Put the newest one into the application."),
        )
        for each in summary.secrets
        if each.is_still_used and each.expires_at and _days(each.expires_at, now) is not None
    ]


def _days(end: datetime, now: datetime) -> int | None:
    return (end - now).days + 1 if end - now <= ENDS_SOON else None


def _of_failures(application: Application) -> list[Finding]:
    """Findings about the last day's most frequent failures. Strangers can cause failures, so `would_fail` is false."""
    failures = to_mend(statistics.failures(statistics.start_of(1), None, [application.client_id]))
    found = []
    for each, number in failures.most_common(MOST_CAUSES):
        text = ngettext("%(title)s: %(count)d time in 24 hours.", "%(title)s: %(count)d times in 24 hours.", number)
        problem = text % {"title": title_of(each.cause), "count": number}
        found.append(Finding("failed_lately", False, problem, fix_of(each.cause)))
    return found
