"""Facts about the cause of an activity record: whether it is gone, hints, and the text for the developer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.models import AuditEntry, User
from accounts.templatetags.times import comma
from oauth_bridge.activity import reading
from oauth_bridge.activity.causes import CAUSES, UNCONFIRMED, Mender, name_of, needs_mending, title_of
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import rights
from oauth_bridge.administration.shown import Named, in_groups, named
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.credentials import admission
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Step
from oauth_bridge.models.application import CLIENT_ID_LENGTH, TYPING_ERRORS

MOST_NEAR = 5  # applications that are named
MOST_LIMITS = 5  # records of a limit that are read, for each person

OF_NO_APPLICATION = {"client_unknown", "client_deleted"}
# The limits that end when an administrator unlocks the account.
OF_THE_ACCOUNT = {"sign_in_limited_account", "factor_limited"}

# For each of these causes, the act on the person's page that removes the cause, and the column that the act sets.
OF_THE_PERSON = {
    "account_inactive": ("activate", "is_active"),
    "person_deactivated": ("activate", "is_active"),
    "no_verified_email": ("confirm", "email_verified_at"),
    UNCONFIRMED: ("confirm", "email_verified_at"),
}
OF_THE_APPLICATION: dict[str, Callable[[Application], bool]] = {
    "client_disabled": lambda application: application.is_enabled,
    "challenge_needed": lambda application: not application.is_public,
    "secret_none_left": lambda application: any(secret.works for secret in application.secrets.all()),
}


def is_mended(entry: ActivityRecord, application: Application | None) -> bool | None:
    """Return whether the cause of the record is gone; None if the database cannot tell."""
    if entry.cause in OF_NO_APPLICATION:  # the record of an exchange belongs to the application whose code was sent
        client_id = entry.detail.get("parameters", {}).get("client_id", "")
        return Application.objects.filter(client_id=client_id).exists()
    if entry.step in (Step.SIGN_IN, Step.SECOND_FACTOR) and (end := limit_ends_at(entry)):
        return end <= timezone.now() or _is_unlocked(entry)
    person = User.objects.filter(pk=entry.person_id).first() if entry.person_id else None
    if entry.cause in OF_THE_PERSON:
        return person is not None and bool(getattr(person, OF_THE_PERSON[entry.cause][1]))
    if entry.cause == "not_admitted":
        return person is not None and application is not None and admission.is_admitted(person, application)
    if state_of_application := OF_THE_APPLICATION.get(entry.cause):
        return application is not None and state_of_application(application)
    sent = entry.detail.get("sent", MASK)
    if entry.cause == "redirect_uri_mismatch" and MASK not in sent:
        return application is not None and application.is_callback(sent)
    return None


def limit_ends_at(entry: ActivityRecord) -> datetime | None:
    seconds, is_limit = entry.detail.get("seconds"), "limited" in entry.cause or entry.cause.startswith("throttled")
    return entry.at + timedelta(seconds=seconds) if isinstance(seconds, int) and is_limit else None


def locked_until(people: Sequence[UUID]) -> dict[UUID, datetime]:
    """The time until which people must wait after wrong passwords or codes, by user ID. Leaves out all other people."""
    rows = reading.records(Filters()).filter(person__in=people, cause__in=OF_THE_ACCOUNT)[: MOST_LIMITS * len(people)]
    now, found = timezone.now(), dict[UUID, datetime]()
    for entry in rows:
        end = limit_ends_at(entry)
        if entry.person_id and end and end > found.get(entry.person_id, now) and not _is_unlocked(entry):
            found[entry.person_id] = end
    return found


def _is_unlocked(entry: ActivityRecord) -> bool:
    unlocked = AuditEntry.objects.filter(action="account_unlocked", kind="person", key=str(entry.person_id))
    return entry.cause in OF_THE_ACCOUNT and unlocked.filter(at__gt=entry.at).exists()


def hints(
    request: HttpRequest, entry: ActivityRecord, application: Application | None
) -> list[tuple[str, list[Named]]]:
    """Sentences about the cause, each with a list of applications. Leaves out applications that may not be viewed."""
    seen, sent = rights.applications(request, rights.VIEW), entry.detail.get("parameters", {})
    named_by: dict[str, Iterable[Application]] = {}
    if entry.cause == "secret_of_another":
        owner = seen.filter(pk=entry.detail.get("secret_of", 0))
        named_by[_("The secret that was sent is one of this application:")] = owner
    if entry.cause == "code_of_another":
        named_by[_("The code was issued to this application:")] = seen.filter(pk=entry.detail.get("code_of", 0))
    if entry.cause == "client_unknown":
        same = _with_callback(seen, str(sent.get("redirect_uri", "")))
        named_by[_("The callback address that was sent is registered for:")] = same
        near = with_client_id(seen, str(sent.get("client_id", "")))
        named_by[_("Applications with nearly the same client ID:")] = near
    found = [(text, [named(row) for row in rows]) for text, rows in named_by.items() if rows]
    if entry.cause == "not_admitted" and application and seen.filter(pk=application.pk).exists():
        names = application.groups.order_by("name").values_list("name", flat=True)
        found.append((_("Its groups: %(names)s.") % {"names": comma().join(names) or _("none")}, []))
    return found


def for_developer(request: HttpRequest, entry: ActivityRecord, fix: str) -> str:
    """A text about the record for the application's developer; empty if the developer cannot remove the cause."""
    is_theirs = entry.cause in CAUSES and CAUSES[entry.cause].mender is Mender.DEVELOPER
    if not (entry.client_id and fix and is_theirs and needs_mending(entry.step, entry.cause)):
        return ""
    lines = [
        (_("Reference"), in_groups(entry.reference)),
        (_("Time"), f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"),
        (_("Step"), f"{name_of(entry.step)} ({entry.step})"),
        (_("Cause"), f"{title_of(entry.cause)} ({entry.cause})"),
        (_("Sent"), entry.detail.get("sent", "")),
        (_("Nearest registered address"), entry.detail.get("nearest", "")),
        (_("Fix"), fix),
        (_("Documentation"), request.build_absolute_uri(reverse("docs", args=["errors"]))),
    ]
    return "\n".join(f"{label}: {value}" for label, value in lines if value)


def _with_callback(seen: QuerySet[Application], sent: str) -> list[Application]:
    if not sent or MASK in sent:
        return []
    rows = seen.filter(redirect_uris__contains=sent)[: 10 * MOST_NEAR]
    return [row for row in rows if sent in row.callback_addresses][:MOST_NEAR]


def with_client_id(seen: QuerySet[Application], sent: str) -> list[Application]:
    """Up to MOST_NEAR applications in `seen` with a client ID that is similar to `sent`. The most similar is first."""
    if abs(len(sent) - CLIENT_ID_LENGTH) > TYPING_ERRORS or not sent.isprintable():  # or only a length was recorded
        return []
    client_ids, similarity = list(seen.values_list("client_id", flat=True)), 1 - TYPING_ERRORS / CLIENT_ID_LENGTH
    near = get_close_matches(sent, client_ids, MOST_NEAR, similarity)
    found = seen.in_bulk(near, field_name="client_id")
    return [found[client_id] for client_id in near]
