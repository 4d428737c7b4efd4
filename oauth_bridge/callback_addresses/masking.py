"""Remove possible credentials from a sent address before the address is recorded or quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

MASK = "…"
MOST_MASKED = 500
MOST_COMPARED = 2_000
MAX_QUOTED_LENGTH = 300

ENCODED_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*%3a", re.IGNORECASE)
# The user name and password, even in a malformed address. Usually the last @ of the host ends them. If the text after
# the last colon of the host is not a port, a password may contain a slash, and the last @ of the address ends them.
# The slash after the scheme is required, because in "user:password@host" the colon does not end a scheme.
_USERINFO = re.compile(
    r"((?>[^A-Za-z0-9]*(?:[A-Za-z][A-Za-z0-9+.-]*:[/\\]+)?))(?:[^/\\]*|[^/\\]*:(?![0-9]+[/\\])[^/\\:]*[/\\].*)@",
    re.DOTALL,
)
_AFTER_PATH = re.compile(r"([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_VALUE_IN_PATH = re.compile(r"([;=]|%(?:3[bdf]|2[36])).*", re.IGNORECASE | re.DOTALL)
_VALUE_IN_QUERY = re.compile(r"([?&;](?:[^&;=]*=)?)[^&;]*")


def quoted_for_description(address: str, *, without: Iterable[str] = ()) -> str:
    """Return the address, percent-encoded for an `error_description`. "..." replaces the credentials in `without`.

    If the address has no scheme, it may be a credential. Then return only words such as "not an absolute address".
    """
    if ENCODED_SCHEME.match(address):
        return "percent-encoded twice"
    if not re.match("[A-Za-z][A-Za-z0-9+.-]*:", address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= MAX_QUOTED_LENGTH else f"{encoded[:MAX_QUOTED_LENGTH]}..."


def masked(address: str) -> str:
    """Replace possible credentials in the address by MASK, even if the address is too malformed for a URL parser."""
    text = address[:MOST_COMPARED]
    if ENCODED_SCHEME.match(text):
        text = unquote(text, errors="replace")
    path, query, fragment = _AFTER_PATH.fullmatch(text).groups("")  # type: ignore[union-attr]  # matches every text
    if found := _USERINFO.match(path):
        path = f"{found[1]}{MASK}@{path[found.end() :]}"
    shown = _VALUE_IN_PATH.sub(rf"\1{MASK}", path) + _VALUE_IN_QUERY.sub(rf"\1{MASK}", query)
    shown += f"#{MASK}" if fragment else ""
    return "".join(each if each.isprintable() else "?" for each in shown[:MOST_MASKED])
