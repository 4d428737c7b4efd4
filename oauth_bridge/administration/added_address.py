"""The page that adds the callback address of a refused request to its application."""

from __future__ import annotations

from typing import NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext as _

from accounts.sign_in.reauthentication import fresh_sign_in_required
from config.infrastructure import events
from config.infrastructure.events import Event
from oauth_bridge.activity import reading
from oauth_bridge.administration import rights, shown
from oauth_bridge.administration.rights import ACTIVITY
from oauth_bridge.applications import registry
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.callback_addresses.registration import MAX_COUNT, registration_problem, shown_host
from oauth_bridge.models import Application


class Addition(NamedTuple):
    """What an administrator reads before an address is added. If there is a `problem`, it cannot be added."""

    problem: str
    warnings: list[str]


def addition(request: HttpRequest, sent: str, application: Application) -> Addition | None:
    """Return None if the address is registered. Only administrators who see all applications learn of others."""
    if application.is_callback(sent):
        return None
    if MASK in sent:
        return Addition(_("Parts of it are masked, so it can’t be added from here"), [])
    if problem := registration_problem(sent):
        return Addition(_("It can’t be registered: %(problem)s") % {"problem": problem}, [])
    if len(application.callback_addresses) >= MAX_COUNT:
        return Addition(_("There are as many addresses as an application can have"), [])
    warnings, host = [], shown_host(sent)
    others = Application.objects.exclude(pk=application.pk).filter(redirect_uris__contains=sent)
    if request.user.has_perm(rights.VIEW) and any(sent in other.callback_addresses for other in others[:100]):
        warnings.append(_("Another application has registered it, too"))
    if host not in {shown_host(address) for address in application.callback_addresses}:
        text = _("Another host. Whoever runs %(host)s gets the sign-ins of everybody who uses %(name)s.")
        warnings.append(text % {"host": host or sent, "name": application.name})
    return Addition("", warnings)


def may_add(request: HttpRequest, application: Application) -> bool:
    model_admin = admin.site.get_model_admin(Application)
    may_change: bool = model_admin.has_change_permission(request, application)
    return may_change and "redirect_uris" not in model_admin.get_readonly_fields(request, application)


@fresh_sign_in_required
def add_address(request: HttpRequest, pk: int) -> HttpResponse:
    """Add the callback address of a refused request to its application. GET asks for confirmation, POST adds.

    Raises PermissionDenied: the permission to see the activity or to change the addresses is missing. Raises Http404:
    the record or its application does not exist, or the callback address is missing or partly masked.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    entry = reading.entry(pk, rights.client_ids(request))
    sent = entry.detail.get("sent", "") if entry else ""
    found = Application.objects.filter(client_id=entry.client_id).first() if entry and entry.client_id else None
    if entry is None or found is None or not sent or MASK in sent:
        raise Http404
    if not may_add(request, found):
        raise PermissionDenied
    new = addition(request, sent, found)
    if new is None:
        return redirect(shown.record_url(entry))
    if request.method == "POST" and not new.problem:
        _add(request, found, sent)
        return redirect(shown.record_url(entry))
    context = {
        **admin.site.each_context(request),
        "title": _("Add this address?"),
        "application": shown.named(found),
        "sent": sent,
        "addition": new,
        "record_url": shown.record_url(entry),
        "reference": entry.reference,
    }
    return TemplateResponse(request, "administration/add_address.html", context)


def _add(request: HttpRequest, found: Application, sent: str) -> None:
    with transaction.atomic():
        locked = Application.objects.select_for_update(no_key=True).get(pk=found.pk)
        locked.redirect_uris = "\n".join([*locked.callback_addresses, sent])
        locked.full_clean()
        with registry.audited(locked):
            locked.save(update_fields=["redirect_uris", "updated"])
    events.write(Event.APPLICATION_CHANGED, client_id=found.client_id, fields="redirect_uris")
    text = _("The address is added. %(name)s can use it now.")
    messages.success(request, text % {"name": found.name})
