"""Reading parameters strictly: as bytes, each once, nothing guessed. D5, D12; RFC 6749 §3.1, §3.2, appendix B."""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.http import HttpRequest

from oauth_bridge.errors import Fault, RequestError

BODY_LIMIT_BYTES = 64 * 1024
# What is left unread of a larger body would be taken for the next request on a kept connection.
DRAINED_BYTES = 1024 * 1024
# A longer name is not repeated in a sentence: it may be a credential that got into the wrong place.
SHOWN_CHARACTERS = 40
# What people copy and paste, often with the end of its line.
PASTED = ("client_id", "client_secret")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Parameters:
    """The pairs of a query or form body, in the order they came."""

    def __init__(self, encoded: bytes) -> None:
        self._values: dict[str, list[bytes]] = {}
        for pair in encoded.split(b"&"):
            if pair:
                name, _, value = pair.replace(b"+", b" ").partition(b"=")
                key = unquote_to_bytes(name).decode("utf-8", "replace")
                self._values.setdefault(key, []).append(unquote_to_bytes(value))

    def repeated(self) -> list[str]:
        """The names that are there more than once, as a sentence may show them."""
        return [_shown(name) for name, values in self._values.items() if len(values) > 1]

    def text(self, name: str) -> str:
        """The value, or an empty string: one without a value counts as omitted (RFC 6749 §3.1)."""
        return self._values.get(name, [b""])[0].decode("utf-8", "replace")

    def percent_encoded(self, name: str) -> str | None:
        """The value byte for byte, ready for a URL; None when it was not sent."""
        values = self._values.get(name)
        return None if values is None else quote_from_bytes(values[0], safe="")

    def texts(self) -> dict[str, str]:
        """Every parameter that has a value.

        Raises RequestError: a value is repeated, not UTF-8, or holds a control character; or `refuse_padding`.
        """
        for name in self.repeated():
            raise RequestError(Fault.REPEATED, name=name)
        texts = {}
        for name, (value,) in self._values.items():
            try:
                texts[name] = value.decode("utf-8")
            except UnicodeDecodeError:
                raise RequestError(Fault.MALFORMED, name=_shown(name)) from None
            if name in PASTED:
                refuse_padding(name, texts[name])
            if CONTROL_CHARACTERS.search(name + texts[name]):
                raise RequestError(Fault.MALFORMED, name=_shown(name))
        return {name: text for name, text in texts.items() if text}


def refuse_padding(name: str, value: str) -> None:
    """Raises RequestError: the value begins or ends with white space, which no credential made here does."""
    if value != value.strip():
        raise RequestError(Fault.PADDED, name=name)


def _shown(name: str) -> str:
    return name if len(name) <= SHOWN_CHARACTERS else f"with a name of {len(name)} characters"


def of_query(request: HttpRequest) -> Parameters:
    # WSGI hands the query over as bytes in latin-1 clothing (PEP 3333).
    return Parameters(request.META.get("QUERY_STRING", "").encode("latin-1", "replace"))


def of_form(request: HttpRequest, *, is_kept: bool = False) -> dict[str, str]:
    """The parameters of a form body. `is_kept`: Django's CSRF check has read it, so the copy of it is read.

    Raises RequestError: parameters in the URL, another media type, a body of more than 65,536 bytes, or an error of
    `Parameters.texts`.
    """
    if request.META.get("QUERY_STRING"):
        raise RequestError(Fault.IN_URL)
    media_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        is_shown = len(media_type) <= SHOWN_CHARACTERS and re.fullmatch(r"[\w.+-]+/[\w.+-]+", media_type)
        given = media_type if is_shown else "of no stated media type"
        raise RequestError(Fault.MEDIA_TYPE, given=given)
    # Django reads by Content-Length alone; where the server ends the input itself, a chunked body is read as well.
    terminated = request.META.get("wsgi.input_terminated")
    try:
        body = request.body if is_kept else (request.META["wsgi.input"] if terminated else request).read(DRAINED_BYTES)
    except Exception:  # each server has exceptions of its own for a body that can't be read
        raise RequestError(Fault.BAD_REQUEST) from None
    if len(body) > BODY_LIMIT_BYTES:
        raise RequestError(Fault.TOO_LARGE, limit=BODY_LIMIT_BYTES)
    return Parameters(body).texts()
