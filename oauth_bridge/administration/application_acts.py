"""The acts of administrators on an application, its callback addresses and its secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts.models import User
from config.infrastructure.texts import refuse_control_characters
from oauth_bridge.activity import reading
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration import acts, checks, rights, secret_page, shown
from oauth_bridge.administration.acts import Act, Answers
from oauth_bridge.administration.secret_page import RotationForm
from oauth_bridge.administration.shown import Named
from oauth_bridge.applications import registry
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.callback_addresses.registration import registration_problem, shown_host
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.models.activity import ActivityRecord
from oauth_bridge.models.application import REASON_MAX_LENGTH


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
        queryset=User.objects.filter(is_staff=True, is_active=True).order_by("nickname", "email"),
        widget=forms.CheckboxSelectMultiple,
        required=False,
        help_text=gettext_lazy("All who may open the administration."),
    )


def act(request: HttpRequest, pk: int, name: str, number: int = 0) -> HttpResponseBase:
    """Ask about the act `name`, or perform it. ACTS are for the application, SECRET_ACTS for its secret `number`."""
    acts_on: dict[str, Act[Any]] = SECRET_ACTS if number else ACTS
    chosen = acts_on.get(name)
    if chosen is None:
        raise Http404
    found = rights.find_application(request, pk, chosen.permission)
    if not _may(request, chosen, found):
        raise PermissionDenied
    subject = get_object_or_404(found.secrets.select_related("application"), number=number) if number else found
    named = str(number) if number else found.name
    section = Named(_("Applications"), shown.page("oauth_bridge_application_changelist"))
    return acts.confirm(request, chosen, subject, name=named, of=shown.named(found), section=section)


def find_record(request: HttpRequest, pk: int) -> tuple[ActivityRecord, Application | None]:
    """Return a record, and its application if any. Raises PermissionDenied or Http404: the record may not be seen."""
    if not rights.may(request, rights.ACTIVITY):
        raise PermissionDenied
    entry = get_object_or_404(reading.records(Filters(client_ids=rights.client_ids(request))), pk=pk)
    return entry, Application.objects.filter(client_id=entry.client_id).first() if entry.client_id else None


def offered(request: HttpRequest, found: Application) -> list[dict[str, Any]]:
    permitted = {name: each for name, each in ACTS.items() if _may(request, each, found)}
    return acts.offered(permitted, found, lambda name: shown.page("application_act", found.pk, name))


def _may(request: HttpRequest, each: Act[Any], found: Application) -> bool:
    if each.form is OwnersForm:
        return all(map(request.user.has_perm, rights.NAME_OWNERS))
    return rights.may(request, each.permission, found)


def _counted(ends: Any) -> Callable[[Application], str]:
    def text(found: Application) -> str:
        people, month = Consent.objects.filter(application=found).count(), checks.month(found)
        allowed = ngettext("%(count)d person has allowed it.", "%(count)d people have allowed it.", people)
        had = ngettext("It had %(count)d sign-in in 30 days.", "It had %(count)d sign-ins in 30 days.", month)
        return f"{ends} {allowed % {'count': people}} {had % {'count': month}}"

    return text


def _end_access(_request: HttpRequest, found: Application, _answers: Answers) -> str:
    people = registry.end_access(found)
    ended = ngettext(
        "The access of everybody is ended, with the consent of %(count)d person.",
        "The access of everybody is ended, with the consents of %(count)d people.",
        people,
    )
    return ended % {"count": people}


def why_not_added(sent: str) -> str:
    """Return why the address cannot be registered: it is masked or invalid. Return "" for any other address."""
    if MASK in sent:
        return _("Parts of it are masked, so it can’t be added from here")
    problem = registration_problem(sent)
    return _("It can’t be registered: %(problem)s") % {"problem": problem} if problem else ""


def warnings_of(request: HttpRequest, sent: str, application: Application) -> tuple[str, ...]:
    """Warnings about a new callback address. Only those with permission VIEW learn that another application has it."""
    warnings, host = [], shown_host(sent)
    others = Application.objects.exclude(pk=application.pk).filter(redirect_uris__contains=sent)
    if request.user.has_perm(rights.VIEW) and any(sent in other.callback_addresses for other in others[:100]):
        warnings.append(_("Another application has registered it, too"))
    if host not in {shown_host(address) for address in application.callback_addresses}:
        text = _("Another host. Whoever runs %(host)s gets the sign-ins of everybody who uses %(name)s.")
        warnings.append(text % {"host": host or sent, "name": application.name})
    return tuple(warnings)


def may_add_address(request: HttpRequest, application: Application) -> bool:
    model_admin = admin.site.get_model_admin(Application)
    may_change: bool = model_admin.has_change_permission(request, application)
    return may_change and "redirect_uris" not in model_admin.get_readonly_fields(request, application)


def add_address(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Ask whether to register the callback address from the activity record `pk`. POST registers the address."""
    entry, found = find_record(request, pk)
    sent = entry.detail.get("sent", "")
    if found is None or not sent or why_not_added(sent):
        raise Http404
    if not may_add_address(request, found):
        raise PermissionDenied
    adding: Act[Application] = Act(
        label=_("Add this address"),
        question=_("Add this address?"),
        button=_("Add it"),
        fits=lambda each: not each.is_callback(sent),
        ends=_("From then on people who sign in to %(name)s may be sent back to it.") % {"name": found.name},
        shows=sent,
        warnings=warnings_of(request, sent, found),
        change=lambda _request, each, _answers: _add_address(each, sent),
        done=_("The address is added. %(name)s can use it now."),
        is_proven=True,
    )
    of, section = Named(entry.reference, shown.record_url(entry)), shown.named(found)
    return acts.confirm(request, adding, found, name=found.name, of=of, section=section)


