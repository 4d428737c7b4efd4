"""Find the likely faults of a sent callback address, and quote the address in an error. D3, D4."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from urllib.parse import quote

from django.utils.translation import gettext_noop

from config.infrastructure.hosts import LOOPBACK_HOSTS
from oauth_bridge.redirect_uri_masking import ENCODED_SCHEME
from oauth_bridge.redirect_uri_mismatch import compare

MAX_QUOTED_LENGTH = 300
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
URI_PARTS = re.compile(rf"({SCHEME.pattern})?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
PORT = re.compile(r":[0-9]*\Z")
ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
# The words for the classes of `redirect_uri_mismatch`.
_WORDS_OF = {
    "whitespace": gettext_noop("the white space"),
    "quotes": gettext_noop("the quotation marks"),
    "scheme": gettext_noop("the scheme"),
    "scheme_slashes": gettext_noop("the slashes after the scheme"),
    "userinfo": gettext_noop("the user name"),
    "host_case": gettext_noop("the upper case"),
    "host_dot": gettext_noop("the host"),
    "loopback": gettext_noop("the host (localhost and 127.0.0.1 are different addresses)"),
    "default_port": gettext_noop("the port"),
    "port_missing": gettext_noop("the port"),
    "port": gettext_noop("the port"),
    "loopback_port": gettext_noop("the port"),
    "slash": gettext_noop("the slash at the end"),
    "path_missing": gettext_noop("the path"),
    "path_longer": gettext_noop("the path"),
    "path_shorter": gettext_noop("the path"),
    "path_case": gettext_noop("the upper case"),
    "path_typo": gettext_noop("the path"),
    "percent": gettext_noop("the path"),
    "dots": gettext_noop("the path"),
    "double_slash": gettext_noop("the path"),
    "path": gettext_noop("the path"),
    "query": gettext_noop("the query"),
    "fragment": gettext_noop("the fragment"),
}
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


def likely_differences(
    address: str, registered: Sequence[str], *, is_public: bool = False, is_cut: bool = False
) -> list[str]:
    """Return the likely faults of a sent address, in words that are marked for translation. D3.

    A loopback address is compared with the registered loopback addresses, which lead nowhere but to the person's own
    machine. For all others the words depend only on the request, so they reveal nothing about the registered addresses.
    `is_public`: the application is public, so a registered loopback address without a port accepts every port.
    `is_cut`: the address was not percent-encoded in the link, so a part of it is missing.
    """
    scheme, authority, path, query, fragment = _parts(address)
    if is_cut:
        return [gettext_noop("the percent-encoding (the & and + of an address in a link are %26 and %2B)")]
    if ENCODED_SCHEME.match(address):
        return [gettext_noop("the percent-encoding (it was encoded twice)")]
    if _host(authority) in LOOPBACK_HOSTS:
        own = [each for each in registered if _host(_parts(each)[1]) in LOOPBACK_HOSTS]
        differs = compare(address, own, is_public=is_public).differs
        found = dict.fromkeys(_WORDS_OF[name] for name in differs if name in _WORDS_OF)
        return list(found) or [gettext_noop("every part")]
    is_suspect = {
        gettext_noop("the missing scheme"): not scheme,
        gettext_noop("the scheme http"): scheme.lower() == "http:",
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

    Single characters of the host may be marked, but never the host as a whole. In a loopback address nothing is marked.
    """
    scheme, authority, path, _query, _fragment = _parts(address)
    if _host(authority) in LOOPBACK_HOSTS:
        return [(address, False)]
    rest = len(scheme + authority + path)
    spans = [
        (0, len(scheme) if scheme.lower() == "http:" else 0),
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
