"""The administration page of a person: sign-in attempts, applications, browsers, ways to sign in, and acts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import Q
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils import timezone, translation
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from accounts import audit_trail, throttling
from accounts.email_addresses import looked_up_email
from accounts.factors import authenticators as factors
from accounts.form_fields import EmailField
from accounts.mail import composing
from accounts.models import AuditEntry, Session, User
from accounts.pages import person_context
from accounts.sessions.credential_changes import end_credentials, set_active
from accounts.sign_in import sign_up, verification
from accounts.sign_in.password_pages import ResetRequestForm
from accounts.templatetags.times import moment
from oauth_bridge.activity import attempts
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import acts, record_facts, rights, shown, shown_attempts
from oauth_bridge.administration.acts import Act, Answers
from oauth_bridge.administration.checks import State
from oauth_bridge.administration.rights import ACTIVITY, PEOPLE
from oauth_bridge.administration.shown import Named, Names
from oauth_bridge.consent import consents

ATTEMPTS, MOST_BROWSERS = 6, 10


def person(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Show the page of a person. With `act` in the query, ask about the act or perform the act."""
    if not request.user.has_perm(PEOPLE):
        raise PermissionDenied
    found = User.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    if "act" in request.GET:
        return act(request, found, request.GET["act"])
    locked_until = record_facts.locked_until([pk]).get(pk)
    context = {
        **admin.site.each_context(request),
        "title": shown.name_of_person(found),
        "person": found,
        "shown": person_context(found),
        "state": state(found, locked_until),
        "invitation": invitations([found]).get(found.pk),
        "connections": [(shown.named(each.application), each) for each in consents.connections(found)],
        "browsers": [(shown.browser_of(row), row) for row in browsers(found)[:MOST_BROWSERS]],
        "browser_count": browsers(found).count(),
        "factors": factors.overview(found),
        "locked_until": locked_until,
        "has_password": found.has_usable_password(),
        "acts": [each for each in offered(request, found) if not (locked_until and each["name"] == "unlock")],
        "may_change": may_change(request, found),
        "may_delete": admin.site.get_model_admin(User).has_delete_permission(request, found),
        "groups": shown.groups(request, found.groups.order_by("name")),
        "owns": rights.applications(request, rights.VIEW).filter(pk__in=found.owned_applications.values("pk")),
    }
    if request.user.has_perm(ACTIVITY):
        latest = attempts.attempts(Filters(who=found.email), limit=ATTEMPTS)
        names = Names(request, (each.client_id for each in latest), [found.pk])
        listed = [shown_attempts.attempt(each, names) for each in latest]
        context |= {
            "attempts": listed,
            "opened": next((number for number, each in enumerate(listed, 1) if each["title"]), 0),  # the latest failure
            "activity_url": shown.page("activity", who=found.email, days=30),
            "may_see_activity": True,
        }
    return TemplateResponse(request, "administration/person.html", context)


def matching(typed: str) -> Q:
    """A filter for people. `typed` is a user ID, or words that must each be in the address or the nickname."""
    with suppress(ValueError):
        return Q(pk=UUID(typed))
    found, address = Q(), looked_up_email(typed)
    for word in [address] if address else typed.split():
        found &= Q(email__contains=word.lower()) | Q(nickname__icontains=word)  # addresses are stored in lower case
    return found


def state(found: User, locked_until: datetime | None) -> State:
    if not found.is_active:
        return State("", pgettext("person", "Off"))
    if ends_at := found.invitation_ends_at:
        return State("", _("Invited")) if ends_at > timezone.now() else State("warning", _("Invitation ended"))
    if locked_until:
        return State("warning", format_html("{} {}", _("Limited until"), moment(locked_until)))
    if found.email_verified_at is None:
        return State("warning", _("Not confirmed"))
    return State("good", pgettext("person", "Active"))


def invitations(people: Sequence[User]) -> dict[UUID, str]:
    """A sentence for each invited person, by user ID: who sent the last invitation, when, and until when it works."""
    ends_at = {str(each.pk): end for each in people if (end := each.invitation_ends_at)}
    sent = AuditEntry.objects.filter(kind="person", key__in=ends_at, action="account_invited").order_by("pk")
    entries = {entry.key: entry for entry in sent}  # the last one of each person
    text = _("Invited by {name} on {day}, until {end}")
    return {
        UUID(key): format_html(text, name=entry.actor_name, day=moment(entry.at), end=moment(ends_at[key]))
        for key, entry in entries.items()
    }


# The acts: the page offers each act that would change something ------------------------------------------------------


def browsers(found: User) -> Any:
    return Session.unexpired().filter(user=found).order_by("-created_at")


def may_change(request: HttpRequest, found: User) -> bool:
    return admin.site.get_model_admin(User).has_change_permission(request, found)


def _may(request: HttpRequest, found: User, each: Act[User]) -> bool:
    """Whether the user of the request may perform the act on `found`. Only superusers may act on administrators."""
    people: Any = admin.site.get_model_admin(User)
    return people.may_manage(request, found) and request.user.has_perm(each.permission or rights.CHANGE_PEOPLE)


def _acts_on(found: User) -> dict[str, Act[User]]:
    return INVITED_ACTS if found.invited_at and found.is_active else ACTS


