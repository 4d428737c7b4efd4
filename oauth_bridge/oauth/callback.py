"""Send the browser to an address of the application: by a redirect, a form or a link."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.models import Application

WEB_SCHEMES = ("http:", "https:")  # registered addresses contain the scheme in lower case


def redirect_to_callback(request: HttpRequest, url: str) -> HttpResponse:
    """Return a redirect to the unchanged `url`. HttpResponseRedirect may change a URL, and refuses most schemes."""
    status = HTTPStatus.SEE_OTHER if request.method == "POST" else HTTPStatus.FOUND
    return HttpResponse(status=status, headers={"Location": url, "Referrer-Policy": "no-referrer"})


def leave(
    request: HttpRequest,
    application: Application,
    url: str,
    *,
    posted_to: str = "",
    by_page: bool | None = None,
    is_refusal: bool = False,
) -> HttpResponse:
    """Redirect to `url`, or if `by_page`, show a link to it. `by_page` None: a link if the scheme is not http or https.

    If `posted_to` is given, show a form instead, which posts the parameters of `url` to `posted_to`.
    """
    if by_page is None:
        by_page = not url.startswith(WEB_SCHEMES)
    if not posted_to and not by_page:
        return redirect_to_callback(request, url)
    context: dict[str, Any] = {"application": application}
    if posted_to:
        # The parameters of `url`, after the address and "?" or "&".
        fields = parse_qsl(url[len(posted_to) + 1 :], keep_blank_values=True, errors="replace")
        context |= {"action": posted_to, "fields": fields}
        response = render(request, "oauth_bridge/posting.html", context)
        response.leads_to_application = True  # type: ignore[attr-defined]  # read by config.http.response_headers
    else:
        context |= {"url": url, "is_refusal": is_refusal}
        response = render(request, "oauth_bridge/continuing.html", context)
    response["Referrer-Policy"] = "no-referrer"
    return response


def destination(redirect_uri: str) -> dict[str, Any]:
    parts = urlsplit(redirect_uri)
    is_web = redirect_uri.startswith(WEB_SCHEMES)
    return {
        "host": parts.netloc if is_web else parts.scheme,
        "uri": redirect_uri,
        "on_this_device": not is_web or parts.hostname in LOOPBACK_HOSTS,
    }
