"""Mask possible credentials in a sent address before it is recorded or quoted. D3, D4, D24."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

MASK = "…"
MOST_MASKED = 500
MOST_COMPARED = 2_000
MAX_QUOTED_LENGTH = 300

ENCODED_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*%3a", re.IGNORECASE)
# The part before the user name and the host, even in a malformed address. The expression requires a slash after the
# colon, because in "user:password@host" the colon does not end a scheme.
_BEFORE_AUTHORITY = re.compile(r"[^A-Za-z0-9]*(?:[A-Za-z][A-Za-z0-9+.-]*:[/\\]+)?")
_VALUE_IN_PATH = re.compile(r"[;=]|%(?:3[bdf]|2[36])", re.IGNORECASE)


def quoted_for_description(address: str, *, without: Iterable[str] = ()) -> str:
    """Percent-encode the address for an `error_description`, and cut it after 300 characters.

    Each credential in `without` is replaced by `...`. A value that is not an absolute address is not quoted, because it
    may be a credential in the wrong parameter.
    """
    if not re.match("[A-Za-z][A-Za-z0-9+.-]*:", address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= MAX_QUOTED_LENGTH else f"{encoded[:MAX_QUOTED_LENGTH]}..."


def masked(address: str) -> str:
    """Mask possible credentials in the address: user name, password, the values of the query, the fragment.

    This function does not use a URL parser, because a malformed address must be masked too. The result has at most 500
    characters. "?" replaces a control character or half a surrogate pair.
    """
    text = address[:MOST_COMPARED]
    if ENCODED_SCHEME.match(text):
        text = unquote(text, errors="replace")
    end = min((place for place in map(text.find, "?#") if place >= 0), default=len(text))
    query, hash_sign, _fragment = text[end:].partition("#")
    shown = _without_userinfo(text[:end])
    if value := _VALUE_IN_PATH.search(shown):
        shown = f"{shown[: value.end()]}{MASK}"
    if query:
        shown += "?" + "&".join(_without_value(part) for part in re.split("[&;]", query[1:]))
    if hash_sign:
        shown += f"#{MASK}"
    return "".join(each if each.isprintable() else "?" for each in shown[:MOST_MASKED])


def _without_value(part: str) -> str:
    name, equals, _value = part.partition("=")
    return f"{name}={MASK}" if equals else MASK


def _without_userinfo(text: str) -> str:
    """Mask the user name and password in an address without a query.

    A path may contain an "@" that does not belong to a user name.
    """
    start = _BEFORE_AUTHORITY.match(text).end()  # type: ignore[union-attr]
    authority = re.split(r"[/\\]", text[start:], maxsplit=1)[0]
    _host, colon, port = authority.rpartition(":")
    # If a password contains a slash, the part before the slash looks like a port that is not a number.
    is_odd = bool(colon) and not port.isdigit() and "@" in text[start:]
    if "@" not in authority and not is_odd:
        return text
    at = text.rindex("@") if is_odd and "@" not in authority else start + authority.rindex("@")
    return f"{text[:start]}{MASK}{text[at:]}"
