"""Send the browser to a callback address by a redirect, by a form that a page posts, or by a link. D6, D20."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.models import Application
from oauth_bridge.oauth.callback import Callback, redirect_to_callback

WEB_SCHEMES = ("http:", "https:")  # registered addresses contain the scheme in lower case


def to_callback(request: HttpRequest, application: Application, callback: Callback, url: str) -> HttpResponse:
    """Redirect to `url`, which `callback` has made.

    If `callback.is_posted`, show a page that posts the parameters of `url` instead.
    """
    if not callback.is_posted:
        return redirect_to_callback(request, url)
    context = {
        "application": application.caption,
        "action": callback.redirect_uri,
        "fields": callback.fields(url),
    }
    response = render(request, "oauth_bridge/posting.html", context)
    response.leads_to_application = True  # type: ignore[attr-defined]  # read by config.http.response_headers
    response["Referrer-Policy"] = "no-referrer"
    return response


def lead_back(
    request: HttpRequest,
    application: Application,
    callback: Callback,
    url: str,
    *,
    by_page: bool,
    is_refusal: bool = False,
) -> HttpResponse:
    """Send the answer to the callback, or show a page with a link if a browser may block the redirect. D6, D20."""
    if callback.is_posted:
        return to_callback(request, application, callback, url)
    return leave(request, application, url, by_page=by_page, is_refusal=is_refusal)


def leave(
    request: HttpRequest, application: Application, url: str, *, by_page: bool = False, is_refusal: bool = False
) -> HttpResponse:
    """Redirect to an address of the application, or show a page with a link if a browser may block the redirect.

    With `is_refusal`, the page says that the person refused. Otherwise, the page says whether the person is signed in.
    """
    if url.startswith(WEB_SCHEMES) and not by_page:
        return redirect_to_callback(request, url)
    context = {"application": application.caption, "url": url, "is_refusal": is_refusal}
    response = render(request, "oauth_bridge/continuing.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response


def destination(redirect_uri: str) -> dict[str, Any]:
    """Describe the callback address for a person to check: its host or private scheme, and the full address."""
    parts = urlsplit(redirect_uri)
    is_web = redirect_uri.startswith(WEB_SCHEMES)
    return {
        "host": parts.netloc if is_web else parts.scheme,
        "uri": redirect_uri,
        "on_this_device": not is_web or parts.hostname in LOOPBACK_HOSTS,
    }
