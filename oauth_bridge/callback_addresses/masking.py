"""Mask possible credentials in a sent address before it is recorded or quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

MASK = "…"
MOST_MASKED = 500
MOST_COMPARED = 2_000
MAX_QUOTED_LENGTH = 300

ENCODED_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*%3a", re.IGNORECASE)
# The user name and password, even in a malformed address: what stands before the last @ of the host or, if the host has
# something after its last colon that is no port (a password with a slash looks so), before the last @ of the address.
# The slash after the scheme is required, because in "user:password@host" the colon does not end a scheme.
_USERINFO = re.compile(
    r"((?>[^A-Za-z0-9]*(?:[A-Za-z][A-Za-z0-9+.-]*:[/\\]+)?))(?:[^/\\]*|[^/\\]*:(?![0-9]+[/\\])[^/\\:]*[/\\].*)@",
    re.DOTALL,
)
_AFTER_PATH = re.compile(r"([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_VALUE_IN_PATH = re.compile(r"([;=]|%(?:3[bdf]|2[36])).*", re.IGNORECASE | re.DOTALL)
_VALUE_IN_QUERY = re.compile(r"([?&;](?:[^&;=]*=)?)[^&;]*")


def quoted_for_description(address: str, *, without: Iterable[str] = ()) -> str:
    """Percent-encode the address for an `error_description`, and cut it after 300 characters.

    `...` replaces each credential in `without`. A value that is no absolute address is not quoted, because it may be a
    credential.
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
    """Mask possible credentials in the address: user name, password, values in path and query, the fragment.

    A malformed address is masked too, so no URL parser is used. The result has at most 500 characters. "?" replaces a
    control character or half a surrogate pair.
    """
    text = address[:MOST_COMPARED]
    if ENCODED_SCHEME.match(text):
        text = unquote(text, errors="replace")
    path, query, fragment = _AFTER_PATH.fullmatch(text).groups("")  # type: ignore[union-attr]  # matches every text
    if found := _USERINFO.match(path):
        path = f"{found[1]}{MASK}@{path[found.end() :]}"
    shown = _VALUE_IN_PATH.sub(rf"\1{MASK}", path) + _VALUE_IN_QUERY.sub(rf"\1{MASK}", query)
    shown += f"#{MASK}" if fragment else ""
    return "".join(each if each.isprintable() else "?" for each in shown[:MOST_MASKED])
