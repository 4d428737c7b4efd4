"""The answers to exceptions that no view handles, to failed CSRF checks and to wrong hosts."""

from __future__ import annotations

import logging
import re
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import REDIRECT_FIELD_NAME
from django.contrib.sessions.exceptions import SessionInterrupted
from django.core.exceptions import DisallowedHost, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import InterfaceError, InternalError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, UnreadablePostError
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve, reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop
from django.views.decorators.csrf import requires_csrf_token

from accounts import return_path
from accounts.admin_site import not_allowed
from accounts.passwords import hashing
from config.infrastructure import errors, events, paths
from config.infrastructure.errors import NOT_ALLOWED, RequestError, SiteFault
from config.infrastructure.events import Event
from oauth_bridge.consent import pages
from oauth_bridge.consent.pending_request import FIELD_NAME, PendingRequest
from oauth_bridge.oauth import error_responses
from oauth_bridge.oauth.error_responses import error_response

logger = logging.getLogger("oauth_bridge")

RETRY_AFTER_SECONDS = "5"
ACCOUNT_PAGES = "/accounts/"
FORMS_OF_STRANGERS = ("account_login", "account_signup", "account_signup_by_passkey", "account_reset_password")
# The parameter of a redirect after a form that was refused, or whose session has ended, and what the page says.
REFUSED_FIELD_NAME = "refused"
REFUSED = {
    "csrf": gettext_noop("This page was open for too long or in too many windows. Please try again."),
    "csrf_origin": SiteFault.CSRF_ORIGIN.problem,
    "session_ended": gettext_noop(
        "This browser was signed out meanwhile, here or from another browser. Sign in, then see whether what you sent"
        " was carried out."
    ),
}
LOOPBACK_PEERS = ("127.0.0.1", "::1", "::ffff:127.0.0.1")
# Proxies add these headers. If a request has one of these headers, its client may be on another machine.
FORWARDING_HEADERS = ("HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_VIA")
SHOWN_HOST_CHARACTERS = 100
NO_PART_OF_A_HOST = re.compile(r"[\s/?#@=&,;]")
# InternalError is the error of a standby database that refuses a write.
DATABASE_AWAY = (OperationalError, InterfaceError, InternalError)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponseBase:
    """Answer a request that is malformed, too large or for a wrong host, or whose session ended during the request."""
    if isinstance(exception, DisallowedHost):
        return host_not_served(request)
    if isinstance(exception, RequestDataTooBig):
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        return error_response(request, RequestError(SiteFault.TOO_LARGE, limit=limit))
    if isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        limit = settings.DATA_UPLOAD_MAX_NUMBER_FIELDS
        return error_response(request, RequestError(SiteFault.TOO_MANY_FIELDS, limit=limit))
    if isinstance(exception, SessionInterrupted):
        if request.method != "POST":
            return HttpResponseRedirect(request.get_full_path())
        if request.path == reverse("authorize"):
            return csrf_failure(request)
        sign_in = return_path.sign_in_url(request.path)  # without the query, which may name the act that was posted
        return HttpResponseRedirect(f"{sign_in}&{REFUSED_FIELD_NAME}=session_ended", status=303)
    return error_response(request, RequestError(SiteFault.BAD_REQUEST))


def host_not_served(request: HttpRequest) -> HttpResponse:
    """Return 400. Show ALLOWED_HOSTS only if DEBUG is on or the client seems to be on this machine."""
    hosts = ", ".join(settings.ALLOWED_HOSTS)
    host = _logged_host(request, hosts)
    is_local = request.META.get("REMOTE_ADDR") in LOOPBACK_PEERS
    if settings.DEBUG or (is_local and not any(name in request.META for name in FORWARDING_HEADERS)):
        return error_response(request, RequestError(SiteFault.HOST_NAMED, host=host, hosts=hosts))
    return error_response(request, RequestError(SiteFault.HOST))


def host_changed(request: HttpRequest) -> HttpResponse:
    """Return 400. A redirect to AUTH_URL would be repeated without end, because a proxy changes the Host header."""
    host = _logged_host(request, urlsplit(settings.AUTH_URL).netloc)
    return error_response(request, RequestError(SiteFault.HOST_CHANGED, host=host, auth_url=settings.AUTH_URL))


def _logged_host(request: HttpRequest, allowed: str) -> str:
    received = request.META.get("HTTP_HOST", request.META.get("SERVER_NAME", ""))
    host = NOT_ALLOWED.sub("?", NO_PART_OF_A_HOST.split(received)[0])[:SHOWN_HOST_CHARACTERS] or "(none)"
    events.write(Event.HOST_NOT_SERVED, host=host, allowed_hosts=allowed)
    return host


