"""Pass the return path and the caption of a sign-in from page to page.

The return path is the path of this service where the person continues after the sign-in. The caption names the
application that asked for the sign-in. The parameters `next` and `for` contain return path and caption. The session
also stores return path and caption, because some flows lose the parameters: the steps after the password, a password
reset, and a code page that closes after three wrong codes.
"""

from __future__ import annotations

import hashlib
import time
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib.auth import REDIRECT_FIELD_NAME
from django.core import signing
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.http import MAX_URL_REDIRECT_LENGTH, url_has_allowed_host_and_scheme

from config.infrastructure.graphemes import first_grapheme

CAPTION_FIELD_NAME = "for"
LOGIN_FIELD_NAME = "login"
CAPTION_AGE_SECONDS = 24 * 3600
SESSION_KEY = "return"
AFTER_FACTOR_KEY = "after_factor"  # session key of the page that requires a second factor
RETURN_AGE_SECONDS = 3600
LONG_NAME_LENGTH = 30
URL_MAX_LENGTH = MAX_URL_REDIRECT_LENGTH - 1024  # leaves 1,024 characters for the URL in front of `next`

_SALT = "accounts.returning"
_STEPS = (
    "account_login",
    "account_email_verification_sent",
    "account_reset_password_done",
    "mfa_authenticate",
    "mfa_signup_webauthn",
)


@dataclass(frozen=True)
class Caption:
    """The name, host, logo and homepage of the application that asked for the sign-in."""

    name: str
    host: str = ""
    logo: str = ""
    homepage: str = ""

    @property
    def initial(self) -> str:
        """The letter that replaces a missing logo."""
        return first_grapheme(self.name).upper()

    @property
    def is_long(self) -> bool:
        """True if the name is so long that its heading needs a smaller font."""
        return len(self.name) > LONG_NAME_LENGTH


class StepMixin:
    """A step of the sign-in. The view passes the return path and the caption to the URL of the next step."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        return carry(request, super().dispatch(request, *args, **kwargs))  # type: ignore[misc]


def is_own_path(url: str) -> bool:
    """Return whether `url` is a path of this service, so that a redirect to `url` stays on this host.

    Django's check refuses more than 2,048 characters, so it gets the path without the query.
    """
    return (
        url.startswith("/")
        and len(url) <= URL_MAX_LENGTH
        and url_has_allowed_host_and_scheme(url.partition("?")[0], allowed_hosts=None)
        and not any(unicodedata.category(character) == "Cc" for character in url)
    )


def requested(request: HttpRequest) -> str:
    """Return the `next` of a request, or an empty string if it is missing or not a path of this service."""
    url = request.POST.get(REDIRECT_FIELD_NAME) or request.GET.get(REDIRECT_FIELD_NAME) or ""
    return url if is_own_path(url) else ""


def form_field(request: HttpRequest) -> dict[str, Any]:
    """Return the checked `next` for the form of the page. allauth's context contains an unchecked `next`."""
    return {
        "redirect_field_name": REDIRECT_FIELD_NAME,
        "redirect_field_value": requested(request),
    }


def sign_in_url(return_to: str, *, name: str = "", host: str = "", logo: str = "", login: str = "") -> str:
    """Return the URL of the sign-in page that continues at `return_to`.

    With `name`, the page shows "to continue to NAME". `login` is the initial value of the address field.
    """
    url = _address("account_login", return_to, _signed_caption(return_to, name, host, logo))
    return f"{url}&{urlencode({LOGIN_FIELD_NAME: login})}" if login else url


def switch_account_url(return_to: str, *, name: str = "", host: str = "", logo: str = "") -> str:
    """Return the URL of the sign-out page for the form "Not you?".

    After the sign-out, the person continues at `sign_in_url` with the same arguments.
    """
    return _address("account_logout", return_to, _signed_caption(return_to, name, host, logo))


def send_code_url(return_to: str, *, name: str = "", host: str = "", logo: str = "") -> str:
    """Return the URL of the view that mails a code to the signed-in person and then continues at `return_to`."""
    return _address("send_code", return_to, _signed_caption(return_to, name, host, logo))


def code_page_url(request: HttpRequest) -> str:
    """Return the URL of the page that asks for the mailed code and then continues at the URL of the request.

    The returned URL contains the caption of the request.
    """
    found, return_to = caption(request), request.get_full_path()
    signed = _signed_caption(return_to, found.name, found.host, found.logo) if found else ""
    return _address("account_email_verification_sent", return_to, signed)


