"""The acts of administrators on an account. The person's page offers each act that would change something."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts import administrators, audit_trail
from accounts.administrators import LastAdministrator
from accounts.factors import authenticators as factors
from accounts.models import Session, User
from accounts.sessions.credential_changes import end_credentials, set_active
from accounts.sign_in import verification
from accounts.sign_in.password_pages import ResetRequestForm
from oauth_bridge.administration import shown
from oauth_bridge.applications.rights import PEOPLE
from oauth_bridge.models import Application
from oauth_bridge.storage import admission, consents


class Act(NamedTuple):
    """An act on an account, with a confirmation page. `question` contains the name of the person, or of `of`."""

    label: Any
    ends: Callable[[User], str]
    question: Any
    button: Any
    do: Callable[[HttpRequest, User], str]
    of: str = ""


class ActRefused(Exception):
    """The act changed nothing. The message is a sentence for the administrator."""


def _unlock(_request: HttpRequest, found: User) -> str:
    factors.unlock(found)
    return _("The account is unlocked: the person can try again at once.")


def browsers(found: User) -> Any:
    return (
        Session.objects.filter(user=found, expire_date__gt=timezone.now()).order_by("-created_at").defer("session_data")
    )


def may_change(request: HttpRequest, found: User) -> bool:
    return admin.site.get_model_admin(User).has_change_permission(request, found)


def offered(request: HttpRequest, found: User) -> list[dict[str, Any]]:
    if not may_change(request, found):
        return []
    return [
        {"name": name, "label": act.label, "ends": act.ends(found), "button": act.button}
        for name, act in ACTS.items()
        if _fits(name, found)
    ]


def offered_act(request: HttpRequest, pk: UUID, name: str) -> list[tuple[Any, str]]:
    """A list of the act's label and URL; empty if the act is not permitted or would change nothing."""
    found = User.objects.filter(pk=pk).first() if request.user.has_perm(PEOPLE) else None
    acts = offered(request, found) if found else []
    return [(each["label"], shown.page("person", pk, act=name)) for each in acts if each["name"] == name]


def offered_groups(request: HttpRequest, pk: UUID, application: Application) -> list[tuple[Any, str]]:
    """A list of the label and URL of the page of the person's groups; empty if not permitted or already admitted."""
    found = User.objects.filter(pk=pk).first() if request.user.has_perm(PEOPLE) else None
    if found is None or not may_change(request, found) or admission.is_admitted(found, application):
        return []
    return [(_("Choose the person’s groups"), shown.page("accounts_user_change", pk))]


def _fits(name: str, found: User) -> bool:
    """Return whether the act would change the account."""
    if name == "remove-factors":
        return bool(factors.described(found))
    if name == "confirm":
        return found.email_verified_at is None
    return name != ("activate" if found.is_active else "deactivate")


def end_access(person: User, connection: consents.Connection) -> None:
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
    number = browsers(found).count()
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
        end_access(found, each)
    text = ngettext(
        "The access of %(count)d application is ended.",
        "The access of %(count)d applications is ended.",
        len(connections),
    )
    return text % {"count": len(connections)}


def _sessions_end(found: User) -> str:
    number = browsers(found).count()
    text = ngettext(
        "Ends %(count)d browser, and the access of applications, at once. The password stays.",
        "Ends %(count)d browsers, and the access of applications, at once. The password stays.",
        number,
    )
    return text % {"count": number}


def _confirm(_request: HttpRequest, found: User) -> str:
    verification.mark_verified(found)
    return _("The address is confirmed.")


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
            return _("The account is switched on again.")
        return _("The account is switched off, and signed out everywhere.")

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
    "confirm": Act(
        gettext_lazy("Confirm the address"),
        lambda _person: _("Without a code from a mail, if you know whose address it is. Ends nothing."),
        gettext_lazy("Confirm the address of %(name)s?"),
        gettext_lazy("Confirm"),
        _confirm,
    ),
    "unlock": Act(
        gettext_lazy("Unlock"),
        lambda _person: _("Forgets wrong passwords and wrong codes that kept the person waiting. Ends nothing else."),
        gettext_lazy("Unlock the account of %(name)s?"),
        gettext_lazy("Unlock"),
        _unlock,
    ),
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
        gettext_lazy("Switch off"),
        lambda _person: _("Ends every sign-in and the access of applications, at once. Keeps the data."),
        gettext_lazy("Switch off the account of %(name)s?"),
        gettext_lazy("Switch off"),
        _set_active(False),
    ),
    "activate": Act(
        gettext_lazy("Switch on"),
        lambda _person: _("Lets the person sign in again."),
        gettext_lazy("Switch on the account of %(name)s?"),
        gettext_lazy("Switch on"),
        _set_active(True),
    ),
}
