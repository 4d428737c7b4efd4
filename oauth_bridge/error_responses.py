"""Answer an error with JSON for programs or with a page for people. Specification 7; D4, D19.

`errors` contains the sentences of the errors, `error_page_words` the words of the pages. `callback` sends errors to the
callback address of an application.
"""

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

from config.infrastructure import errors, paths, references
from config.infrastructure.errors import RequestError, SiteFault
from config.infrastructure.translation import TranslatableText
from oauth_bridge import error_page_words as words
from oauth_bridge.redirect_uri_likely_faults import mark_likely_differences

# Unknown paths at which some clients look for the metadata (RFC 8414 §3.1) or the keys.
DISCOVERY = re.compile(
    r"/\.well-known/(openid-configuration|oauth-authorization-server|jwks)|/oauth/(certs|keys|\.well-known)\b"
)
# The paths that operations have in other services. The last part of the path names the operation. Matching takes linear
# time.
ELSEWHERE = re.compile(
    r"(?:/(?:api|connect|login|o|oauth2?|openid-connect|protocol|v[12]))*/(?P<name>[a-z_]+)/?", re.IGNORECASE
)
OPERATION_OF = {
    "auth": paths.AUTHORIZE,
    "authorization": paths.AUTHORIZE,
    "authorize": paths.AUTHORIZE,
    "access_token": paths.TOKEN,
    "token": paths.TOKEN,
    "me": paths.USERINFO,
    "user_info": paths.USERINFO,
    "userinfo": paths.USERINFO,
}
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
    return error_response(request, RequestError(SiteFault.NOT_FOUND, hint=_hint(request.path)))


def _hint(path: str) -> TranslatableText:
    docs = f"{settings.AUTH_URL}{paths.DOCS}"
    bare = path.rstrip("/")
    if bare in paths.OPERATIONS:
        text = gettext_noop("Use {path} without the slash at the end. The documentation is at {docs}.")
        return TranslatableText(text, path=bare, docs=docs)
    elsewhere = gettext_noop("Use {address}. The documentation is at {docs}.")
    if DISCOVERY.search(path):
        return TranslatableText(elsewhere, address=settings.BASE_URL + paths.OPENID_CONFIGURATION, docs=docs)
    origins = {paths.AUTHORIZE: settings.AUTH_URL, paths.TOKEN: settings.BASE_URL, paths.USERINFO: settings.BASE_URL}
    match = ELSEWHERE.fullmatch(path)
    if match and (operation := OPERATION_OF.get(match["name"].lower())):
        return TranslatableText(elsewhere, address=origins[operation] + operation, docs=docs)
    return TranslatableText(gettext_noop("Compare it with the documentation at {docs}."), docs=docs)


def _is_administrator(request: HttpRequest) -> bool:
    """Return whether an administrator is signed in. A request that a middleware refused has no user."""
    return bool(hasattr(request, "user") and request.user.is_staff)


def _page(request: HttpRequest, error: RequestError) -> HttpResponse:
    """Render the error page: first what a person can do, then the details for a developer."""
    status = error.fault.status
    is_sign_in = request.path == paths.AUTHORIZE and status == HTTPStatus.BAD_REQUEST
    is_sign_out = request.path == paths.LOGOUT and status == HTTPStatus.BAD_REQUEST
    title, message = words.PAGE_WORDS.get(status, (HTTPStatus(status).phrase, ""))
    if is_sign_in:
        title, message = words.SIGN_IN_TITLE, words.SIGN_IN_WORDS.get(error.fault, words.SIGN_IN_MESSAGE)
    if is_sign_out:
        title, message = words.SIGN_OUT_TITLE, words.SIGN_OUT_MESSAGE
    if error.fault in words.HOST_FAULTS:
        is_sign_in, is_sign_out, title, message = False, False, words.HOST_TITLE, ""
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
        context["message"] = _(words.APPLICATION_MESSAGE) % {"name": context["application"].name}
    elif is_sign_in:
        context["advice"] = _(words.SIGN_IN_ADVICE)
    return render(request, "error.html", context, status=status)
