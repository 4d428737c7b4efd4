"""Find the likely faults of a sent callback address, and quote the address in an error. D3, D4."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from urllib.parse import quote

from django.utils.translation import gettext_noop

from config.infrastructure.hosts import LOOPBACK_HOSTS

MAX_QUOTED_LENGTH = 300
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
URI_PARTS = re.compile(rf"({SCHEME.pattern})?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
PORT = re.compile(r":[0-9]*\Z")
ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_WORDS = re.compile(r"[A-Za-z0-9_~-]+\.?|.", re.DOTALL)
QUOTATION_MARKS = frozenset("\"'`‘’‚“”„‹›«»")


def quoted_for_description(address: str, *, without: Iterable[str] = ()) -> str:
    """Percent-encode the address for an `error_description`, and cut it after 300 characters.

    Each credential in `without` is replaced by `...`. A value that is not an absolute address is not quoted, because it
    may be a credential in the wrong parameter.
    """
    if not SCHEME.match(address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= MAX_QUOTED_LENGTH else f"{encoded[:MAX_QUOTED_LENGTH]}..."


def likely_differences(address: str) -> list[str]:
    """Return the likely faults of a sent address, in words that are marked for translation. D3.

    This function reads only the sent address, so the words reveal nothing about the registered addresses. The scheme
    http is no fault for a loopback host (RFC 8252 §7.3).
    """
    scheme, authority, path, query, fragment = _parts(address)
    is_suspect = {
        gettext_noop("the missing scheme"): not scheme,
        gettext_noop("the scheme http"): _is_http_elsewhere(scheme, authority),
        gettext_noop("the host (localhost and 127.0.0.1 are different addresses)"): _host(authority)
        in ("localhost", "127.0.0.1"),
        gettext_noop("the port"): PORT.search(authority) is not None,
        gettext_noop("the upper case"): any(map(_is_upper, _without_escapes(scheme + authority + path))),
        gettext_noop("the slash at the end"): path.endswith("/"),
        gettext_noop("the query"): bool(query),
        gettext_noop("the fragment"): bool(fragment),
        gettext_noop("the quotation marks"): not QUOTATION_MARKS.isdisjoint(address),
        gettext_noop("the white space"): any(map(str.isspace, address)),
        gettext_noop("the characters outside ASCII"): not address.isascii(),
    }
    return [part for part, suspect in is_suspect.items() if suspect] or [gettext_noop("every part")]


def mark_likely_differences(address: str) -> list[tuple[str, bool]]:
    """Split the address into pieces, and mark the pieces that have `likely_differences`.

    Single characters of the host may be marked, but never the host as a whole.
    """
    scheme, authority, path, _query, _fragment = _parts(address)
    rest = len(scheme + authority + path)
    spans = [
        (0, len(scheme) if _is_http_elsewhere(scheme, authority) else 0),
        (rest - path.endswith("/"), rest),
        (rest, len(address)),
    ]
    suspects = [
        any(start <= place < end for start, end in spans)
        or _is_upper(character)
        or character in QUOTATION_MARKS
        or character.isspace()
        or not character.isascii()
        for place, character in enumerate(_without_escapes(address))
    ]
    pieces = groupby(zip(address, suspects, strict=True), key=itemgetter(1))
    return [("".join(character for character, _suspect in piece), is_suspect) for is_suspect, piece in pieces]


def _is_http_elsewhere(scheme: str, authority: str) -> bool:
    return scheme.lower() == "http:" and _host(authority) not in LOOPBACK_HOSTS


def _host(authority: str) -> str:
    """Return the host in lower case, without the user name, the port and the brackets of IPv6."""
    return PORT.sub("", authority.removeprefix("//").rpartition("@")[2]).strip("[]").lower()


def _is_upper(character: str) -> bool:
    return character.lower() != character


def _without_escapes(text: str) -> str:
    """Replace each percent-encoded byte by `%--`, because upper case in its digits is not a fault."""
    return ESCAPE.sub("%--", text)


def _parts(address: str) -> tuple[str, ...]:
    """Return the scheme, authority, path, query and fragment, each with its separator. A missing part is empty."""
    return URI_PARTS.match(address).groups("")  # type: ignore[union-attr]  # matches every text


def side_by_side(sent: str, registered: str) -> list[tuple[str, str, bool]]:
    """Return the pieces of the two addresses in pairs, and whether the two in a pair are equal. A piece may be empty.

    This function compares words instead of letters, so a misspelt word is one piece.
    """
    ours, theirs = (_WORDS.findall(address[:MAX_QUOTED_LENGTH]) for address in (sent, registered))
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        ("".join(ours[start:end]), "".join(theirs[other_start:other_end]), kind == "equal")
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
    ]
