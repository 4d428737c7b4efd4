"""The administration page of a person: sign-in attempts, applications, browsers, ways to sign in; the acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts import audit_trail
from accounts.factors import authenticators as factors
from accounts.models import Session, User
from accounts.pages import person_context
from accounts.sessions import user_agents
from accounts.sessions.credential_changes import end_credentials, set_active
from accounts.sign_in import verification
from accounts.sign_in.password_pages import ResetRequestForm
from oauth_bridge.activity import attempts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import acts, record_facts, rights, shown, shown_attempts
from oauth_bridge.administration.acts import Act, Answers
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE
from oauth_bridge.administration.shown import Named, Names
from oauth_bridge.consent import consents
from oauth_bridge.credentials import admission
from oauth_bridge.models import Application

ATTEMPTS, MOST_BROWSERS = 6, 10


def person(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Show the page of a person. With `act` in the query, GET asks for confirmation and POST performs the act.

    Raises PermissionDenied: the permission to see people or to change this person is missing. Raises Http404: the
    person or the act does not exist.
    """
    if not request.user.has_perm(PEOPLE):
        raise PermissionDenied
    found = User.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    if "act" in request.GET:
        return act(request, found, request.GET["act"])
    locked_until = record_facts.locked_until(found)
    context = {
        **admin.site.each_context(request),
        "title": found.display_name,
        "person": found,
        "shown": person_context(found),
        "connections": [_connection(each) for each in consents.connections(found)],
        "browsers": [_browser(row) for row in browsers(found)[:MOST_BROWSERS]],
        "browser_count": browsers(found).count(),
        "factors": factors.overview(found),
        "locked_until": locked_until,
        "has_password": found.has_usable_password(),
        "acts": [each for each in offered(request, found) if not (locked_until and each["name"] == "unlock")],
        "may_change": may_change(request, found),
        "may_delete": admin.site.get_model_admin(User).has_delete_permission(request, found),
        "groups": list(found.groups.values_list("name", flat=True)),
        "owns": rights.applications(request, rights.VIEW).filter(pk__in=found.owned_applications.values("pk")),
    }
    if request.user.has_perm(ACTIVITY):
        latest = attempts.attempts(Filters(who=found.email), limit=ATTEMPTS)
        names = Names(request, shown.client_ids_of(latest), [found.pk])
        context |= {
            "attempts": [shown_attempts.attempt(each, names) for each in latest],
            "activity_url": shown.page("activity", who=found.email, days=30),
            "may_see_activity": True,
        }
    return TemplateResponse(request, "administration/person.html", context)


def _connection(each: consents.Connection) -> dict[str, Any]:
    return {
        "application": shown.named(each.application),
        "client_id": each.application.client_id,
        "allowed_at": each.consent and each.consent.given_at,
        "remembered_until": each.consent and each.consent.expires_at,
        "last_at": each.sign_ins and each.sign_ins.last_at,
        "sign_ins": each.sign_ins.number if each.sign_ins else 0,
    }


def _browser(row: Session) -> dict[str, Any]:
    name = user_agents.shown(row.browser) if row.browser.strip("/") else _("Unknown browser")
    return {"name": name, "last_used": row.last_used_at or row.created_at, "since": row.created_at}


# The acts: the page offers each act that would change something ------------------------------------------------------


def browsers(found: User) -> Any:
    return (
        Session.objects.filter(user=found, expire_date__gt=timezone.now()).order_by("-created_at").defer("session_data")
    )


def may_change(request: HttpRequest, found: User) -> bool:
    return admin.site.get_model_admin(User).has_change_permission(request, found)


def act(request: HttpRequest, found: User, name: str) -> HttpResponseBase:
    """Ask for confirmation on GET, and perform the act on POST.

    Raises PermissionDenied: the administrator may not change this person. Raises Http404: the act does not exist.
    """
    if not may_change(request, found):
        raise PermissionDenied
    chosen, named = ACTS.get(name), found.display_name
    if name == "end":
        client_id = request.GET.get("client_id", "")
        for each in consents.connections(found):
            if each.application.client_id == client_id:
                chosen, named = _end_application(each), each.application.name
    if chosen is None:
        raise Http404
    of = Named(found.email, shown.page("person", found.pk))
    section = Named(_("People"), shown.page("accounts_user_changelist"))
    return acts.confirm(request, chosen, found, name=named, of=of, section=section)


def offered(request: HttpRequest, found: User) -> list[dict[str, Any]]:
    permitted = ACTS if may_change(request, found) else {}
    return acts.offered(permitted, found, lambda name: shown.page("person", found.pk, act=name))


def remedies_for(request: HttpRequest, pk: UUID, name: str, application: Application | None) -> list[tuple[Any, str]]:
    """A list of the label and URL of the act `name`, or of the page of the person's groups if `name` is empty.

    Empty if it is not permitted or would change nothing.
    """
    found = User.objects.filter(pk=pk).first() if request.user.has_perm(PEOPLE) else None
    if found is None or not may_change(request, found):
        return []
    if name:
        return [(each["label"], each["url"]) for each in offered(request, found) if each["name"] == name]
    if application is None or admission.is_admitted(found, application):
        return []
    return [(_("Choose the person’s groups"), shown.page("accounts_user_change", pk))]


