"""Prepare records, applications and people for templates: names, links, and words in the active language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import admin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from accounts import audit_trail
from accounts.models import Session, User
from accounts.sessions import user_agents
from oauth_bridge.activity import reading
from oauth_bridge.activity.causes import name_of, needs_mending, title_of
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import rights
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord


class Named(NamedTuple):
    """What a template shows of an application, person, group or page. Without `url`, the name is no link."""

    name: str
    url: str
    detail: str = ""  # the host of an application, or the e-mail address of a person
    picture: str = ""  # the URL of a logo

    @property
    def initial(self) -> str:
        return self.name[:1].upper()


NOBODY = Named("", "")


def name_of_person(person: User) -> str:
    """The nickname if there is one, otherwise the e-mail address. Show it only to those who may see people."""
    return person.nickname.strip() or person.email


def told_apart(rows: Iterable[Application]) -> dict[str, Named]:
    """The name and link of each application, by client_id. A part of the client_id is added to equal names."""
    found = {row.client_id: named(row) for row in rows}
    numbers = Counter(each.name for each in found.values())
    for client_id, each in found.items():
        if numbers[each.name] > 1:
            found[client_id] = each._replace(name=f"{each.name} ({client_id[:6]})")
    return found


class Names:
    """The names and links of a page's applications and people. Leaves out what the administrator may not see."""

    def __init__(self, request: HttpRequest, client_ids: Iterable[str], people: Iterable[UUID | None]) -> None:
        self.hidden_details, may_open = rights.hidden_details(request), rights.may(request, rights.VIEW)
        seen = rights.applications(request, rights.VIEW, rights.ACTIVITY)
        rows = list(seen.filter(client_id__in=set(client_ids)))
        names = told_apart(rows).items()
        self.applications = {client_id: each if may_open else each._replace(url="") for client_id, each in names}
        self.why_off = {row.client_id: off_since(request, row) for row in rows}
        keys = {key for key in people if key} if request.user.has_perm(rights.PEOPLE) else set()
        found = User.objects.filter(pk__in=keys)
        self.people = {row.pk: Named(name_of_person(row), page("person", row.pk), row.email) for row in found}

    def application(self, client_id: str) -> Named:
        """The name and link of the application; only the client_id if the application is unknown or may not be seen."""
        return self.applications.get(client_id) or (Named(client_id, "") if client_id else NOBODY)

    def fix_of(self, entry: ActivityRecord) -> str:
        why = self.why_off.get(entry.client_id, "") if entry.cause == "client_disabled" else ""
        return f"{reading.fix(entry, self.hidden_details)} {why}".strip()

    def person(self, key: UUID | None) -> Named:
        return (self.people.get(key) or Named(_("a person"), "")) if key else NOBODY


def page(route: str, *args: object, **query: Any) -> str:
    found = urlencode({name: value for name, value in query.items() if value})
    return reverse(f"admin:{route}", args=args) + (f"?{found}" if found else "")


def named(application: Application) -> Named:
    return Named(application.name, page("application", application.pk), application.homepage_host, application.logo_url)


def groups(request: HttpRequest, rows: Iterable[Group]) -> list[Named]:
    may_open = admin.site.get_model_admin(Group).has_view_permission(request)
    return [Named(row.name, page("group", row.pk) if may_open else "") for row in rows]


def off_since(request: HttpRequest, application: Application) -> str:
    """When and why the application was switched off; "" if it is on. Only those who may see people learn by whom."""
    if application.is_enabled or application.disabled_at is None:
        return ""
    since = f"{application.disabled_at:{audit_trail.TIME_FORMAT}}"
    text = _("Switched off since %(time)s.") % {"time": since}
    if application.disabled_by and request.user.has_perm(rights.PEOPLE):
        text = _("%(name)s switched it off on %(time)s.") % {"name": application.disabled_by, "time": since}
    if application.disabled_reason:
        reason = _("Reason: %(reason)s") % {"reason": application.disabled_reason}
        text = f"{text} {reason}"
    return text


def browser_of(row: ActivityRecord | Session) -> str:
    return user_agents.shown(row.browser) if row.browser.strip("/") else ""


def record_url(entry: ActivityRecord | None) -> str:
    return page("record", entry.pk) if entry and entry.pk else ""


def in_groups(reference: str) -> str:
    """The reference in two groups of four characters, so that people can read it aloud."""
    return f"{reference[:4]} {reference[4:]}".strip()


def causes(
    failures: Mapping[Failing, int],
    url: Callable[[Failing], str],
    names: Names | None = None,
    before: Collection[Failing] | None = None,
) -> list[dict[str, Any]]:
    """Template variables for each failure. If `before` is given, `is_new` is true for failures not in `before`."""
    rows = [
        {
            "application": names.application(each.client_id) if names else NOBODY,
            "cause": each.cause,
            "title": title_of(each.cause),
            "step": name_of(each.step),
            "number": number,
            "needs_mending": needs_mending(each.step, each.cause),
            "is_new": before is not None and each not in before,
            "url": url(each),
        }
        for each, number in failures.items()
    ]
    return sorted(rows, key=lambda row: (not row["needs_mending"], -row["number"]))