def act(request: HttpRequest, found: User, name: str) -> HttpResponseBase:
    chosen, named = (ACTS | INVITED_ACTS).get(name), shown.name_of_person(found)
    if name == "end":
        for each in consents.connections(found):
            if each.application.client_id == request.GET.get("client_id"):
                chosen, named = _end_application(each), each.application.name
    if chosen is None:
        raise Http404
    if not _may(request, found, chosen):
        raise PermissionDenied
    if name in ACTS | INVITED_ACTS and name not in _acts_on(found):  # such as after the person accepted the invitation
        return redirect(shown.page("person", found.pk))
    section = Named(_("People"), shown.page("accounts_user_changelist"))
    # Afterwards, a person whose invitation is withdrawn has no page.
    of = Named(found.email, section.url if name == "withdraw" else shown.page("person", found.pk))
    return acts.confirm(request, chosen, found, name=named, of=of, section=section)


def offered(request: HttpRequest, found: User) -> list[dict[str, Any]]:
    permitted = {name: each for name, each in _acts_on(found).items() if _may(request, found, each)}
    return acts.offered(permitted, found, lambda name: shown.page("person", found.pk, act=name))


def _end_application(connection: consents.Connection) -> Act[User]:
    name = {"name": connection.application.name}

    def change(_request: HttpRequest, found: User, _answers: Answers) -> str:
        consents.disconnect(found, connection.application)
        changes = {"application": (connection.application.client_id, None)}
        audit_trail.write("access_ended", audit_trail.of_person(found), changes)
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


def _sessions_end(found: User) -> str:
    number = browsers(found).count()
    text = ngettext(
        "Signs out %(count)d browser, and ends the access of applications, at once. The password stays.",
        "Signs out %(count)d browsers, and ends the access of applications, at once. The password stays.",
        number,
    )
    return text % {"count": number}


class AddressForm(forms.Form):
    email = EmailField("off", gettext_lazy("New e-mail address"))


def _correct(_request: HttpRequest, found: User, answers: Answers) -> None:
    taken = ValidationError(_("Somebody already uses this address."))
    if answers["email"] == found.email:
        raise taken
    try:
        verification.correct(found, answers["email"])
    except IntegrityError:
        raise taken from None


def _withdraw(_request: HttpRequest, found: User, _answers: Answers) -> str:
    for waiting in User.objects.select_for_update().filter(pk=found.pk, email_verified_at=None):
        audit_trail.write("invitation_withdrawn", audit_trail.of_person(waiting))
        waiting.delete()
    return _("The invitation of %(email)s is withdrawn. Its link is dead.") % {"email": found.email}


INVITED_ACTS: dict[str, Act[User]] = {
    "invite": Act(
        label=gettext_lazy("Send the invitation again"),
        ends=gettext_lazy("Ends nothing. The new link works for seven days."),
        question=gettext_lazy("Send %(name)s the invitation again?"),
        permission=rights.INVITE_PEOPLE,
        change=lambda request, found, _answers: composing.invitation(request, found, sign_up.invite(found)),
    ),
    "withdraw": Act(
        label=gettext_lazy("Withdraw the invitation"),
        ends=gettext_lazy("Ends the link, at once, and deletes the account, which nobody has used."),
        question=gettext_lazy("Withdraw the invitation of %(name)s?"),
        permission=rights.INVITE_PEOPLE,
        change=_withdraw,
    ),
}
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
    "confirm": Act(
        label=gettext_lazy("Confirm the address"),
        ends=gettext_lazy("Without a code from a mail, if you know whose address it is. Ends nothing."),
        question=gettext_lazy("Confirm the address of %(name)s?"),
        fits=lambda person: person.email_verified_at is None,
        change=lambda _request, person, _answers: verification.mark_verified(person),
        done=gettext_lazy("The address is confirmed."),
    ),
    "correct-address": Act(
        label=gettext_lazy("Correct the e-mail address"),
        ends=gettext_lazy(
            "Ends every sign-in and the access of applications, at once. The person confirms the new address with a "
            "code at the next sign-in. The old address gets a mail."
        ),
        question=gettext_lazy("Correct the e-mail address of %(name)s?"),
        permission=rights.CORRECT_ADDRESSES,
        is_proven=True,
        form=AddressForm,
        change=_correct,
        done=gettext_lazy("The address is corrected. The person confirms it with a code at the next sign-in."),
    ),
    "unlock": Act(
        label=gettext_lazy("Unlock"),
        ends=gettext_lazy("Forgets wrong passwords and wrong codes that kept the person waiting. Ends nothing else."),
        question=gettext_lazy("Unlock the account of %(name)s?"),
        change=lambda _request, person, _answers: throttling.unlock(person),
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
        change=lambda _request, person, _answers: set_active(person, False),
        done=gettext_lazy("The account is switched off, and signed out everywhere."),
    ),
    "activate": Act(
        label=gettext_lazy("Switch on"),
        ends=gettext_lazy("Lets the person sign in again."),
        question=gettext_lazy("Switch on the account of %(name)s?"),
        fits=lambda person: not person.is_active,
        change=lambda _request, person, _answers: set_active(person, True),
        done=gettext_lazy("The account is switched on again."),
    ),
}
