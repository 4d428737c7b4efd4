"""Answer an error with JSON for programs or with a page for people. Specification 7."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from config.infrastructure import errors, network, paths
from config.infrastructure.errors import Fault, RequestError, SiteFault, TranslatableText
from oauth_bridge.errors import OAuthFault

# Unknown paths at which some clients look for the metadata (RFC 8414 §3.1, RFC 9728 §3.1) or the keys.
DISCOVERY = re.compile(
    r"/\.well-known/(openid-configuration|oauth-authorization-server|oauth-protected-resource|jwks)"
    r"|/oauth/(certs|keys|\.well-known)\b"
)
# The last part of an unknown path, by which other services name an operation.
OPERATION_OF = {
    **dict.fromkeys(("auth", "authorization", "authorize"), paths.AUTHORIZE),
    **dict.fromkeys(("end_session", "endsession"), paths.LOGOUT),
    **dict.fromkeys(("introspect", "introspection"), paths.INTROSPECT),
    **dict.fromkeys(("revocation", "revoke"), paths.REVOKE),
    **dict.fromkeys(("access_token", "token"), paths.TOKEN),
    **dict.fromkeys(("me", "user_info", "userinfo"), paths.USERINFO),
}
# The names of the operation that registers clients elsewhere (RFC 7591), which this service does not have.
REGISTRATION = ("clients", "reg", "register", "registration")
RETRYABLE = (429, 500, 503)
SHOWN_ADDRESS_LENGTH = 400
# The title and the sentence for people, by status. If the sentence is empty, the page shows the sentence of the error.
PAGE_WORDS = {
    400: (
        gettext_noop("This can't be read"),
        gettext_noop("Your browser sent something that can't be read here. Go back and try again."),
    ),
    403: (gettext_noop("Not allowed"), ""),
    404: (
        gettext_noop("There is no page here"),
        gettext_noop("The address may be mistyped, or the page has moved."),
    ),
    405: (gettext_noop("Not possible here"), gettext_noop("Go back and use the buttons of the page.")),
    413: (
        gettext_noop("This form is too large"),
        gettext_noop("Go back, shorten what you typed or pasted, and send it again."),
    ),
    431: (
        gettext_noop("The browser sent too much"),
        gettext_noop(
            "If it is the Cookie header, delete the cookies of this site and of the sites above it, then try again."
        ),
    ),
    429: (gettext_noop("Please wait"), ""),
    500: (gettext_noop("This did not work"), ""),
    503: (gettext_noop("Back in a moment"), ""),
}
# The application and the browser did nothing wrong: the page shows the sentence of the error.
HOST_FAULTS = (SiteFault.HOST, SiteFault.HOST_NAMED, SiteFault.HOST_CHANGED)
HOST_TITLE = gettext_noop("The service is not set up for this address")
SIGN_IN_MESSAGE = gettext_noop(
    "The application that sent you here made a mistake in its link. Nothing was shared, and you did nothing wrong."
)
SIGN_IN_ADVICE = gettext_noop("Go back to the application and try again. If it stays so, tell its operator.")
# The title and the sentence for people if an application's link is wrong, by path.
LINK_WORDS = {
    paths.AUTHORIZE: (gettext_noop("This sign-in can't go on"), SIGN_IN_MESSAGE),
    paths.LOGOUT: (
        gettext_noop("This sign-out can't go on"),
        gettext_noop(
            "The application that sent you here made a mistake in its link. If you were signed in here, you still are."
        ),
    ),
}
# The sentence for people if the application of the link is known.
APPLICATION_WORDS: dict[Fault, str] = {
    OAuthFault.CLIENT_DISABLED: gettext_noop(
        "%(name)s is switched off here, so nobody can sign in to it now. Nothing was shared, and you did nothing wrong."
    ),
    OAuthFault.MISSING: gettext_noop(
        "%(name)s sent you here without the callback address that leads you back."
        " Nothing was shared, and you did nothing wrong."
    ),
    OAuthFault.REDIRECT_URI_MISMATCH: gettext_noop(
        "%(name)s sent you here with a callback address that this service doesn't know."
        " Nothing was shared, and you did nothing wrong."
    ),
}


def error_response(request: HttpRequest, error: RequestError) -> HttpResponse:
    """Report the error, and return a page if `wants_page`, otherwise JSON. Specification 7."""
    errors.report(error)
    if wants_page(request):
        response = _page(request, error)
    else:
        body = {"error": error.fault.error, "error_description": error.description}
        response = JsonResponse(body, status=error.fault.status)
    for name, value in error.headers.items():
        response[name] = value
    return response


def wants_page(request: HttpRequest) -> bool:
    if paths.kind_of(request.path).is_for_programs:
        return False
    accepted = request.META.get("HTTP_ACCEPT", "").split(",")
    return any(media.partition(";")[0].strip().lower() == "text/html" for media in accepted)


def not_found(request: HttpRequest) -> HttpResponse:
    """Return an error 404 that names the documentation, and an operation with a similar path if there is one."""
    return error_response(request, RequestError(SiteFault.NOT_FOUND, hint=_hint(request.path)))


def _hint(path: str) -> TranslatableText:
    docs = f"{settings.AUTH_URL}{paths.DOCS}"
    once = re.sub("/{2,}", "/", path)
    bare = once.rstrip("/")
    name = bare.rpartition("/")[2].lower()
    operation = bare if bare in paths.OPERATIONS else OPERATION_OF.get(name)
    if not operation and DISCOVERY.search(once):
        operation = paths.OPENID_CONFIGURATION
    if name in REGISTRATION:
        text = gettext_noop(
            "No program registers itself here: an administrator registers applications. The documentation is at {docs}."
        )
        return TranslatableText(text, docs=docs)
    if not operation:
        return TranslatableText(gettext_noop("Compare it with the documentation at {docs}."), docs=docs)
    if operation == bare and once == path != bare:
        text = gettext_noop("Use {path} without the slash at the end. The documentation is at {docs}.")
        return TranslatableText(text, path=bare, docs=docs)
    address = (settings.AUTH_URL if paths.kind_of(operation).is_page else settings.BASE_URL) + operation
    return TranslatableText(gettext_noop("Use {address}. The documentation is at {docs}."), address=address, docs=docs)


def _page(request: HttpRequest, error: RequestError) -> HttpResponse:
    fault, status = error.fault, error.fault.status
    is_of_link = isinstance(fault, OAuthFault) and status == HTTPStatus.BAD_REQUEST and request.path in LINK_WORDS
    title, message = PAGE_WORDS.get(status, (HTTPStatus(status).phrase, ""))
    if is_of_link:
        title, message = LINK_WORDS[request.path]
        if fault in (OAuthFault.REQUEST_DAMAGED, OAuthFault.CLIENT_DISABLED):  # its own sentence says more
            message = ""
    elif fault in HOST_FAULTS:
        title, message = HOST_TITLE, ""
    sentence = fault.translate(**error.details)
    application = getattr(error, "application", None)
    context: dict[str, Any] = {
        "status": status,
        "title": _(title),
        "message": _(message) if message else sentence,
        "error": fault.error,
        "description": sentence,
        "for_developers": is_of_link,
        "sent_address": getattr(error, "sent_address", "")[:SHOWN_ADDRESS_LENGTH],
        "time": timezone.now(),
        "retry_url": request.get_full_path() if status in RETRYABLE and request.method == "GET" else "",
        "sign_out_url": reverse("account_logout") if is_of_link and request.path == paths.LOGOUT else "",
        "application": application,
    }
    # A request that a middleware refused has no user.
    if is_of_link and hasattr(request, "user") and request.user.is_staff:
        context["record_url"] = f"{reverse('admin:find')}?q={network.reference.get()}"
    if application:
        context["message"] = _(APPLICATION_WORDS[fault]) % {"name": application.name}
    elif message == SIGN_IN_MESSAGE:
        context["advice"] = _(SIGN_IN_ADVICE)
    return render(request, "error.html", context, status=status)
