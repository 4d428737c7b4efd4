"""Answer an error with JSON for programs or with a page for people. Specification 7; D4, D19.

`errors` contains the sentences of the errors, `error_page_words` the words of the pages. `callback` sends errors to the
callback address of an application.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import is_valid_path, reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from config.infrastructure import errors, paths, references
from config.infrastructure.errors import RequestError, SiteFault, TranslatableText
from oauth_bridge import error_page_words as words
from oauth_bridge.callback_addresses.difference import mark_likely_differences
from oauth_bridge.errors import OAuthFault

# Unknown paths at which some clients look for the metadata (RFC 8414 §3.1) or the keys.
DISCOVERY = re.compile(
    r"/\.well-known/(openid-configuration|oauth-authorization-server|jwks)|/oauth/(certs|keys|\.well-known)\b"
)
# The paths that operations have in other services. The last part of the path names the operation. Matching takes linear
# time.
ELSEWHERE = re.compile(
    r"(?:/(?:api|auth|connect|login|o|oauth2?|oidc|openid-connect|protocol|realms/[^/]+|v[12]))*/(?P<name>[a-z_-]+)",
    re.IGNORECASE,
)
OPERATION_OF = {
    "auth": paths.AUTHORIZE,
    "authorization": paths.AUTHORIZE,
    "authorize": paths.AUTHORIZE,
    "end_session": paths.LOGOUT,
    "endsession": paths.LOGOUT,
    "introspect": paths.INTROSPECT,
    "introspection": paths.INTROSPECT,
    "revocation": paths.REVOKE,
    "revoke": paths.REVOKE,
    "access_token": paths.TOKEN,
    "token": paths.TOKEN,
    "me": paths.USERINFO,
    "user_info": paths.USERINFO,
    "userinfo": paths.USERINFO,
}
# The names of the operation that registers clients elsewhere (RFC 7591), which this service does not have.
REGISTRATION = ("clients", "reg", "register", "registration")
PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"  # RFC 9728 §3.1
RETRYABLE = (429, 500, 503)
SHOWN_ADDRESS_LENGTH = 400


def error_response(request: HttpRequest, error: RequestError) -> HttpResponse:
    """Report the error, and answer it with a page or with JSON. Specification 7; D19."""
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
    """Return whether the answer is a page: `Accept` names text/html, and the path is not for programs (D4, D19)."""
    if paths.kind_of(request.path).is_for_programs:
        return False
    accepted = request.META.get("HTTP_ACCEPT", "").split(",")
    return any(media.partition(";")[0].strip().lower() == "text/html" for media in accepted)


def not_found(request: HttpRequest) -> HttpResponse:
    """Answer 404 with a link to the documents.

    If the path resembles the path of an operation (D2) or of the metadata, the answer also names the right path.
    """
    is_at_pages = getattr(request, "is_at_pages", False)
    return error_response(request, RequestError(SiteFault.NOT_FOUND, hint=_hint(request.path, is_at_pages=is_at_pages)))


def _hint(path: str, *, is_at_pages: bool) -> TranslatableText:
    """Return what to do. `is_at_pages`: the request was sent to AUTH_URL."""
    docs = f"{settings.AUTH_URL}{paths.DOCS}"
    once = re.sub("/{2,}", "/", path)
    bare = once.rstrip("/")
    match = ELSEWHERE.fullmatch(bare)
    name = match["name"].lower() if match else ""
    operation = bare if bare in paths.OPERATIONS else OPERATION_OF.get(name)
    is_of_pages = paths.kind_of(operation or path).is_page
    if operation == bare and once == path != bare and (is_at_pages or not is_of_pages):
        text = gettext_noop("Use {path} without the slash at the end. The documentation is at {docs}.")
        return TranslatableText(text, path=bare, docs=docs)
    elsewhere = gettext_noop("Use {address}. The documentation is at {docs}.")
    if operation:
        address = (settings.AUTH_URL if is_of_pages else settings.BASE_URL) + operation
        return TranslatableText(elsewhere, address=address, docs=docs)
    if is_of_pages and not is_at_pages and is_valid_path(path):
        return TranslatableText(elsewhere, address=settings.AUTH_URL + quote(path), docs=docs)
    if DISCOVERY.search(once):
        return TranslatableText(elsewhere, address=settings.BASE_URL + paths.OPENID_CONFIGURATION, docs=docs)
    if name in REGISTRATION:
        text = gettext_noop(
            "No program registers itself here: an administrator registers applications. The documentation is at {docs}."
        )
        return TranslatableText(text, docs=docs)
    if once.startswith(PROTECTED_RESOURCE):
        text = gettext_noop(
            "This is the authorization server: its metadata is at {address}, and an administrator registers"
            " applications. The documentation is at {docs}."
        )
        return TranslatableText(text, address=settings.BASE_URL + paths.SERVER_METADATA, docs=docs)
    return TranslatableText(gettext_noop("Compare it with the documentation at {docs}."), docs=docs)


def _is_administrator(request: HttpRequest) -> bool:
    """Return whether an administrator is signed in. A request that a middleware refused has no user."""
    return bool(hasattr(request, "user") and request.user.is_staff)


def _page(request: HttpRequest, error: RequestError) -> HttpResponse:
    """Render the error page: first what a person can do, then the details for a developer."""
    status = error.fault.status
    is_of_link = isinstance(error.fault, OAuthFault) and status == HTTPStatus.BAD_REQUEST
    is_sign_in = request.path == paths.AUTHORIZE and is_of_link
    is_sign_out = request.path == paths.LOGOUT and is_of_link
    title, message = words.PAGE_WORDS.get(status, (HTTPStatus(status).phrase, ""))
    if is_sign_in:
        is_damaged = error.fault is OAuthFault.REQUEST_DAMAGED
        title, message = words.SIGN_IN_TITLE, words.DAMAGED_MESSAGE if is_damaged else words.SIGN_IN_MESSAGE
    if is_sign_out:
        is_off = error.fault is OAuthFault.CLIENT_DISABLED
        title = words.SIGN_OUT_TITLE
        message = words.SWITCHED_OFF_SIGN_OUT_MESSAGE if is_off else words.SIGN_OUT_MESSAGE
    if error.fault in words.HOST_FAULTS:
        title, message = words.HOST_TITLE, ""
    sentence = error.fault.translate(**error.details)
    context: dict[str, Any] = {
        "status": status,
        "title": _(title),
        "message": _(message) if message else sentence,
        "error": error.fault.error,
        "description": sentence,
        "for_developers": is_sign_in or is_sign_out,
        "sent_address": getattr(error, "sent_address", ""),
        "time": timezone.now(),
        "reference": references.current.get(),
        "retry_url": request.get_full_path() if status in RETRYABLE and request.method == "GET" else "",
    }
    context["sign_out_url"] = reverse("account_logout") if is_sign_out else ""
    if context["for_developers"] and _is_administrator(request):
        context["record_url"] = f"{reverse('admin:find')}?q={context['reference']}"
    context["sent_parts"] = mark_likely_differences(context["sent_address"][:SHOWN_ADDRESS_LENGTH])
    context["application"] = getattr(error, "application", None)
    if context["application"]:
        context["message"] = _(words.APPLICATION_WORDS[error.fault]) % {"name": context["application"].name}
    elif is_sign_in:
        context["advice"] = _(words.SIGN_IN_ADVICE)
    return render(request, "error.html", context, status=status)