def caption(request: HttpRequest) -> Caption | None:
    """Return the caption of the request or of the session, or None if there is no valid signed caption."""
    return _unsealed(*_way(request))


def query(request: HttpRequest) -> str:
    """Return the checked return path and caption as the query of a URL, or an empty string without a return path."""
    return_to, signed = _way(request)
    return _query(return_to, signed if _unsealed(return_to, signed) else "")


def onward_from_sign_out(request: HttpRequest) -> str:
    """Return the URL of the sign-in page, with the return path and the caption of the sign-out page."""
    return reverse("account_login") + query(request)


def carry(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """If the response redirects to another step of the sign-in, add the return path and the caption to the URL.

    So the page of the next step names the application and continues at the return path, even if another tab signs in
    for another application.
    """
    if response.get("Location") in {reverse(step) for step in _STEPS}:
        response["Location"] += query(request)
    return response


def keep(request: HttpRequest) -> None:
    """Keep the return path of the request and its caption in the session for an hour."""
    if return_to := requested(request):
        signed = request.GET.get(CAPTION_FIELD_NAME, "")
        kept = signed if _unsealed(return_to, signed) else ""
        request.session[SESSION_KEY] = [return_to, kept, int(time.time())]


def kept_path(request: HttpRequest) -> str:
    """Return the return path in the session, or an empty string if it is missing or too old."""
    return _kept(request)[0]


@contextmanager
def kept(request: HttpRequest) -> Iterator[None]:
    """Restore the return path in the session after the block has emptied the session."""
    stored = request.session.get(SESSION_KEY)
    yield
    if stored:
        request.session[SESSION_KEY] = stored


def drop(request: HttpRequest) -> None:
    request.session.pop(SESSION_KEY, None)


def keep_after_factor(request: HttpRequest, return_to: str) -> None:
    """Store the path where the person continues after setting up a second factor. The path is valid for an hour."""
    request.session[AFTER_FACTOR_KEY] = [return_to, int(time.time())]


def take_after_factor(request: HttpRequest) -> str:
    """Return and delete the path that `keep_after_factor` stored. Without such a path, return an empty string."""
    return_to, kept_at = request.session.pop(AFTER_FACTOR_KEY, None) or ("", 0)
    return return_to if time.time() - kept_at < RETURN_AGE_SECONDS and is_own_path(return_to) else ""


def _way(request: HttpRequest) -> tuple[str, str]:
    """Return the return path and unchecked caption of the request, or of the session if the request has none."""
    return_to = requested(request)
    return (return_to, request.GET.get(CAPTION_FIELD_NAME, "")) if return_to else _kept(request)


def _kept(request: HttpRequest) -> tuple[str, str]:
    return_to, signed, kept_at = request.session.get(SESSION_KEY) or ("", "", 0)
    is_current = time.time() - kept_at < RETURN_AGE_SECONDS and is_own_path(return_to)
    return (return_to, signed) if is_current else ("", "")


def _unsealed(return_to: str, signed: str) -> Caption | None:
    """Return the caption, or None if the caption is unsigned, too old, or signed for another return path."""
    if not signed:
        return None
    try:
        name, host, logo, return_digest = signing.loads(signed, salt=_SALT, max_age=CAPTION_AGE_SECONDS)
    except (signing.BadSignature, ValueError):
        return None
    return Caption(name, host, logo) if return_digest == _digest(return_to) else None


def _address(route: str, return_to: str, signed_caption: str) -> str:
    return reverse(route) + _query(return_to, signed_caption)


def _query(return_to: str, signed_caption: str) -> str:
    fields = {REDIRECT_FIELD_NAME: return_to, CAPTION_FIELD_NAME: signed_caption}
    fields = {field: value for field, value in fields.items() if value}
    return f"?{urlencode(fields)}" if fields else ""


def _signed_caption(return_to: str, name: str, host: str, logo: str) -> str:
    """Sign the caption together with the return path, so that the caption is invalid with another path."""
    return signing.dumps([name, host, logo, _digest(return_to)], salt=_SALT, compress=True) if name else ""


def _digest(return_to: str) -> str:
    return hashlib.sha256(return_to.encode("utf-8", "surrogatepass")).hexdigest()[:32]
