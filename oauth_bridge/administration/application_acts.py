"""The acts of administrators on an application: switch, trust, set owners, end access. A page confirms each act."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from accounts.sign_in.reauthentication import proof_first
from config.infrastructure.validators import refuse_control_characters
from oauth_bridge.administration import shown
from oauth_bridge.administration.shown import Named
from oauth_bridge.applications import rights, summaries
from oauth_bridge.models import REASON_MAX_LENGTH, Application, Consent
from oauth_bridge.storage import applications

Answers = dict[str, Any]


class ReasonForm(forms.Form):
    reason = forms.CharField(
        label=gettext_lazy("Reason"),
        max_length=REASON_MAX_LENGTH,
        required=False,
        validators=[refuse_control_characters],
        help_text=gettext_lazy("Administrators read it on its page, in its activity and in the audit trail."),
    )


class OwnersChoice(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: User) -> str:
        return f"{obj.display_name} ({obj.email})"


class OwnersForm(forms.Form):
    owners = OwnersChoice(
        label=gettext_lazy("Owners"),
        queryset=get_user_model().objects.none(),
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=gettext_lazy("All who may open the administration."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        staff = get_user_model().objects.filter(is_staff=True, is_active=True)
        self.fields["owners"].queryset = staff.order_by("nickname", "email")  # type: ignore[attr-defined]


class Act(NamedTuple):
    """An act. `brief` is the text in the list of acts, `ends` the text on the confirmation page.

    `fits`: the act would change something. `do` performs the act and returns a sentence about the result. `is_proven`:
    the act needs a fresh proof (`proof_first`). `initial` returns the initial values of the form.
    """

    label: Any
    brief: Any
    question: Any
    button: Any
    permission: str
    fits: Callable[[Application], bool]
    ends: Callable[[Application], str]
    do: Callable[[HttpRequest, Application, Answers], str]
    is_proven: bool = False
    form: type[forms.Form] = forms.Form
    initial: Callable[[Application], Answers] = lambda _application: {}


def act(request: HttpRequest, pk: int, name: str) -> HttpResponseBase:
    """Ask for confirmation on GET, and perform the act on POST.

    Raises PermissionDenied: the permission is missing. Raises Http404: the application or the act does not exist.
    """
    chosen = ACTS.get(name)
    if chosen is None:
        raise Http404
    found = find_application(request, pk, chosen.permission)
    if not _may(request, chosen):
        raise PermissionDenied
    if chosen.is_proven and (question := proof_first(request)):
        return question
    page = shown.page("application", found.pk)
    if not chosen.fits(found):  # another administrator has performed the act meanwhile
        return redirect(page)
    form = chosen.form(request.POST if request.method == "POST" else None, initial=chosen.initial(found))
    if request.method == "POST" and form.is_valid():
        try:
            messages.success(request, chosen.do(request, found, form.cleaned_data))
        except ValidationError as problem:
            messages.error(request, problem.messages[0])
        return redirect(page)
    context = {
        **admin.site.each_context(request),
        "title": chosen.question % {"name": found.name},
        "section": Named(_("Applications"), shown.page("oauth_bridge_application_changelist")),
        "of": shown.named(found),
        "ends": chosen.ends(found),
        "label": chosen.label,
        "button": chosen.button,
        "form": form,
    }
    return TemplateResponse(request, "administration/act.html", context)


def find_application(request: HttpRequest, pk: int, permission: str = rights.VIEW) -> Application:
    """The application, for an administrator who has `permission` and the permission to view it.

    Raises PermissionDenied: one of the two permissions is missing for all applications. Raises Http404: the application
    does not exist, or one of the two permissions is missing for this application.
    """
    if not rights.may(request, rights.VIEW) or not rights.may(request, permission):
        raise PermissionDenied
    with_permission = rights.applications(request, permission).values("pk")
    return get_object_or_404(rights.applications(request, rights.VIEW).filter(pk__in=with_permission), pk=pk)


def offered(request: HttpRequest, found: Application) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "label": each.label,
            "brief": each.brief,
            "url": shown.page("application_act", found.pk, name),
        }
        for name, each in ACTS.items()
        if _may(request, each) and each.fits(found)
    ]


def _may(request: HttpRequest, each: Act) -> bool:
    return rights.may_name_owners(request) if each.form is OwnersForm else request.user.has_perm(each.permission)


def _people(found: Application) -> int:
    return Consent.objects.filter(application=found).count()


def _counted(found: Application) -> str:
    people, month = _people(found), summaries.month(found)
    return " ".join(
        [
            ngettext("%(count)d person has allowed it.", "%(count)d people have allowed it.", people)
            % {"count": people},
            ngettext("It had %(count)d sign-in in 30 days.", "It had %(count)d sign-ins in 30 days.", month)
            % {"count": month},
        ]
    )


def _switch_off_ends(found: Application) -> str:
    ends = _("Ends its codes and access tokens at once, and nobody can sign in to it.")
    return f"{ends} {_counted(found)}"


def _switch_off(_request: HttpRequest, found: Application, answers: Answers) -> str:
    applications.set_enabled(found, False, reason=answers["reason"])
    return _("%(name)s is switched off. Its codes and access tokens have ended.") % {"name": found.name}


def _switch_on(_request: HttpRequest, found: Application, _answers: Answers) -> str:
    applications.set_enabled(found, True)
    return _("%(name)s is switched on.") % {"name": found.name}


def _end_access_ends(found: Application) -> str:
    text = _("Ends its codes, access tokens and consents, of everybody, at once. It stays switched on, and asks again.")
    return f"{text} {_counted(found)}"


def _end_access(_request: HttpRequest, found: Application, _answers: Answers) -> str:
    people = applications.end_access(found)
    ended = ngettext(
        "The access of everybody is ended, with the consent of %(count)d person.",
        "The access of everybody is ended, with the consents of %(count)d people.",
        people,
    )
    now = _people(found)
    left = ngettext("%(count)d person has allowed it now.", "%(count)d people have allowed it now.", now)
    return f"{ended % {'count': people}} {left % {'count': now}}"


def _trust(is_trusted: bool) -> Callable[[HttpRequest, Application, Answers], str]:
    def do(request: HttpRequest, found: Application, _answers: Answers) -> str:
        applications.set_trusted(found, is_trusted, rights.applications(request, rights.VIEW))
        if is_trusted:
            return _("%(name)s is trusted: nobody is asked.") % {"name": found.name}
        return _("%(name)s is not trusted any more: everybody is asked.") % {"name": found.name}

    return do


def _set_owners(_request: HttpRequest, found: Application, answers: Answers) -> str:
    applications.set_owners(found, list(answers["owners"]))
    return _("The owners of %(name)s are saved.") % {"name": found.name}


ACTS = {
    "switch-off": Act(
        gettext_lazy("Switch off"),
        gettext_lazy("Nobody can sign in to it then."),
        gettext_lazy("Switch %(name)s off?"),
        gettext_lazy("Switch off"),
        rights.SWITCH,
        lambda found: found.is_enabled,
        _switch_off_ends,
        _switch_off,
        form=ReasonForm,
    ),
    "switch-on": Act(
        gettext_lazy("Switch on"),
        gettext_lazy("People can sign in to it again then."),
        gettext_lazy("Switch %(name)s on?"),
        gettext_lazy("Switch on"),
        rights.SWITCH,
        lambda found: not found.is_enabled,
        lambda _found: _("People can sign in to it again. Earlier codes and access tokens stay ended."),
        _switch_on,
    ),
    "end-access": Act(
        gettext_lazy("End all access"),
        gettext_lazy("It stays switched on, and asks everybody again."),
        gettext_lazy("End the access of everybody to %(name)s?"),
        gettext_lazy("End all access"),
        rights.SWITCH,
        lambda found: found.is_enabled,
        _end_access_ends,
        _end_access,
    ),
    "trust": Act(
        gettext_lazy("Trust it"),
        gettext_lazy("Nobody is asked before a sign-in then."),
        gettext_lazy("Trust %(name)s?"),
        gettext_lazy("Trust it"),
        rights.TRUST,
        lambda found: not found.is_trusted,
        lambda _found: _(
            "People are signed in to it without being asked. For your own only. "
            "The addresses of a trusted application are changed by those who may set this."
        ),
        _trust(True),
        is_proven=True,
    ),
    "distrust": Act(
        gettext_lazy("Trust it no more"),
        gettext_lazy("Everybody is asked before a sign-in then."),
        gettext_lazy("Trust %(name)s no more?"),
        gettext_lazy("Trust it no more"),
        rights.TRUST,
        lambda found: found.is_trusted,
        lambda _found: _("Everybody is asked before they are signed in to it."),
        _trust(False),
        is_proven=True,
    ),
    "owners": Act(
        gettext_lazy("Owners"),
        gettext_lazy("They look after it without any other right."),
        gettext_lazy("Who looks after %(name)s?"),
        gettext_lazy("Save the owners"),
        rights.CHANGE,
        lambda _found: True,
        lambda _found: _(
            "Owners see its page, its activity and its secrets, and change its names and addresses. "
            "They need no other right, and are told before a secret ends."
        ),
        _set_owners,
        is_proven=True,
        form=OwnersForm,
        initial=lambda found: {"owners": list(found.owners.values_list("pk", flat=True))},
    ),
}
