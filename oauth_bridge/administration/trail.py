"""The page of the audit trail: how administrators and operators changed applications, people, groups and keys."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import Group, Permission
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from accounts import audit_trail
from accounts.audit_trail import COMMAND_LINE
from accounts.models import AuditEntry, User
from oauth_bridge.administration import checks, shown
from oauth_bridge.administration.rights import PEOPLE, VIEW
from oauth_bridge.administration.shown import Named
from oauth_bridge.models import Application

TRAIL = "accounts.view_auditentry"
# For these kinds of objects, the permission to see the entries of one object.
OF_ONE = {"application": VIEW, "person": PEOPLE, "group": "auth.view_group"}
ENTRIES, MOST_PEOPLE = 50, 100

ACTIONS = {
    "application_registered": gettext_lazy("Registered the application"),
    "application_changed": gettext_lazy("Changed the application"),
    "application_switched_on": gettext_lazy("Switched the application on"),
    "application_switched_off": gettext_lazy("Switched the application off"),
    "all_access_ended": gettext_lazy("Ended the access of everybody"),
    "application_deleted": gettext_lazy("Deleted the application"),
    "secret_made": gettext_lazy("Made a client secret"),
    "secret_ended": gettext_lazy("Ended a client secret"),
    "secret_leaked": gettext_lazy("Ended a client secret that had leaked, and all access"),
    "account_created": gettext_lazy("Created the account"),
    "account_invited": gettext_lazy("Sent an invitation"),
    "invitation_withdrawn": gettext_lazy("Withdrew the invitation"),
    "account_changed": gettext_lazy("Changed the account"),
    "account_activated": gettext_lazy("Switched the account on"),
    "account_deactivated": gettext_lazy("Switched the account off"),
    "account_deleted": gettext_lazy("Deleted the account"),
    "account_unlocked": gettext_lazy("Unlocked the account"),
    "address_confirmed": gettext_lazy("Counted the address as confirmed"),
    "address_corrected": gettext_lazy("Corrected the e-mail address"),
    "password_set": gettext_lazy("Set the password"),
    "factors_removed": gettext_lazy("Removed the second factors"),
    "reset_sent": gettext_lazy("Sent a link to set a password"),
    "signed_out": gettext_lazy("Signed the person out everywhere"),
    "access_ended": gettext_lazy("Ended the access of an application"),
    "group_created": gettext_lazy("Created the group"),
    "group_changed": gettext_lazy("Changed the group"),
    "group_deleted": gettext_lazy("Deleted the group"),
    "signing_key_made": gettext_lazy("Made a signing key"),
    "signing_key_revoked": gettext_lazy("Revoked a signing key"),
}
FIELDS = {
    **{each.name: capfirst(each.verbose_name) for each in Application._meta.fields + Application._meta.many_to_many},
    "people": gettext_lazy("People who had allowed it"),
    "number": pgettext_lazy("of a secret", "Number"),
    "older_secrets_end": gettext_lazy("The older secrets end"),
    "nickname": gettext_lazy("Nickname"),
    "is_staff": gettext_lazy("Administrator"),
    "is_superuser": gettext_lazy("With every right"),
    "permissions": gettext_lazy("Permissions"),
    "application": gettext_lazy("Application"),
    "members": gettext_lazy("Members"),
}
OF_PEOPLE = ("owners", "members")  # the fields with the `sub` of people

# Stored values that are words.
VALUES = {"now": gettext_lazy("at once"), **checks.KINDS}


def trail(request: HttpRequest) -> HttpResponse:
    """Show the audit trail, latest entry first. `kind` and `key` in the query select the entries of one object."""
    kind, key, typed = (request.GET.get(name, "").strip() for name in ("kind", "key", "q"))
    chosen = {"kind": kind, "key": key} if kind in OF_ONE and key else {}
    may_see_all = request.user.has_perm(TRAIL)
    if not may_see_all and not (chosen and request.user.has_perm(OF_ONE[kind])):
        raise PermissionDenied
    before = request.GET.get("before", "")
    before_id = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
    entries = audit_trail.entries(**chosen, before_id=before_id, limit=ENTRIES + 1, where=_matching(request, typed))
    rows = _rows(request, entries[:ENTRIES])
    more = len(entries) > ENTRIES
    name = rows[0]["subject"].name if rows else key  # of an object that was deleted or may not be seen
    context = {
        **admin.site.each_context(request),
        "title": _("Audit trail"),
        "rows": rows,
        "subject": _subjects(request, [(kind, key)]).get((kind, key), Named(name, "")) if chosen else None,
        "older_url": shown.page("trail", **chosen, q=typed, before=entries[ENTRIES - 1].pk) if more else "",
        "newest_url": shown.page("trail", **chosen, q=typed) if before_id else "",
        "chosen": chosen.items(),
        "typed": typed,
        "all_url": shown.page("trail") if chosen and may_see_all else "",
    }
    return TemplateResponse(request, "administration/trail.html", context)


def _matching(request: HttpRequest, typed: str) -> Q:
    """A filter for entries with the typed text. Names and addresses of people are searched only if they may be seen."""
    if not typed:
        return Q()
    actions = [action for action, title in ACTIONS.items() if typed.casefold() in str(title).casefold()]
    found = Q(action__in=actions) | Q(name__icontains=typed) | Q(key=typed)
    if _sees_actors(request):
        found |= Q(actor_name__icontains=typed)
    if request.user.has_perm(PEOPLE):
        people = User.objects.filter(Q(nickname__icontains=typed) | Q(email__icontains=typed))[:MOST_PEOPLE]
        found |= Q(kind="person", key__in=[str(person.pk) for person in people])
    return found


def _sees_actors(request: HttpRequest) -> bool:
    return request.user.has_perm(TRAIL) or request.user.has_perm(PEOPLE)


def _rows(request: HttpRequest, entries: list[AuditEntry]) -> list[dict[str, Any]]:
    actors = [("person", str(each.actor)) for each in entries if each.actor]
    changed = [subs for each in entries for name in OF_PEOPLE for subs in each.changes.get(name, ())]
    people = [("person", sub) for subs in changed for sub in subs or ()]
    sees_actors = _sees_actors(request)
    named = _subjects(request, [*((each.kind, each.key) for each in entries), *actors, *people])
    return [
        {
            "entry": each,
            "action": ACTIONS.get(each.action, each.action),
            "actor": named.get(("person", str(each.actor)), shown.NOBODY)._replace(name=_actor(each, sees_actors)),
            "subject": named.get((each.kind, each.key), Named(each.name or each.key, "")),
            "changes": [
                (FIELDS.get(name, name), *map(_words, _with_names(name, pair, named)))
                for name, pair in each.changes.items()
            ],
        }
        for each in entries
    ]


def _actor(entry: AuditEntry, sees_actors: bool) -> str:
    if entry.actor is None:  # a command, whose words are in the active language
        return entry.actor_name.replace(COMMAND_LINE, _("command line"))
    return entry.actor_name if sees_actors else _("a person")


def _with_names(name: str, pair: list[Any], named: dict[tuple[str, str], Named]) -> list[Any]:
    """Return `pair` (old and new value) with the names of permissions and people instead of codenames and user IDs."""
    if name == "permissions":
        names = dict(Permission.objects.values_list("codename", "name"))
        return [[_(names.get(code, code)) for code in codes or ()] for codes in pair]
    if name not in OF_PEOPLE:
        return pair
    return [[named.get(("person", sub), Named(sub, "")).name for sub in subs or ()] for subs in pair]


def _subjects(request: HttpRequest, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Named]:
    """The present name and link of objects, by kind and key. Objects that are gone or may not be seen are left out."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for kind, key in wanted:
        if kind in OF_ONE and request.user.has_perm(OF_ONE[kind]):
            keys[kind].add(key)
    numbers = [int(key) for key in keys["group"] if key.isascii() and key.isdigit() and len(key) < 10]
    applications = Application.objects.filter(client_id__in=keys["application"])
    people = User.objects.filter(pk__in=filter(_is_uuid, keys["person"]))
    return {
        **{("application", row.client_id): shown.named(row) for row in applications},
        **{("person", str(row.pk)): Named(shown.name_of_person(row), shown.page("person", row.pk)) for row in people},
        **{
            ("group", str(row.pk)): Named(row.name, shown.page("group", row.pk))
            for row in Group.objects.filter(pk__in=numbers)
        },
    }


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return value
    if isinstance(value, bool):
        return [_("yes") if value else _("no")]
    return [] if value in (None, "") else [str(VALUES.get(value, value))]
