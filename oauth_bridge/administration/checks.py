"""The problems and risks of an application, for its page and for the command `application check`. D24."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from oauth_bridge.activity import statistics
from oauth_bridge.activity.causes import fix_of, needs_mending, title_of
from oauth_bridge.administration import summaries
from oauth_bridge.administration.summaries import ENDS_SOON, STALE_AFTER, Summary
from oauth_bridge.callback_addresses.registration import hints, registration_problem
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret

MOST_CAUSES = 5


class Finding(NamedTuple):
    """A problem or a risk. `code` is a name for programs. `fix` is empty if the problem implies the fix."""

    code: str
    would_fail: bool
    problem: str
    fix: str = ""


def of_application(application: Application) -> list[Finding]:
    """All findings. Problems that make sign-ins fail come first. Executes a few SQL statements."""
    summary = summaries.of([application])[application.pk]
    of_state = of_registration(application, summary, secret_rotation.states(application))
    return [*of_state, *_of_hints(application), *_of_failures(application)]


def of_registration(application: Application, summary: Summary, secrets: list[ApplicationSecret]) -> list[Finding]:
    """The findings about the registration. Problems that make sign-ins fail come first, then risks."""
    found = [*_of_state(application), *_of_secrets(application, secrets), *_of_addresses(application)]
    now, last_at = timezone.now(), summary.last_at or application.created
    if now - last_at > STALE_AFTER:
        found.append(Finding("unused", False, _no_sign_in_for((now - last_at).days)))
    return sorted(found, key=lambda each: not each.would_fail)


def _of_state(application: Application) -> list[Finding]:
    found = []
    if not application.is_enabled:
        text = _("It is switched off: nobody can sign in to it, and its codes and access tokens are refused.")
        found.append(Finding("switched_off", True, text, _("Switch it on if people should sign in with it.")))
    if application.is_restricted and not _has_members(application):
        text = _("It is for people in chosen groups only, and nobody is in one of them.")
        fix = _("Put people into one of its groups, or let everybody use it.")
        found.append(Finding("nobody_admitted", True, text, fix))
    return found


def _has_members(application: Application) -> bool:
    people = get_user_model().objects.filter(groups__in=application.groups.all(), is_active=True)
    return people.exists()


def _of_secrets(application: Application, secrets: list[ApplicationSecret]) -> list[Finding]:
    if application.is_public:
        return []
    working = [each for each in secrets if each.works]
    fix = _("Make a new one, and copy it into the application.")
    if not working:
        return [Finding("no_secret", True, _("It has no client secret that works."), fix)]
    now = timezone.now()
    ends = [each.expires_at for each in working if each.expires_at]
    if len(ends) == len(working) and (days := _days(max(ends), now)) is not None:
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
        for each in working
        if each.is_still_used and each.expires_at and _days(each.expires_at, now) is not None
    ]


def _days(end: datetime, now: datetime) -> int | None:
    """The number of days until `end`, rounded up; None if `end` is later than ENDS_SOON from now."""
    return (end - now).days + 1 if end - now <= ENDS_SOON else None


def _of_addresses(application: Application) -> list[Finding]:
    found = []
    for address in application.callback_addresses:
        if problem := registration_problem(address):
            text = _("%(uri)s: %(problem)s") % {"uri": address[:200], "problem": problem}
            found.append(Finding("address_refused_today", False, text))
        elif summaries.is_risky(application) and _is_http(address):
            found.append(
                Finding(
                    "trusted_without_https", False, f"{address}: " + _("Trusted, and a callback address without https")
                )
            )
    return found


def _is_http(address: str) -> bool:
    return urlsplit(address).scheme == "http"


def _of_hints(application: Application) -> list[Finding]:
    return [
        Finding("address_hint", False, f"{address}: {hint}")
        for address in application.callback_addresses
        if not registration_problem(address)
        for hint in hints(address, is_public=application.is_public)
    ]


def _of_failures(application: Application) -> list[Finding]:
    """The causes of failures in the last day, the most frequent first. Causes that need no change are left out.

    Anybody can send a wrong link, so past failures do not prove that the next sign-in fails.
    """
    failures = statistics.failures(statistics.start_of(1), None, [application.client_id])
    ordered = [(each, number) for each, number in failures.most_common() if needs_mending(each.step, each.cause)]
    return [
        Finding("failed_lately", False, _times(title_of(each.cause), number), fix_of(each.cause))
        for each, number in ordered[:MOST_CAUSES]
    ]


def _times(title: str, number: int) -> str:
    text = ngettext("%(title)s: %(count)d time in 24 hours.", "%(title)s: %(count)d times in 24 hours.", number)
    return text % {"title": title, "count": number}


def _no_sign_in_for(days: int) -> str:
    text = ngettext("No sign-in for %(number)d day", "No sign-in for %(number)d days", days)
    return text % {"number": days}
