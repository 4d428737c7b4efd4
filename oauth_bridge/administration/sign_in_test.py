"""The test sign-in: a real sign-in over HTTP, with the administrator's account and a temporary twin application."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare
from django.utils.http import urlencode
from django.utils.translation import gettext as _

from accounts import audit_trail
from accounts.sign_in.reauthentication import fresh_sign_in_required
from config.infrastructure import paths
from oauth_bridge.administration import own_client, shown
from oauth_bridge.administration.application_acts import find_application
from oauth_bridge.administration.own_client import Answer
from oauth_bridge.applications import rights
from oauth_bridge.applications.rights import ACTIVITY
from oauth_bridge.models import Application
from oauth_bridge.storage import application_audit, consents, temporary_applications

KEPT = "sign_in_test"  # key in the session data; only this browser's cookie can decrypt the data
OK = 200


class StepShown(NamedTuple):
    """A step of the test, for the template. `mark` is "" (finished), "bad" (failed) or "open" (not reached)."""

    name: str
    mark: str
    text: str
    result: str = ""
    sent: str = ""
    answered: str = ""
    record_url: str = ""


@fresh_sign_in_required
def start(request: HttpRequest, pk: int) -> HttpResponse:
    """Explain the test on GET. On POST, begin the test and redirect to `/oauth/authorize`.

    Raises PermissionDenied, Http404: as `find_application`.
    """
    found = find_application(request, pk, ACTIVITY)
    if request.method == "POST":
        if settings.WEB_CONCURRENCY * settings.WEB_THREADS > 1:
            return redirect(_begin(request, found))
        messages.error(request, _("The service has one thread (WEB_THREADS), so it can’t ask itself."))
    context = {
        **admin.site.each_context(request),
        "title": _("Test the sign-in of %(name)s") % {"name": found.name},
        "application": shown.named(found),
        "has_kept": KEPT in request.session,
    }
    return TemplateResponse(request, "administration/sign_in_test.html", context)


def _begin(request: HttpRequest, found: Application) -> str:
    """Make the twin, store its secrets in this session, and return the address of the authorization request."""
    callback = f"{settings.AUTH_URL}{reverse('admin:sign_in_test_callback')}"
    twin, secret = temporary_applications.make(found, callback)
    state, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    request.session[KEPT] = {
        "application": found.pk,
        "client_id": twin.client_id,
        "secret": secret,
        "state": state,
        "verifier": verifier,
        "begun_at": time.time(),
    }
    audit_trail.write("sign_in_tested", application_audit.subject(found), {"twin": (None, twin.client_id)})
    query = {
        "response_type": "code",
        "client_id": twin.client_id,
        "redirect_uri": callback,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return f"{settings.AUTH_URL}{paths.AUTHORIZE}?{urlencode(query)}"


def callback(request: HttpRequest) -> HttpResponse:
    """Handle the callback of the twin: exchange the code, read the profile, and show both results.

    Each test accepts one callback.

    Raises PermissionDenied, Http404: as `find_application`.
    """
    if not rights.may(request, ACTIVITY):
        raise PermissionDenied
    kept = request.session.pop(KEPT, None)
    if not kept or not constant_time_compare(request.GET.get("state", ""), kept["state"]):
        messages.error(request, _("This answer belongs to no test of this browser. Nothing was done with it."))
        return redirect("admin:index")
    found = find_application(request, kept["application"], ACTIVITY)
    twin = Application.twins.filter(client_id=kept["client_id"]).first()
    try:
        steps = _steps(request, kept)
    finally:
        if twin:
            consents.disconnect(request.user, twin)  # type: ignore[arg-type]  # somebody is signed in
        temporary_applications.delete(kept["client_id"])
    bad = next((step for step in steps if step.mark == "bad"), None)
    context = {
        **admin.site.each_context(request),
        "title": _("The test stopped: %(step)s") % {"step": bad.name} if bad else _("The test passed"),
        "application": shown.named(found),
        "again_url": reverse("admin:sign_in_test", args=[found.pk]),
        "steps": steps,
        "is_passed": bad is None,
        "at": timezone.now(),
    }
    return TemplateResponse(request, "administration/sign_in_tested.html", context)


def _steps(request: HttpRequest, kept: dict[str, Any]) -> list[StepShown]:
    masked = _("(masked)")
    authorize = StepShown(
        _("Authorize"),
        "",
        _("Your browser was led to the sign-in, as an application leads it"),
        sent="\n".join(
            [
                f"GET {settings.AUTH_URL}{paths.AUTHORIZE}",
                "",
                "response_type=code",
                f"client_id={kept['client_id']}",
                f"redirect_uri={settings.AUTH_URL}{reverse('admin:sign_in_test_callback')}",
                f"state={masked}",
                f"code_challenge={masked}",
                "code_challenge_method=S256",
            ]
        ),
    )
    error, code = request.GET.get("error", ""), request.GET.get("code", "")
    if error or not code:
        text = request.GET.get("error_description", "")[:500]
        return [authorize, StepShown(_("Callback"), "bad", text, error[:80]), *_open(_("Exchange"), _("Profile"))]
    back = StepShown(_("Callback"), "", _("A code came back, and the state is equal"))
    if not own_client.one_at_a_time.acquire(blocking=False):
        busy = _("Another test is running. Try again in a few seconds.")
        return [authorize, back, StepShown(_("Exchange"), "bad", busy), *_open(_("Profile"))]
    try:
        return [authorize, back, *_asked(code, kept)]
    finally:
        own_client.one_at_a_time.release()


def _asked(code: str, kept: dict[str, Any]) -> list[StepShown]:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": f"{settings.AUTH_URL}{reverse('admin:sign_in_test_callback')}",
        "client_id": kept["client_id"],
        "code_verifier": kept["verifier"],
    }
    if kept["secret"]:
        form["client_secret"] = kept["secret"]
    exchanged = own_client.ask("POST", paths.TOKEN, form)
    exchange = _answered(_("Exchange"), exchanged, _("The code was exchanged for an access token"))
    if exchange.mark:
        return [exchange, *_open(_("Profile"))]
    read = own_client.ask("GET", paths.USERINFO, token=str(exchanged.data.get("access_token", "")))
    return [exchange, _answered(_("Profile"), read, _("What it receives of your own account"))]


def _answered(name: str, answer: Answer, text: str) -> StepShown:
    is_right = answer.status == OK
    if not is_right:
        text = str(answer.data.get("error_description", "")) or answer.problem or _("No answer of this service came")
    elif answer.is_local:
        instead = _("It was asked over BIND instead.")
        text = f"{text}. {answer.problem} {instead}"
    return StepShown(
        name,
        "" if is_right else "bad",
        text,
        _("%(status)d in %(time)d ms") % {"status": answer.status, "time": answer.milliseconds}
        if answer.status
        else _("no answer"),
        answer.sent,
        answer.shown,
        shown.page("find", q=answer.reference) if not is_right and answer.reference else "",
    )


def _open(*names: str) -> list[StepShown]:
    return [StepShown(name, "open", _("Not reached")) for name in names]
