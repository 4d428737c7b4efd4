"""The pages between the application's link and its callback, and the URLs they link to. D4, D8."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from accounts import returning
from accounts.views import person_context
from oauth_bridge import responses
from oauth_bridge.applications.logos import logo_url
from oauth_bridge.consent.request import FIELD_NAME, PendingRequest
from oauth_bridge.models import Application
from oauth_bridge.protocol.userinfo import claims_of
from oauth_bridge.redirect_uris import LOOPBACK_HOSTS

WEB_SCHEMES = ("http", "https")


def authorize_path(pending: PendingRequest, *, notice: bool = False) -> str:
    """The path that continues the request in any tab, signed in or not. `notice` makes the consent page ask again."""
    query = {FIELD_NAME: pending.unbound().seal()}
    return f"{reverse('authorize')}?{urlencode({**query, 'notice': '1'} if notice else query)}"


def sign_in_url(pending: PendingRequest, application: Application) -> str:
    """The sign-in page that names the application and then continues the request."""
    return returning.sign_in_url(authorize_path(pending), **_sign_in_caption(application))


def switch_account_url(pending: PendingRequest, application: Application) -> str:
    """The action of the form "Not you?": it signs the person out and shows the sign-in page of the same request."""
    return returning.switch_account_url(authorize_path(pending), **_sign_in_caption(application))


def consent(request: HttpRequest, application: Application, pending: PendingRequest, *, notice: bool) -> HttpResponse:
    """The consent page: the application, the claims, the account and the destination. D7."""
    members = claims_of(request.user)  # type: ignore[arg-type]
    labels = {
        "sub": (_("User ID"), "id"),
        "nickname": (_("Nickname"), "text"),
        "email": (_("E-mail address"), "email"),
        "avatar": (_("Picture"), "image"),
    }
    context = {
        "application": _application_context(application),
        "person": person_context(request.user),  # type: ignore[arg-type]
        "claims": [
            {"label": labels[name][0], "kind": labels[name][1], "value": value} for name, value in members.items()
        ],
        "destination": destination(pending.redirect_uri),
        "pending": pending.bind(request).seal(),
        "switch_account_url": switch_account_url(pending, application),
        "switch_next": authorize_path(pending),
        "notice": _("This page was out of date. Please confirm once more.") if notice else "",
    }
    response = render(request, "oauth_bridge/consent.html", context)
    response["Content-Security-Policy"] = form_action(pending.redirect_uri)
    return response


def lead_back(request: HttpRequest, application: Application, url: str, *, by_page: bool) -> HttpResponse:
    """A redirect to the callback, or a page with a link to it where a browser may block the redirect. D6, D20."""
    if urlsplit(url).scheme in WEB_SCHEMES and not by_page:
        return responses.redirect_to_callback(request, url)
    context = {"application": _application_context(application), "url": url}
    response = render(request, "oauth_bridge/continuing.html", context)
    response["Content-Security-Policy"] = "form-action 'none'"
    response["Referrer-Policy"] = "no-referrer"
    return response


def destination(redirect_uri: str) -> dict[str, Any]:
    """The host, or private scheme, and the full address of the callback, for a person to check."""
    parts = urlsplit(redirect_uri)
    is_web = parts.scheme in WEB_SCHEMES
    return {
        "host": parts.netloc if is_web else parts.scheme,
        "uri": redirect_uri,
        "on_this_device": not is_web or parts.hostname in LOOPBACK_HOSTS,
    }


def form_action(redirect_uri: str) -> str:
    """The CSP directive that allows the redirects from a form to the callback and beyond.

    Chromium and WebKit apply `form-action` to every redirect after a form.
    """
    scheme = urlsplit(redirect_uri).scheme
    sources = {"https": "https:", "http": "https: http:"}.get(scheme, f"{scheme}:")
    return f"form-action 'self' {sources}"


def already_signed_in(request: HttpRequest, application: Application, pending: PendingRequest) -> HttpResponse:
    return _explanation(
        request,
        application,
        heading=_("You already signed in to %(name)s") % {"name": application.name},
        message=_("This page has done its work: the application has received your profile."),
        advice=_("Go on in the application, or sign in to it once more."),
        actions=[(authorize_path(pending.renewed()), _("Sign in again"))],
    )


def address_not_confirmed(request: HttpRequest, application: Application, pending: PendingRequest) -> HttpResponse:
    """The page on which a person can ask for a code that confirms the e-mail address. D16."""
    return _explanation(
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


def _explanation(
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
        "application": _application_context(application),
        "heading": heading,
        "message": message,
        "advice": advice,
        "actions": links,
        "post_action": post_action,
    }
    return render(request, "oauth_bridge/stopped.html", context, status=status)


def _sign_in_caption(application: Application) -> dict[str, str]:
    return {"name": application.name, "host": application.homepage_host, "logo": logo_url(application)}


def _application_context(application: Application) -> dict[str, str]:
    return {
        "name": application.name,
        "homepage": application.homepage,
        "homepage_host": application.homepage_host,
        "logo_url": logo_url(application),
        "initial": application.name[:1].upper(),
    }