@requires_csrf_token
def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponseBase:
    """Redirect to a page where the person can send the form again. If there is no such page, return 403."""
    if reason.startswith(("Origin ", "Referer ")):  # the header that Django refused
        fault = SiteFault.CSRF_ORIGIN
    else:
        has_cookie = {settings.CSRF_COOKIE_NAME, settings.SESSION_COOKIE_NAME} & request.COOKIES.keys()
        fault = SiteFault.CSRF if has_cookie else SiteFault.CSRF_NO_COOKIE
    error = RequestError(fault)
    answer = _ask_again(request, error) if request.path == reverse("authorize") else _open_again(request, fault)
    if answer is None:
        return error_response(request, error)
    errors.report(error)
    return answer


def _open_again(request: HttpRequest, fault: SiteFault) -> HttpResponse | None:
    """Return a redirect to a page with the form. Return None if no page has it or the form would fail again."""
    return_to = return_path.requested(request)  # raises an exception if the form can't be read
    route, is_signed_in = getattr(request.resolver_match, "url_name", ""), request.user.is_authenticated
    pages = (ACCOUNT_PAGES, reverse("admin:index")) if is_signed_in else (ACCOUNT_PAGES,)
    is_first = route in FORMS_OF_STRANGERS
    # For a browser that sends no cookie, FORMS_OF_STRANGERS would be refused again.
    if not request.path.startswith(pages) or (fault is SiteFault.CSRF_NO_COOKIE and is_first):
        return None
    query = request.GET.copy()
    if not is_signed_in:
        query[REFUSED_FIELD_NAME] = fault.name.lower()
    elif not is_first:
        messages.warning(request, _(REFUSED[fault.name.lower()]))
    if return_to:
        query[REDIRECT_FIELD_NAME] = return_to
    is_posted_only = route in ("forget_account", "mfa_login_webauthn")
    page = reverse("account_login") if is_posted_only else reverse("admin:index") if route == "logout" else request.path
    return HttpResponseRedirect(f"{page}?{query.urlencode()}" if query else page, status=303)


def _ask_again(request: HttpRequest, error: RequestError) -> HttpResponseBase | None:
    try:
        pending = PendingRequest.unseal(request.POST.get(FIELD_NAME, ""))
    except RequestError:
        return None
    pending.note()
    return pages.ask_again(pending, error.cause)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    match = request.resolver_match
    if match and match.app_name == "admin" and request.user.is_authenticated and error_responses.wants_page(request):
        errors.subject().person = request.user.pk
        errors.report(RequestError(SiteFault.FORBIDDEN))
        return not_allowed(request)
    return error_response(request, RequestError(SiteFault.FORBIDDEN))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """Redirect to a page whose path differs only by slashes at the end. Return 404 if there is none."""
    if request.method in ("GET", "HEAD") and (path := _page_with_other_slash(request.path_info)):
        return HttpResponse(status=302, headers={"Location": paths.path_as_sent(request, path)})
    return error_responses.not_found(request)


def _page_with_other_slash(path: str) -> str:
    kind, bare = paths.kind_of(path), path.rstrip("/")
    if not kind.is_page or kind.is_for_programs:
        return ""
    for candidate in {bare, f"{bare}/"} - {path}:
        with suppress(Resolver404):
            if resolve(candidate).url_name:  # the admin's route for all other paths has no name
                return candidate
    return ""


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 503 for an unavailable database or busy password hashing, 400 for an unreadable body, otherwise 500."""
    exception = sys.exc_info()[1]
    if isinstance(exception, DATABASE_AWAY):
        code = getattr(exception.__cause__, "sqlite_errorname", None) or getattr(exception.__cause__, "sqlstate", None)
        logger.error("database away", extra={"kind": type(exception).__name__, "code": code})
        connection.close()  # an SQLite file that was opened read-only stays read-only on its connection
        return error_response(request, RequestError(SiteFault.AWAY, {"Retry-After": RETRY_AFTER_SECONDS}))
    if isinstance(exception, UnreadablePostError):  # the client has disconnected or was silent for too long
        return error_response(request, RequestError(SiteFault.BAD_REQUEST))
    if isinstance(exception, hashing.HashingBusy):
        return error_response(request, RequestError(SiteFault.BUSY, {"Retry-After": str(hashing.RETRY_AFTER_SECONDS)}))
    logger.error("unhandled exception", exc_info=exception)
    return error_response(request, RequestError(SiteFault.SERVER_ERROR))