def _add_address(found: Application, sent: str) -> None:
    locked = Application.objects.select_for_update(no_key=True).get(pk=found.pk)
    locked.redirect_uris = "\n".join([*locked.callback_addresses, sent])
    locked.full_clean()
    registry.save(locked, ["redirect_uris"], None)


def _rotate(request: HttpRequest, found: Application, answers: Answers) -> HttpResponseBase:
    overlap = answers.get("overlap", secret_rotation.DEFAULT_OVERLAP)
    try:
        return secret_page.rotate(request, found, overlap, answers["name"])
    except secret_rotation.TooManySecrets:
        text = _("Too many secrets still work. Wait until one has expired, or end them all at once.")
        raise ValidationError(text) from None


def _has_secret(found: Application) -> bool:
    return any(each.works for each in found.secrets.all())


def _end_secret(secret: ApplicationSecret, *, is_leaked: bool = False) -> None:
    secret_rotation.revoke(secret.application, secret.number, is_leaked=is_leaked)


def _is_last(secret: ApplicationSecret) -> bool:
    return not any(each.works for each in secret.application.secrets.all() if each.pk != secret.pk)


LAST_SECRET = gettext_lazy("No other secret works: nobody can sign in to the application until it has a new one.")
END_ACCESS = gettext_lazy(
    "Ends its access to the profiles of everybody, and every consent, at once. It stays switched on, and asks again."
)
ACTS: dict[str, Act[Application]] = {
    "new-secret": Act(
        label=gettext_lazy("New secret"),
        question=gettext_lazy("Make a new secret"),
        button=gettext_lazy("Make a new secret"),
        permission=rights.ROTATE,
        fits=lambda found: not found.is_public,
        ends=lambda found: (
            _("Older secrets go on working for the time you choose, unless you end all at once.")
            if _has_secret(found)
            else _("There is no secret, so nobody can sign in to it.")
        ),
        change=_rotate,
        is_proven=True,
        form=RotationForm,
        initial=lambda found: {"has_secret": _has_secret(found)},
    ),
    "switch-off": Act(
        label=gettext_lazy("Switch off"),
        question=gettext_lazy("Switch %(name)s off?"),
        permission=rights.SWITCH,
        fits=lambda found: found.is_enabled,
        ends=_counted(gettext_lazy("All its access ends at once, and nobody can sign in to it.")),
        change=lambda _request, found, answers: registry.set_enabled(found, False, reason=answers["reason"]),
        done=gettext_lazy("%(name)s is switched off. All its access has ended."),
        form=ReasonForm,
    ),
    "switch-on": Act(
        label=gettext_lazy("Switch on"),
        question=gettext_lazy("Switch %(name)s on?"),
        permission=rights.SWITCH,
        fits=lambda found: not found.is_enabled,
        ends=gettext_lazy("People can sign in to it again. Access that ended stays ended."),
        change=lambda _request, found, _answers: registry.set_enabled(found, True),
        done=gettext_lazy("%(name)s is switched on."),
    ),
    "end-access": Act(
        label=gettext_lazy("End all access"),
        question=gettext_lazy("End the access of everybody to %(name)s?"),
        permission=rights.SWITCH,
        fits=lambda found: found.is_enabled,
        ends=_counted(END_ACCESS),
        change=_end_access,
    ),
    "trust": Act(
        label=gettext_lazy("Trust it"),
        question=gettext_lazy("Trust %(name)s?"),
        permission=rights.TRUST,
        fits=lambda found: not found.is_trusted,
        ends=gettext_lazy(
            "People are signed in to it without being asked. Only for applications that you run yourselves. "
            "From then on, its addresses can be changed only by those who may trust applications."
        ),
        change=lambda request, found, _: registry.set_trusted(found, True, rights.applications(request, rights.VIEW)),
        done=gettext_lazy("%(name)s is trusted: nobody is asked."),
        is_proven=True,
    ),
    "distrust": Act(
        label=gettext_lazy("Trust it no more"),
        question=gettext_lazy("Trust %(name)s no more?"),
        permission=rights.TRUST,
        fits=lambda found: found.is_trusted,
        ends=gettext_lazy("Everybody is asked before they are signed in to it."),
        change=lambda request, found, _: registry.set_trusted(found, False, Application.objects.none()),
        done=gettext_lazy("%(name)s is not trusted any more: everybody is asked."),
        is_proven=True,
    ),
    "owners": Act(
        label=gettext_lazy("Owners"),
        question=gettext_lazy("Who looks after %(name)s?"),
        button=gettext_lazy("Save the owners"),
        permission=rights.CHANGE,
        ends=gettext_lazy(
            "Owners see its page, its activity and its secrets, and change its names and addresses. "
            "They need no other right, and are told before a secret ends."
        ),
        change=lambda _request, found, answers: registry.set_owners(found, list(answers["owners"])),
        done=gettext_lazy("The owners of %(name)s are saved."),
        is_proven=True,
        form=OwnersForm,
        initial=lambda found: {"owners": list(found.owners.values_list("pk", flat=True))},
    ),
}

