"""The page of a person: attempts to sign in, applications, browsers, ways to sign in, and what can be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts import administrators, audit_trail
from accounts.account_page import person_context
from accounts.administrators import LastAdministrator
from accounts.factors import authenticators as factors
from accounts.models import Session, User
from accounts.sessions import user_agents
from accounts.sessions.credential_changes import end_credentials, set_active
from accounts.sign_in.forms import ResetRequestForm
from accounts.sign_in.reauthentication import proof_first
from oauth_bridge.administration import shown
from oauth_bridge.administration.person_acts import UNLOCK, Act, ActRefused
from oauth_bridge.administration.shown import Names
from oauth_bridge.applications.rights import ACTIVITY, PEOPLE
from oauth_bridge.shown_times import time_since
from oauth_bridge.storage import attempts, consents
from oauth_bridge.storage.activity_reading import Filters

ATTEMPTS, MOST_BROWSERS = 6, 10


def person(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """The page. With `act` in the query, the question before that act; a post does it.

    Raises PermissionDenied: without the permission. Raises Http404: the person, or the act, does not exist.
    """
    if not request.user.has_perm(PEOPLE):
        raise PermissionDenied
    found = User.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    if "act" in request.GET:
        return _act(request, found, request.GET["act"])
    context = {
        **admin.site.each_context(request),
        "title": found.display_name,
        "person": found,
        "shown": person_context(found),
        "badge": "good" if found.is_active else "",
        "connections": [_connection(each) for each in consents.connections(found)],
        "browsers": [_browser(row) for row in _browsers(found)[:MOST_BROWSERS]],
        "browser_count": _browsers(found).count(),
        "factors": factors.overview(found),
        "has_password": found.has_usable_password(),
        "acts": _offered(request, found),
        "may_change": _may_change(request, found),
        "may_delete": admin.site.get_model_admin(User).has_delete_permission(request, found),
        "groups": list(found.groups.values_list("name", flat=True)),
    }
    if request.user.has_perm(ACTIVITY):
        latest = attempts.attempts(Filters(person_id=found.pk), limit=ATTEMPTS)
        names = Names(request, shown.client_ids_of(latest), [found.pk])
        context |= {
            "attempts": [shown.attempt(each, names) for each in latest],
            "activity_url": shown.page("activity", who=found.email, days=30),
            "may_see_activity": True,
        }
    return TemplateResponse(request, "administration/person.html", context)


def _may_change(request: HttpRequest, found: User) -> bool:
    return admin.site.get_model_admin(User).has_change_permission(request, found)


def _connection(each: consents.Connection) -> dict[str, Any]:
    return {
        "application": shown.named(each.application),
        "client_id": each.application.client_id,
        "allowed_at": each.consent and each.consent.given_at,
        "remembered_until": each.consent and each.consent.expires_at,
        "last_at": each.sign_ins and each.sign_ins.last_at,
        "sign_ins": each.sign_ins.number if each.sign_ins else 0,
    }


def _browsers(found: User) -> Any:
    return (
        Session.objects.filter(user=found, expire_date__gt=timezone.now()).order_by("-created_at").defer("session_data")
    )


def _browser(row: Session) -> dict[str, Any]:
    name = user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser")
    return {"name": name, "ago": time_since(row.last_used_at or row.created_at), "since": row.created_at}


def _offered(request: HttpRequest, found: User) -> list[dict[str, Any]]:
    if not _may_change(request, found):
        return []
    return [
        {"name": name, "label": act.label, "ends": act.ends(found), "button": act.button}
        for name, act in ACTS.items()
        if _fits(name, found)
    ]


def _fits(name: str, found: User) -> bool:
    """Whether the act would change something."""
    if name == "remove-factors":
        return factors.has_any(found)
    return name != ("activate" if found.is_active else "deactivate")


def _act(request: HttpRequest, found: User, name: str) -> HttpResponseBase:
    if not _may_change(request, found):
        raise PermissionDenied
    if name == "end":
        act = _end_application(found, request.GET.get("client_id", ""))
    elif name in ACTS:
        act = ACTS[name]
    else:
        raise Http404
    if name == "remove-factors" and (question := proof_first(request)):
        return question
    page = shown.page("person", found.pk)
    if request.method == "POST":
        try:
            with transaction.atomic():
                done = act.do(request, found)
            messages.success(request, done)
        except ActRefused as refused:
            messages.error(request, str(refused))
        return redirect(page)
    context = {
        **admin.site.each_context(request),
        "title": act.question % {"name": found.display_name} if "%" in str(act.question) else act.question,
        "person": found,
        "ends": act.ends(found),
        "button": act.button,
        "page": page,
    }
    return TemplateResponse(request, "administration/person_act.html", context)


def _end_application(found: User, client_id: str) -> Act:
    connection = next((each for each in consents.connections(found) if each.application.client_id == client_id), None)
    if connection is None:
        raise Http404
    application = connection.application
    return Act(
        label=application.name,
        ends=lambda _person: (
            _("Ends the consent and the access of %(name)s, at once. It is asked again next time.")
            % {"name": application.name}
        ),
        question=_("End the access of %(name)s?") % {"name": application.name},
        button=_("End the access"),
        do=lambda _request, person: _disconnected(person, connection),
    )


def _disconnected(person: User, connection: consents.Connection) -> str:
    _end_access(person, connection)
    return _("The access of %(name)s is ended.") % {"name": connection.application.name}


def _end_access(person: User, connection: consents.Connection) -> None:
    consents.disconnect(person, connection.application)
    changes = {"application": (connection.application.client_id, None)}
    audit_trail.write("access_ended", audit_trail.of_person(person), changes)


def _send_reset(request: HttpRequest, found: User) -> str:
    with translation.override(found.language or translation.get_language()):
        form = ResetRequestForm({"email": found.email})
        if form.is_valid():
            form.save(request)
    audit_trail.write("reset_sent", audit_trail.of_person(found))
    return _("A mail with a link to set a password goes to %(email)s.") % {"email": found.email}


def _sign_out(_request: HttpRequest, found: User) -> str:
    number = _browsers(found).count()
    end_credentials(found)
    audit_trail.write("signed_out", audit_trail.of_person(found))
    text = ngettext(
        "Signed out of %(count)d browser; the access of applications is ended.",
        "Signed out of %(count)d browsers; the access of applications is ended.",
        number,
    )
    return text % {"count": number}


def _end_all(_request: HttpRequest, found: User) -> str:
    connections = [each for each in consents.connections(found) if each.consent]
    for each in connections:
        _end_access(found, each)
    text = ngettext(
        "The access of %(count)d application is ended.",
        "The access of %(count)d applications is ended.",
        len(connections),
    )
    return text % {"count": len(connections)}


def _sessions_end(found: User) -> str:
    number = _browsers(found).count()
    text = ngettext(
        "Ends %(count)d browser, and the access of applications, at once. The password stays.",
        "Ends %(count)d browsers, and the access of applications, at once. The password stays.",
        number,
    )
    return text % {"count": number}


def _remove_factors(_request: HttpRequest, found: User) -> str:
    factors.remove_all(found)
    return _("The second factors and passkeys are removed. The password alone is enough now.")


def _set_active(is_active: bool) -> Callable[[HttpRequest, User], str]:
    def do(_request: HttpRequest, found: User) -> str:
        try:
            set_active(found, is_active)
        except LastAdministrator:
            raise ActRefused(administrators.ADVICE) from None
        if is_active:
            return _("The account is active again.")
        return _("The account is deactivated, and signed out everywhere.")

    return do


ACTS = {
    "reset": Act(
        gettext_lazy("Send a reset"),
        lambda _person: _("Ends nothing until the link is used. It works for one hour."),
        gettext_lazy("Send %(name)s a link to set a password?"),
        gettext_lazy("Send the mail"),
        _send_reset,
    ),
    "sign-out": Act(
        gettext_lazy("Sign out everywhere"),
        _sessions_end,
        gettext_lazy("Sign %(name)s out everywhere?"),
        gettext_lazy("Sign out"),
        _sign_out,
    ),
    "end-all": Act(
        gettext_lazy("End all consents"),
        lambda _person: _("Ends the access of every application, at once. Each asks again. Browsers stay signed in."),
        gettext_lazy("End all consents of %(name)s?"),
        gettext_lazy("End all"),
        _end_all,
    ),
    "unlock": UNLOCK,
    "remove-factors": Act(
        gettext_lazy("Remove the second factors"),
        lambda _person: _(
            "For somebody who lost them all: ends passkeys, authenticator app, recovery codes, and every sign-in."
        ),
        gettext_lazy("Remove the second factors of %(name)s?"),
        gettext_lazy("Remove them"),
        _remove_factors,
    ),
    "deactivate": Act(
        gettext_lazy("Deactivate"),
        lambda _person: _("Ends every sign-in and the access of applications, at once. Keeps the data."),
        gettext_lazy("Deactivate the account of %(name)s?"),
        gettext_lazy("Deactivate"),
        _set_active(False),
    ),
    "activate": Act(
        gettext_lazy("Activate"),
        lambda _person: _("Lets the person sign in again."),
        gettext_lazy("Activate the account of %(name)s?"),
        gettext_lazy("Activate"),
        _set_active(True),
    ),
}
