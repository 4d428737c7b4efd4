"""The page of an activity record: cause, advice, parameters, sent callback address and nearest registered one."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from accounts.models import User
from oauth_bridge.activity import attempts, statistics
from oauth_bridge.activity.attempts import ending_of
from oauth_bridge.activity.causes import name_of, title_of, words_of
from oauth_bridge.activity.statistics import Failing
from oauth_bridge.administration import application_acts, checks, person, record_facts, rights, shown, shown_attempts
from oauth_bridge.administration.shown import Names
from oauth_bridge.callback_addresses.difference import side_by_side
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord
from oauth_bridge.models.application import MISTYPED_CLIENT_ID

OF_THE_SECRET = ("secret_wrong", "secret_of_another", "secret_none_left", "secret_expired", "secret_revoked")
# For these causes, the act on the application or person that removes the cause.
ACTS = {
    "client_disabled": "switch-on",
    **dict.fromkeys(OF_THE_SECRET, "new-secret"),
    **dict.fromkeys(record_facts.OF_THE_ACCOUNT, "unlock"),
    **{cause: act for cause, (act, _column) in record_facts.OF_THE_PERSON.items()},
}


def record(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the page of an activity record. Raises exceptions as `application_acts.find_record` does."""
    entry, application = application_acts.find_record(request, pk)
    each = attempts.of(entry, rights.client_ids(request))
    names = Names(request, {entry.client_id, each.client_id}, {entry.person_id, each.person_id})
    is_mended = record_facts.is_mended(entry, application)
    is_refusal = each.chosen is not None
    fix = names.fix_of(entry) if is_refusal else ""
    since, failing = statistics.start_of(checks.MONTH), Failing(entry.client_id, entry.step, entry.cause)
    same = {"client_id": entry.client_id, "cause": entry.cause, "step": entry.step, "days": checks.MONTH}
    context = {
        **admin.site.each_context(request),
        **_difference(request, entry, application),
        "entry": entry,
        "acts": [] if is_mended else _acts(request, entry, application),
        "fix": fix,
        "words": words_of(entry.cause) if is_refusal else [],
        "hints": [] if is_mended else record_facts.hints(request, entry, application),
        "limit_ends_at": record_facts.limit_ends_at(entry),
        "for_developer": "" if is_mended else record_facts.for_developer(request, entry, fix),
        "title": title_of(entry.cause) if entry.cause else name_of(entry.step),
        "step": name_of(entry.step),
        "own_ending": shown_attempts.ENDINGS[ending_of(entry)] if is_refusal else None,
        "reference": shown.in_groups(entry.reference),
        "application": names.application(entry.client_id),
        "person": names.person(entry.person_id),
        "browser": shown.browser_of(entry),
        "attempt": shown_attempts.attempt(each, names),
        "activity_url": shown.page("activity", client_id=entry.client_id),
        "is_mended": is_mended,
        "same_people": statistics.people(since, failing),
        "same_number": statistics.failures(since, None, [entry.client_id])[failing],
        "same_url": shown.page("activity", **same),
        "received": [(name, _received(str(value))) for name, value in entry.detail.get("parameters", {}).items()],
    }
    return TemplateResponse(request, "administration/record.html", context)


def _received(value: str) -> str:
    """The words that show a parameter's recorded value. A recorded number is the length of a masked value."""
    if not value.isdigit() or re.fullmatch(MISTYPED_CLIENT_ID, value):
        return value
    number = int(value)
    return ngettext("masked, %(count)d character", "masked, %(count)d characters", number) % {"count": number}


def _acts(request: HttpRequest, entry: ActivityRecord, application: Application | None) -> list[dict[str, Any]]:
    """The permitted acts that would remove the cause of the record."""
    may_see = request.user.has_perm(rights.PEOPLE)
    of = User.objects.filter(pk=entry.person_id).first() if entry.person_id and may_see else None
    if entry.cause == "not_admitted" and application and of and person.may_change(request, of):
        return [{"label": _("Choose the person’s groups"), "url": shown.page("accounts_user_change", of.pk)}]
    acts = [
        *(application_acts.offered(request, application) if application else []),
        *(person.offered(request, of) if of else []),
    ]
    return [each for each in acts if each["name"] == ACTS.get(entry.cause)]


def _difference(request: HttpRequest, entry: ActivityRecord, application: Application | None) -> dict[str, Any]:
    sent, nearest = entry.detail.get("sent"), entry.detail.get("nearest")
    if not sent or entry.cause != "redirect_uri_mismatch":
        return {}
    problem = application_acts.why_not_added(sent)
    may_add = application and not problem and application_acts.may_add_address(request, application)
    return {
        "pieces": side_by_side(sent, nearest) if nearest else [(sent, "", True)],
        "nearest": nearest,
        "registered_count": len(application.callback_addresses) if application else 0,
        "is_unregistered": application is not None and not application.is_callback(sent),
        "why_not_added": problem,
        "warnings": application_acts.warnings_of(request, sent, application) if application and not problem else (),
        "add_url": shown.page("add_address", entry.id) if may_add else "",
    }