SECRET_ACTS: dict[str, Act[ApplicationSecret]] = {
    "end": Act(
        label=gettext_lazy("End this secret"),
        question=gettext_lazy("End client secret No. %(name)s?"),
        permission=rights.ROTATE,
        fits=lambda secret: secret.works,
        ends=lambda secret: (
            LAST_SECRET
            if _is_last(secret)
            else _(
                "It is refused from the next request on: the application can’t use it any more. "
                "The others go on working."
            )
        ),
        change=lambda _request, secret, _answers: _end_secret(secret),
        done=gettext_lazy("Client secret No. %(name)s ended at once."),
        is_proven=True,
    ),
    "leaked": Act(
        label=gettext_lazy("It leaked"),
        question=gettext_lazy("Has client secret No. %(name)s leaked?"),
        permission=rights.ROTATE,
        fits=lambda secret: not secret.is_leaked,
        ends=lambda secret: (
            _(
                "Whoever has it can pretend to be the application. It ends at once, with all access of the "
                "application: people sign in again."
            )
            + (f" {LAST_SECRET}" if _is_last(secret) else "")
        ),
        change=lambda _request, secret, _answers: _end_secret(secret, is_leaked=True),
        done=gettext_lazy("Client secret No. %(name)s had leaked: it ended at once, with all access."),
        is_proven=True,
    ),
}
