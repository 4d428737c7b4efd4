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
    """The address percent-encoded for an `error_description`, cut after 300 characters.

    Each credential in `without` is replaced by `...`. A value that is not an absolute address is not quoted: it may be
    a credential in the wrong parameter.
    """
    if not SCHEME.match(address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= MAX_QUOTED_LENGTH else f"{encoded[:MAX_QUOTED_LENGTH]}..."


def likely_differences(address: str) -> list[str]:
    """The likely faults of a sent address, in words that are marked for translation. D3.

    Only the sent address is read, so the words reveal nothing about the registered addresses. http on loopback is valid
    (RFC 8252 §7.3), so it is no fault.
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
    """The address in pieces. Pieces of its `likely_differences` are marked, but never the whole host."""
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
    """The host in lower case, without user name, port and the brackets of IPv6."""
    return PORT.sub("", authority.removeprefix("//").rpartition("@")[2]).strip("[]").lower()


def _is_upper(character: str) -> bool:
    return character.lower() != character


def _without_escapes(text: str) -> str:
    """The text with each percent-encoded byte replaced by as many characters, because its digits may be upper case."""
    return ESCAPE.sub("%--", text)


def _parts(address: str) -> tuple[str, ...]:
    """Scheme, authority, path, query and fragment, each with its separator; empty if missing."""
    return URI_PARTS.match(address).groups("")  # type: ignore[union-attr]  # matches every text


def side_by_side(sent: str, registered: str) -> list[tuple[str, str, bool]]:
    """Pairs of pieces of the two addresses, and whether both are equal. Either may be empty.

    Whole words are compared, so a misspelt word is one piece.
    """
    ours, theirs = (_WORDS.findall(address[:MAX_QUOTED_LENGTH]) for address in (sent, registered))
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        ("".join(ours[start:end]), "".join(theirs[other_start:other_end]), kind == "equal")
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
    ]
