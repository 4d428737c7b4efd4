"""The three ways a failure is told: JSON to machines, a page to people, a redirect to a verified callback.

Specification 7; D4, D6, D19, D20. The sentences are in `faults`.
"""

from __future__ import annotations

import logging
import re
import sys
from http import HTTPStatus
from urllib.parse import quote

from django.conf import settings
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from accounts import hashing
from oauth_bridge.faults import NOT_ALLOWED, Fault, Refused

logger = logging.getLogger("oauth_bridge")

MACHINE_PREFIXES = ("/oauth/", "/.well-known/")
PAGE_PATHS = ("/oauth/authorize",)
OPERATIONS = ("/oauth/authorize", "/oauth/token", "/oauth/userinfo")
# Where clients look for the endpoints (OpenID Connect Discovery §4, RFC 8414 §3) and for keys that do not exist here.
DISCOVERY = re.compile(
    r"/\.well-known/(openid-configuration|oauth-authorization-server|jwks)|/oauth/(jwks|certs|keys)\b"
)
RETRY_AFTER_SECONDS = "5"
LOOPBACK_PEERS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
# What a proxy adds: the client of a request with one of these is elsewhere.
FORWARDING_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_VIA")
SHOWN_HOST_CHARACTERS = 100
# InternalError is what a standby that takes no writes answers.
RETRYABLE = (429, 500, 503)
DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)


def wants_page(request: HttpRequest) -> bool:
    """Whether a person looks at the answer: `Accept` names text/html and the path is one of pages (D4, D19)."""
    machine = request.path.startswith(MACHINE_PREFIXES) and request.path not in PAGE_PATHS
    accepted = request.META.get("HTTP_ACCEPT", "").split(",")
    return not machine and any(media.partition(";")[0].strip().lower() == "text/html" for media in accepted)


def answer(request: HttpRequest, refused: Refused, **page: object) -> HttpResponse:
    """The refusal as a page or as JSON, with its headers."""
    logger.info("refused", extra={"fault": refused.fault.name, "status": refused.fault.status})
    if wants_page(request):
        response = _page(request, refused, **page)
    else:
        response = as_json(refused.fault.status, refused.fault.error, refused.description)
    for name, value in refused.headers.items():
        response[name] = value
    return response


def as_json(status: int, error: str, description: str) -> JsonResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)


def callback(redirect_uri: str, *, status: int = 302, **parameters: str | None) -> HttpResponse:
    """A redirect to a verified callback address. Values are percent-encoded already; None is left out. D6, D20."""
    response = HttpResponse(status=status)
    response["Location"] = callback_url(redirect_uri, **parameters)
    response["Referrer-Policy"] = "no-referrer"
    return response


def callback_url(redirect_uri: str, **parameters: str | None) -> str:
    pairs = "&".join(f"{name}={value}" for name, value in parameters.items() if value is not None)
    return f"{redirect_uri}{'&' if '?' in redirect_uri else '?'}{pairs}"


def callback_refusal(redirect_uri: str, refused: Refused, state: str | None, status: int = 302) -> HttpResponse:
    """The refusal as RFC 6749 §4.1.2.1 sends it back to the application."""
    logger.info("refused at the callback", extra={"fault": refused.fault.name})
    description = quote(refused.description, safe="")
    return callback(redirect_uri, status=status, error=refused.fault.error, error_description=description, state=state)


# The handlers that config.urls and the settings name -----------------------------------------------------------------


def host_not_served(request: HttpRequest) -> HttpResponse:
    """400 for a host outside ALLOWED_HOSTS. The log names that host and the allowed ones.

    The answer names them with DEBUG or to a client on this machine: strangers are told no names of other hosts.
    """
    received = request.META.get("HTTP_HOST", request.META.get("SERVER_NAME", ""))
    host = NOT_ALLOWED.sub("?", received)[:SHOWN_HOST_CHARACTERS] or "(none)"
    hosts = ", ".join(settings.ALLOWED_HOSTS)
    logger.warning("host not served", extra={"host": host, "allowed_hosts": hosts})
    is_local = request.META.get("REMOTE_ADDR") in LOOPBACK_PEERS
    if settings.DEBUG or (is_local and not any(name in request.META for name in FORWARDING_HEADERS)):
        return answer(request, Refused(Fault.HOST_NAMED, host=host, hosts=hosts))
    return answer(request, Refused(Fault.HOST))


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, Refused(Fault.FORBIDDEN))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, naming the right path when a slash at the end is all that is wrong (D2), or where there is no discovery."""
    bare = request.path.rstrip("/")
    hint = "Compare it with the documentation."
    if bare in OPERATIONS:
        hint = f"Use {bare} without the slash at the end."
    elif DISCOVERY.search(request.path):
        authorize, *api = OPERATIONS
        endpoints = ", ".join([settings.AUTH_URL + authorize, *(settings.BASE_URL + path for path in api)])
        hint = f"This service does not speak OpenID Connect yet. Configure its endpoints by hand: {endpoints}."
    return answer(request, Refused(Fault.NOT_FOUND, hint=hint))


def server_error(request: HttpRequest) -> HttpResponse:
    """503 while the database is away or other passwords are hashed, otherwise 500.

    The log has the details under the reference.
    """
    exception = sys.exc_info()[1]
    reference = getattr(request, "reference", "-")
    if isinstance(exception, DATABASE_AWAY):
        code = getattr(exception.__cause__, "sqlite_errorname", None) or getattr(exception.__cause__, "sqlstate", None)
        extra = {"reference": reference, "kind": type(exception).__name__, "code": code}
        logger.error("database away", extra=extra)
        # An SQLite file that was opened while it could only be read would stay so until the server is restarted.
        connection.close()
        return answer(request, Refused(Fault.AWAY, {"Retry-After": RETRY_AFTER_SECONDS}))
    if isinstance(exception, hashing.HashingBusy):
        return answer(request, Refused(Fault.BUSY, {"Retry-After": str(hashing.RETRY_AFTER_SECONDS)}))
    logger.error("unhandled exception", exc_info=exception, extra={"reference": reference})
    return answer(request, Refused(Fault.SERVER_ERROR, reference=reference))


def _page(request: HttpRequest, refused: Refused, **context: object) -> HttpResponse:
    status = refused.fault.status
    words = PAGE_WORDS | SIGN_IN_WORDS if request.path in PAGE_PATHS else PAGE_WORDS
    title, advice = words.get(status, (HTTPStatus(status).phrase, ""))
    context = {
        "status": status,
        "title": _(title),
        "message": refused.description,
        "advice": _(advice) if advice else "",
        "reference": getattr(request, "reference", ""),
        "retry_url": request.get_full_path() if status in RETRYABLE and request.method == "GET" else "",
        **context,
    }
    return render(request, "error.html", context, status=status)


PAGE_WORDS = {
    400: ("This can't be read", "Go back and try again."),
    403: ("Not allowed", "Go back to where you came from, or sign out and sign in again."),
    404: ("Page not found", "Check the address, or go back to where you came from."),
    405: ("Not possible here", "Go back and use the buttons of the page."),
    413: ("This form is too large", "Go back, shorten what you typed or pasted, and send it again."),
    431: (
        "The browser sent too much",
        "If it is the Cookie header, delete the cookies of this site and of the sites above it, then try again.",
    ),
    429: ("Please wait", "Nothing is lost."),
    500: ("This did not work", "Try again in a moment."),
    503: ("Back in a moment", "Nothing is lost. Try again in a few seconds."),
}
SIGN_IN_WORDS = {
    400: ("This sign-in can't go on", "Go back to the application and try again. If it stays so, tell its operator."),
}
