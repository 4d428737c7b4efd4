"""The pages of a sign-in and the ways on from them; every one of them leads somewhere. D4, D8; browsers.md R1, R2."""

from __future__ import annotations

from urllib.parse import quote, urlencode, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts import returning
from accounts.avatars import avatar_url
from oauth_bridge import consent as consents
from oauth_bridge import errors
from oauth_bridge.claims import claims_of
from oauth_bridge.consent import PendingRequest
from oauth_bridge.faults import Refused
from oauth_bridge.logos import logo_url
from oauth_bridge.models import Application


def authorize_path(pending: PendingRequest, *, notice: bool = False) -> str:
    """The address under which the request goes on in any tab, signed in or not."""
    blob = {"request": pending.unbound().seal()}
    return f"{reverse('authorize')}?{urlencode({**blob, 'notice': '1'} if notice else blob)}"


def sign_in_url(pending: PendingRequest, application: Application) -> str:
    """The sign-in page that says who asks and leads back to the request."""
    return returning.sign_in_url(authorize_path(pending), **_caption(application))


def switch_account_url(pending: PendingRequest, application: Application) -> str:
    """Where "not you?" posts to: signed out, the person goes on at the same sign-in page."""
    return returning.switch_account_url(authorize_path(pending), **_caption(application))


def consent(request: HttpRequest, application: Application, pending: PendingRequest, *, notice: bool) -> HttpResponse:
    """Who asks, what will be sent, from which account and to where. D7; peers.md 18 to 25."""
    members = claims_of(request.user)  # type: ignore[arg-type]
    labels = {
        "sub": (_("User ID"), "id"),
        "nickname": (_("Nickname"), "text"),
        "email": (_("E-mail address"), "email"),
        "avatar": (_("Picture"), "image"),
    }
    context = {
        "application": _shown(application),
        "person": _person(request),
        "claims": [
            {"label": labels[name][0], "kind": labels[name][1], "value": value} for name, value in members.items()
        ],
        "destination": consents.destination(pending.redirect_uri),
        "pending": pending.bind(request).seal(),
        "switch_account_url": switch_account_url(pending, application),
        "switch_next": authorize_path(pending),
        "notice": _("This page was out of date. Please confirm once more.") if notice else "",
    }
    response = render(request, "oauth_bridge/consent.html", context)
    response["Content-Security-Policy"] = consents.form_action(pending.redirect_uri)
    return response


def lead_back(
    request: HttpRequest,
    application: Application,
    pending: PendingRequest,
    *,
    code: str | None = None,
    error: Refused | None = None,
    by_page: bool = False,
) -> HttpResponse:
    """The way to the callback address: a redirect, or a page where a redirect could end in silence. D6, D20."""
    status = 303 if request.method == "POST" else 302
    is_web = urlsplit(pending.redirect_uri).scheme in ("http", "https")
    if is_web and not by_page:
        if error:
            return errors.callback_refusal(pending.redirect_uri, error, pending.state, status)
        return errors.callback(pending.redirect_uri, status=status, code=code, state=pending.state)
    if error:
        described = quote(error.description, safe="")
        url = errors.callback_url(
            pending.redirect_uri, error=error.fault.error, error_description=described, state=pending.state
        )
    else:
        url = errors.callback_url(pending.redirect_uri, code=code, state=pending.state)
    response = render(request, "oauth_bridge/continuing.html", {"application": _shown(application), "url": url})
    response["Content-Security-Policy"] = "form-action 'none'"
    response["Referrer-Policy"] = "no-referrer"
    return response


def already_signed_in(request: HttpRequest, application: Application, pending: PendingRequest) -> HttpResponse:
    return _stopped(
        request,
        application,
        heading=_("You already signed in to %(name)s") % {"name": application.name},
        message=_("This page has done its work: the application has received your profile."),
        advice=_("Go on in the application, or sign in to it once more."),
        actions=[(authorize_path(pending.renewed()), _("Sign in again"))],
    )


def address_not_confirmed(request: HttpRequest, application: Application, pending: PendingRequest) -> HttpResponse:
    """D16: without a confirmed address nothing can be sent, so the page says how to confirm it."""
    return _stopped(
        request,
        application,
        heading=_("Your e-mail address is not confirmed"),
        message=_("%(name)s asks for your e-mail address, and only a confirmed one is ever sent.")
        % {"name": application.name},
        advice=_("We can mail you a code. Type it in, and you come back here to go on."),
        post_action={
            "url": f"{reverse('send_code')}?{urlencode({'next': authorize_path(pending)})}",
            "label": _("Send me a code"),
        },
        status=403,
    )


def _stopped(
    request: HttpRequest,
    application: Application,
    *,
    heading: str,
    message: str,
    advice: str,
    actions: list[tuple[str, str]] | None = None,
    post_action: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    links = [{"url": url, "label": label} for url, label in actions or []]
    if application.homepage:
        links.insert(0, {"url": application.homepage, "label": _("Go to %(name)s") % {"name": application.name}})
    context = {
        "application": _shown(application),
        "heading": heading,
        "message": message,
        "advice": advice,
        "actions": links,
        "post_action": post_action,
    }
    return render(request, "oauth_bridge/stopped.html", context, status=status)


def _caption(application: Application) -> dict[str, str]:
    return {"name": application.name, "host": application.homepage_host, "logo": logo_url(application)}


def _shown(application: Application) -> dict[str, str]:
    return {
        "name": application.name,
        "homepage": application.homepage,
        "homepage_host": application.homepage_host,
        "logo_url": logo_url(application),
        "initial": application.name[:1].upper(),
    }


def _person(request: HttpRequest) -> dict[str, str]:
    person = request.user
    return {
        "display_name": person.display_name,  # type: ignore[union-attr]
        "email": person.email,  # type: ignore[union-attr]
        "avatar_url": avatar_url(person),  # type: ignore[arg-type]
    }
