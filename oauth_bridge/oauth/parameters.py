"""Read the parameters of queries and bodies. RFC 6749 §3.1, §3.2, appendix B."""

from __future__ import annotations

import json
import re
from binascii import unhexlify
from collections.abc import Collection, Iterable
from urllib.parse import quote_from_bytes

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_noop

from config.infrastructure.errors import RequestError, SiteFault, TranslatableText
from oauth_bridge.errors import OAuthFault

BODY_LIMIT_BYTES = 64 * 1024
POSTED_LIMIT_BYTES = 12 * 1024
JSON_LIMIT_BYTES = 8 * 1024
# A body above BODY_LIMIT_BYTES is read up to this length. If a part of the body stayed unread, the server would parse
# this part as the next request.
READ_BYTES = 1024 * 1024
# Error sentences do not quote a longer media type.
MAX_QUOTED_LENGTH = 40
# People paste these values, often with a line end.
PASTED_PARAMETERS = ("client_id", "client_secret")
# The fields that `texts` returns. Other fields are ignored, even if repeated (RFC 6749 §3.1, §3.2).
FORM_FIELDS = (
    "client_id",
    "client_secret",
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
    "token",
    "access_token",
    "csrfmiddlewaretoken",
    "pending",
    "decision",
    "remember",
)
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Parameters:
    """The parameters of a query or form body. Only the first value of a repeated parameter is kept."""

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._values: dict[str, bytes] = {}  # the first value of each
        self._repeated: set[str] = set()
        for pair in encoded.replace(b"+", b" ").split(b"&"):
            if pair:
                name, _, value = pair.partition(b"=")
                key = _unquoted(name).decode("utf-8", "replace")
                if key in self._values:
                    self._repeated.add(key)
                else:
                    self._values[key] = _unquoted(value)

    def names(self) -> list[str]:
        return list(self._values)

    def repeated(self, names: Iterable[str]) -> str:
        return next((name for name in names if name in self._repeated), "") if self._repeated else ""

    def text(self, name: str) -> str:
        """Return the first value of the parameter, or an empty string if the parameter is missing. RFC 6749 §3.1."""
        return self._values.get(name, b"").decode("utf-8", "replace")

    def texts_of(self, names: Collection[str]) -> dict[str, str]:
        found = {name: value.decode("utf-8", "replace") for name, value in self._values.items() if name in names}
        return {name: text for name, text in found.items() if text}

    def percent_encoded(self, name: str) -> str | None:
        value = self._values.get(name)
        return None if value is None else quote_from_bytes(value, safe="")

    def lost(self, name: str, known: Collection[str]) -> bool:
        """Guess whether an unencoded + or & has damaged the value of `name`. `known`: the names of valid parameters."""
        pairs = self._encoded.split(b"&")
        places = [place for place, pair in enumerate(pairs) if pair.startswith(f"{name}=".encode())]
        if not places:
            return False
        value, after = pairs[places[0]], pairs[places[0] + 1 : places[0] + 2]
        followers = [each.partition(b"=")[0].decode("utf-8", "replace") for each in after]
        return b"+" in value.partition(b"=")[2].strip(b"+") or (
            b"?" in value and any(each and each not in known for each in followers)
        )

    def texts(self) -> dict[str, str]:
        """Return the non-empty values of FORM_FIELDS by name. Raises RequestError: a field is repeated or malformed."""
        if name := self.repeated(FORM_FIELDS):
            raise RequestError(OAuthFault.REPEATED, name=name)
        texts = {}
        for name, value in self._values.items():
            if name not in FORM_FIELDS:
                continue
            try:
                texts[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                raise RequestError(OAuthFault.MALFORMED, name=name) from None
            if name in PASTED_PARAMETERS:
                refuse_padding(name, texts[name])
            if CONTROL_CHARACTERS.search(texts[name]):
                raise RequestError(OAuthFault.MALFORMED, name=name)
        return {name: text for name, text in texts.items() if text}


def _unquoted(part: bytes) -> bytes:
    """Decode percent-encoded bytes. `urllib` takes ten times as long for many invalid escapes, such as "%%"."""
    return _ESCAPE.sub(lambda found: unhexlify(found[1]), part) if b"%" in part else part


def _media_type(request: HttpRequest) -> str:
    return str(request.META.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()


def _is_form(request: HttpRequest) -> bool:
    return _media_type(request) == "application/x-www-form-urlencoded"


def refuse_padding(name: str, value: str) -> None:
    """Raise RequestError if `value` begins or ends with white space, which no client_id or client_secret contains."""
    if value != value.strip():
        raise RequestError(OAuthFault.PADDED, name=name)


def of_query(request: HttpRequest) -> Parameters:
    # WSGI decodes the bytes of the query as latin-1 (PEP 3333).
    return Parameters(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"))


def as_link(request: HttpRequest, *, unless: str, needs: str = "") -> HttpResponse | None:
    """Return a redirect that repeats the POST of another site's form as a GET, or None for any other request.

    Browsers send no session cookie with such a POST, so the person would seem signed out. `unless`: a field that only
    this service's own forms have. `needs`: a field that the form must have. OpenID Connect Core 1.0 §3.1.2.1.
    """
    if request.method != "POST" or request.META.get("QUERY_STRING") or not _is_form(request):
        return None
    try:
        body = request.body
    except Exception:  # the later parsing of the form reports the error
        return None
    sent = Parameters(body)
    if sent.text(unless) or (needs and not sent.text(needs)):
        return None
    query = quote_from_bytes(body, safe="%&=+-._~!$'()*,;:@/?")
    if len(query) > POSTED_LIMIT_BYTES:
        raise RequestError(SiteFault.TOO_LARGE, limit=POSTED_LIMIT_BYTES)
    return HttpResponseRedirect(f"{request.path}?{query}" if query else request.path, status=303)


def has_body(request: HttpRequest) -> bool:
    """Return whether the request is a POST with a body: it has a Content-Length above 0, or is a chunked form."""
    if request.method != "POST":
        return False
    is_chunked = "HTTP_TRANSFER_ENCODING" in request.META
    return request.META.get("CONTENT_LENGTH") not in (None, "", "0") or (is_chunked and _is_form(request))


def read_form(request: HttpRequest, *, has_been_read: bool = False) -> Parameters:
    """Return the parameters of a form body. `has_been_read`: whether Django's CSRF check has already read the body."""
    if request.META.get("QUERY_STRING"):
        raise RequestError(OAuthFault.IN_URL)
    if not _is_form(request):
        media_type = _media_type(request)
        is_quotable = len(media_type) <= MAX_QUOTED_LENGTH and re.fullmatch(r"[\w.+-]+/[\w.+-]+", media_type)
        given = media_type if is_quotable else TranslatableText(gettext_noop("of no stated media type"))
        raise RequestError(SiteFault.MEDIA_TYPE, given=given)
    try:
        body = request.body if has_been_read else _read(request, READ_BYTES)
    except Exception:  # each server raises its own exceptions for an unreadable body
        raise RequestError(SiteFault.BAD_REQUEST) from None
    if len(body) > BODY_LIMIT_BYTES:
        raise RequestError(SiteFault.TOO_LARGE, limit=BODY_LIMIT_BYTES)
    return Parameters(body)


def _read(request: HttpRequest, most: int) -> bytes:
    # Django reads only Content-Length bytes, and a chunked body has no length.
    terminated = request.META.get("wsgi.input_terminated")
    return (request.META["wsgi.input"] if terminated else request).read(most)


def client_id_of_json(request: HttpRequest) -> str:
    """Return the `client_id` in a JSON body, or "". Use it only in the activity log: the operations refuse JSON."""
    if _media_type(request) != "application/json":
        return ""
    try:
        sent = json.loads(_read(request, JSON_LIMIT_BYTES))
    except Exception:  # of the server, as in `read_form`, or of the parser
        return ""
    return str(sent.get("client_id", "")) if isinstance(sent, dict) else ""


def require(form: dict[str, str], *names: str) -> None:
    for name in names:
        if name not in form:
            cause = "client_id_not_in_form" if name == "client_id" else f"{name}_missing"
            raise RequestError(OAuthFault.MISSING, name=name).about(cause=cause)
