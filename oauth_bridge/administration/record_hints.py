"""What the page of a record says in addition to the advice: related applications, groups, and the developer's text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _

from oauth_bridge.activity_models import ActivityRecord
from oauth_bridge.activity_titles import name_of, needs_mending, title_of
from oauth_bridge.administration import near_applications
from oauth_bridge.administration.mended import is_limit
from oauth_bridge.administration.shown import Named, in_groups, named
from oauth_bridge.applications import rights
from oauth_bridge.models import Application
from oauth_bridge.shown_lists import listed

# Only an administrator can remove these causes at the steps of the application.
OF_ADMINISTRATORS = {
    "client_disabled",
    "client_unknown",
    "client_deleted",
    "person_deactivated",
    "secret_none_left",
    "link_not_ours",
    "rate_limited",
    "server_error",
    "busy",
    "code_ended_application",
    "code_ended_group",
    "token_ended_application",
    "token_ended_group",
    "no_verified_email",
    "not_admitted",
    "logout_address_internal",
}


# To tell these causes would confirm to a developer that another application's secret or code is real (D24).
NOT_TOLD = {"secret_of_another", "code_of_another"}


class Hint(NamedTuple):
    """A sentence, and the applications that it names."""

    text: str
    applications: list[Named]


def hints(request: HttpRequest, entry: ActivityRecord, application: Application | None) -> list[Hint]:
    """The hints for the cause. They name only applications that the administrator may see."""
    seen = rights.applications(request, rights.VIEW)
    found = []
    if entry.cause == "secret_of_another":
        owner = seen.filter(pk=entry.detail.get("secret_of", 0))
        found.append(Hint(_("The secret that was sent is one of this application:"), _named(owner)))
    if entry.cause == "code_of_another":
        owner = seen.filter(pk=entry.detail.get("code_of", 0))
        found.append(Hint(_("The code was issued to this application:"), _named(owner)))
    if entry.cause == "client_unknown":
        sent = entry.detail.get("parameters", {})
        same = near_applications.with_callback(seen, str(sent.get("redirect_uri", "")))
        found.append(Hint(_("The callback address that was sent is registered for:"), _named(same)))
        near = near_applications.with_client_id(seen, str(sent.get("client_id", "")))
        found.append(Hint(_("Applications with nearly the same client ID:"), _named(near)))
    found = [hint for hint in found if hint.applications]
    if entry.cause == "not_admitted" and application and seen.filter(pk=application.pk).exists():
        names = application.groups.order_by("name").values_list("name", flat=True)
        found.append(Hint(_("Its groups: %(names)s.") % {"names": listed(names) or _("none")}, []))
    return found


def for_developer(request: HttpRequest, entry: ActivityRecord, fix: str) -> str:
    """The text that the application's developer needs; empty if the developer cannot remove the cause."""
    is_theirs = needs_mending(entry.step, entry.cause) and entry.cause not in OF_ADMINISTRATORS | NOT_TOLD
    if not (entry.client_id and fix and is_theirs) or is_limit(entry.cause):
        return ""
    lines = [
        (_("Reference"), in_groups(entry.reference)),
        (_("Time"), f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"),
        (_("Step"), name_of(entry.step)),
        (_("Cause"), f"{title_of(entry.cause)} ({entry.cause})"),
        (_("Sent"), entry.detail.get("sent", "")),
        (_("Fix"), fix),
        (_("Documentation"), request.build_absolute_uri(reverse("docs", args=["errors"]))),
    ]
    return "\n".join(f"{label}: {value}" for label, value in lines if value)


def _named(rows: Iterable[Application]) -> list[Named]:
    return [named(row) for row in rows]