def _end_application(connection: consents.Connection) -> Act[User]:
    name = {"name": connection.application.name}

    def change(_request: HttpRequest, found: User, _answers: Answers) -> str:
        _end_access(found, connection)
        return _("The access of %(name)s is ended.") % name

    return Act(
        label=name["name"],
        question=_("End the access of %(name)s?"),
        button=_("End the access"),
        ends=lambda _person: (
            _("Ends the consent and the access of %(name)s, at once. It is asked again next time.") % name
        ),
        change=change,
    )


def _end_access(person: User, connection: consents.Connection) -> None:
    consents.disconnect(person, connection.application)
    changes = {"application": (connection.application.client_id, None)}
    audit_trail.write("access_ended", audit_trail.of_person(person), changes)


def _send_reset(request: HttpRequest, found: User, _answers: Answers) -> str:
    with translation.override(found.language or translation.get_language()):
        form = ResetRequestForm({"email": found.email})
        if form.is_valid():
            form.save(request)
    audit_trail.write("reset_sent", audit_trail.of_person(found))
    return _("A mail with a link to set a password goes to %(email)s.") % {"email": found.email}


def _sign_out(_request: HttpRequest, found: User, _answers: Answers) -> str:
    number = browsers(found).count()
    end_credentials(found)
    audit_trail.write("signed_out", audit_trail.of_person(found))
    text = ngettext(
        "Signed out of %(count)d browser; the access of applications is ended.",
        "Signed out of %(count)d browsers; the access of applications is ended.",
        number,
    )
    return text % {"count": number}


def _end_all(_request: HttpRequest, found: User, _answers: Answers) -> str:
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
    number = browsers(found).count()
    text = ngettext(
        "Signs out %(count)d browser, and ends the access of applications, at once. The password stays.",
        "Signs out %(count)d browsers, and ends the access of applications, at once. The password stays.",
        number,
    )
    return text % {"count": number}


def _set_active(is_active: bool) -> Callable[[HttpRequest, User, Answers], None]:
    return lambda _request, found, _answers: set_active(found, is_active)


ACTS: dict[str, Act[User]] = {
    "reset": Act(
        label=gettext_lazy("Send a reset"),
        ends=gettext_lazy("Ends nothing until the link is used. It works for one hour."),
        question=gettext_lazy("Send %(name)s a link to set a password?"),
        change=_send_reset,
    ),
    "sign-out": Act(
        label=gettext_lazy("Sign out everywhere"),
        ends=_sessions_end,
        question=gettext_lazy("Sign %(name)s out everywhere?"),
        change=_sign_out,
    ),
    "end-all": Act(
        label=gettext_lazy("End all consents"),
        ends=gettext_lazy("Ends the access of every application, at once. Each asks again. Browsers stay signed in."),
        question=gettext_lazy("End all consents of %(name)s?"),
        change=_end_all,
    ),
    "confirm": Act(
        label=gettext_lazy("Confirm the address"),
        ends=gettext_lazy("Without a code from a mail, if you know whose address it is. Ends nothing."),
        question=gettext_lazy("Confirm the address of %(name)s?"),
        fits=lambda person: person.email_verified_at is None,
        change=lambda _request, person, _answers: verification.mark_verified(person),
        done=gettext_lazy("The address is confirmed."),
    ),
    "unlock": Act(
        label=gettext_lazy("Unlock"),
        ends=gettext_lazy("Forgets wrong passwords and wrong codes that kept the person waiting. Ends nothing else."),
        question=gettext_lazy("Unlock the account of %(name)s?"),
        change=lambda _request, person, _answers: factors.unlock(person),
        done=gettext_lazy("The account is unlocked: the person can try again at once."),
    ),
    "remove-factors": Act(
        label=gettext_lazy("Remove the second factors"),
        ends=gettext_lazy(
            "For somebody who lost them all: ends passkeys, authenticator app, recovery codes, and every sign-in."
        ),
        question=gettext_lazy("Remove the second factors of %(name)s?"),
        fits=lambda person: bool(factors.described(person)),
        is_proven=True,
        change=lambda _request, person, _answers: factors.remove_all(person),
        done=gettext_lazy("The second factors and passkeys are removed. The password alone is enough now."),
    ),
    "deactivate": Act(
        label=gettext_lazy("Switch off"),
        ends=gettext_lazy("Ends every sign-in and the access of applications, at once. Keeps the data."),
        question=gettext_lazy("Switch off the account of %(name)s?"),
        fits=lambda person: person.is_active,
        change=_set_active(False),
        done=gettext_lazy("The account is switched off, and signed out everywhere."),
    ),
    "activate": Act(
        label=gettext_lazy("Switch on"),
        ends=gettext_lazy("Lets the person sign in again."),
        question=gettext_lazy("Switch on the account of %(name)s?"),
        fits=lambda person: not person.is_active,
        change=_set_active(True),
        done=gettext_lazy("The account is switched on again."),
    ),
}
