"""Pass the return path from page to page: the person continues at this path after the sign-in.

The path is in the parameter `next` and also in the session, because some steps lose the parameter.
"""

from __future__ import annotations

import time
import unicodedata
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import MAX_URL_REDIRECT_LENGTH, url_has_allowed_host_and_scheme

LOGIN_FIELD_NAME = "login"
SESSION_KEY = "return"
RETURN_AGE_SECONDS = 3600
URL_MAX_LENGTH = MAX_URL_REDIRECT_LENGTH - 1024  # leaves 1,024 characters for the URL in front of `next`

_STEPS = (
    "account_login",
    "account_email_verification_sent",
    "account_reset_password_done",
    "mfa_authenticate",
    "mfa_signup_webauthn",
)


class StepMixin:
    """Adds the return path to redirects between the steps of a sign-in, so that each tab has its own path."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return carry(request, super().dispatch(request, *args, **kwargs))  # type: ignore[misc]


def carry(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if response.get("Location") in [reverse(step) for step in _STEPS]:
        response["Location"] += query(request)
    return response


def is_own_path(url: str) -> bool:
    """Return whether `url` is a path on this host, is short enough, and has no control characters."""
    return (
        url.startswith("/")
        and len(url) <= URL_MAX_LENGTH
        and url_has_allowed_host_and_scheme(url.partition("?")[0], allowed_hosts=None)  # for at most 2,048 characters
        and not any(unicodedata.category(character) == "Cc" for character in url)
    )


def requested(request: HttpRequest) -> str:
    """Return the request's `next`, or "" if it is missing or not a path of this service."""
    url = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
    return url if is_own_path(url) else ""


def found(request: HttpRequest) -> str:
    return requested(request) or kept_path(request)


def query(request: HttpRequest) -> str:
    return_to = found(request)
    return url_of("", return_to) if return_to else ""


def url_of(page: str, return_to: str) -> str:
    return f"{page}?{urlencode({REDIRECT_FIELD_NAME: return_to})}"


def sign_in_url(return_to: str, *, login: str = "") -> str:
    """Return the URL of the sign-in page. `login` is the address that the page suggests."""
    url = url_of(reverse("account_login"), return_to)
    return f"{url}&{urlencode({LOGIN_FIELD_NAME: login})}" if login else url


def keep(request: HttpRequest, return_to: str = "") -> None:
    """Store `return_to` in the session for an hour. If `return_to` is empty, store the request's `next`."""
    if return_to := return_to or requested(request):
        request.session[SESSION_KEY] = [return_to, int(time.time())]


def kept_path(request: HttpRequest) -> str:
    return_to, kept_at = request.session.get(SESSION_KEY) or ("", 0)
    return return_to if time.time() - kept_at < RETURN_AGE_SECONDS else ""


def take(request: HttpRequest) -> str:
    return_to = kept_path(request)
    request.session.pop(SESSION_KEY, None)
    return return_to
