"""Compare a sent callback address with the registered ones, for administrators. D3; RFC 8252.

No public answer contains this comparison, except that of a loopback address (`redirect_uri_likely_faults`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from posixpath import normpath
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from config.infrastructure.hosts import LOOPBACK_HOSTS
from oauth_bridge.redirect_uri_masking import ENCODED_SCHEME, MOST_COMPARED
from oauth_bridge.redirect_uri_mismatch_reasons import FAR, WEIGHTS
from oauth_bridge.redirect_uri_registration import is_port

MOST_IN_HOST = 253
MOST_EDITED = 500  # longer hosts and paths are not searched for misspellings
REFINED = 5  # this number of nearest addresses is searched for misspellings

_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?(?://([^/?#]*))?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
_HOST_FIRST = re.compile(r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]+)?(?:[/?#]|\Z)")
_UNSEEN = " \t\r\n\v\f\u00a0\u200b\u200c\u200d\u2060\ufeff"
_QUOTES = "\"'`‘’‚“”„‹›«»<>"
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ANY_HOST = {*LOOPBACK_HOSTS, "0.0.0.0"}  # noqa: S104 - compared, not listened at


class Comparison(NamedTuple):
    """The nearest registered address or "", how it differs, and how many registered addresses are equally near."""

    nearest: str
    differs: tuple[str, ...]
    ties: int


class _Address(NamedTuple):
    scheme: str
    has_authority: bool
    userinfo: str
    host: str
    port: str
    path: str
    query: str
    fragment: str


def compare(sent: str, registered: Sequence[str], *, is_public: bool = False) -> Comparison:
    """Find the registered address that the sender meant, and the differences.

    `is_public`: the application is public, so a registered loopback address without a port allows any port (D3).

    The difference `another_host` means that no registered address is near.
    """
    if sent in registered:
        return Comparison(sent, (), 1)
    for each in registered:
        if _is_rest_of(sent, each):
            return Comparison(each, ("not_encoded",), 1)
    classes, cleaned = _cleaned(sent[:MOST_COMPARED])
    address = _parsed(cleaned)
    rough = [(each, _differences(address, _parsed(each), is_public=is_public)) for each in registered]
    rough.sort(key=lambda pair: _sum(pair[1]))
    refined = [(each, _refined(address, _parsed(each), found)) for each, found in rough[:REFINED]] + rough[REFINED:]
    if not refined:
        return Comparison("", ("another_host",), 0)
    best = min(_sum(found) for _, found in refined)
    if best >= FAR:
        return Comparison("", ("another_host",), 0)
    order = {each: place for place, each in enumerate(registered)}
    nearest, found = min(
        ((each, found) for each, found in refined if _sum(found) == best), key=lambda pair: order[pair[0]]
    )
    differs = tuple(name for name in WEIGHTS if name in found | classes)
    return Comparison(nearest, differs, sum(_sum(each) == best for _, each in refined))


def _is_rest_of(sent: str, registered: str) -> bool:
    """Return whether `sent` is what remains of the registered address if a link contains it without percent-encoding.

    The address ends before its first `&`, and its escapes and each `+` are decoded once.
    """
    decoded = unquote_plus(registered.partition("&")[0], errors="replace")
    return "?" in sent and sent == decoded != registered


def is_near(one: str, other: str, limit: int) -> bool:
    """Return whether at most `limit` letters are wrong, missing, added or swapped with a neighbour."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    while one and other and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    if abs(len(one) - len(other)) > limit or max(len(one), len(other)) > MOST_EDITED:
        return False
    return _distance(one, other, limit) <= limit


def _sum(classes: Iterable[str]) -> int:
    return sum(WEIGHTS[name] for name in classes)


def _cleaned(sent: str) -> tuple[set[str], str]:
    """Remove white space, quotation marks and a second percent-encoding.

    Returns the classes of the removed faults, and the address without the faults.
    """
    classes: set[str] = set()
    for name, characters in (("whitespace", _UNSEEN), ("quotes", _QUOTES), ("whitespace", _UNSEEN)):
        stripped = sent.strip(characters)
        if stripped != sent:
            classes.add(name)
        sent = stripped
    if ENCODED_SCHEME.match(sent):
        classes.add("encoded_twice")
        sent = unquote(sent, errors="replace")
    return classes, sent


def _parsed(address: str) -> _Address:
    if _HOST_FIRST.match(address):  # the scheme is missing
        address = f"//{address}"
    scheme, authority, path, query, fragment = _PARTS.match(address).groups("")  # type: ignore[union-attr]
    userinfo, at, netloc = authority.rpartition("@")
    host, colon, port = netloc.rpartition(":")
    if not colon or not port.isdigit():
        host, port = netloc, ""
    has_authority = address.startswith(f"{scheme}://") or (not scheme and address.startswith("//"))
    return _Address(scheme, has_authority, userinfo + at, host, port, path, query, fragment)


def _differences(sent: _Address, wanted: _Address, *, is_public: bool) -> set[str]:
    """Return the classes of differences. `_refined` searches for misspellings."""
    if sent.has_authority != wanted.has_authority and sent.scheme.lower() == wanted.scheme.lower() != "":
        if _joined(sent) == _joined(wanted):
            return {"scheme_slashes"}
        return {"another_host"}
    found = set()
    if sent.scheme != wanted.scheme:
        same = sent.scheme.lower() == wanted.scheme.lower()
        found.add("host_case" if same else "scheme" if sent.scheme else "scheme_missing")
    if sent.userinfo != wanted.userinfo:
        found.add("userinfo")
    if host := _host_class(sent.host, wanted.host):
        found.add(host)
    found |= _port_classes(sent, wanted, is_public=is_public)
    found |= _path_classes(sent.path, wanted.path)
    if sent.query != wanted.query:
        found.add("query")
    if sent.fragment != wanted.fragment:
        found.add("fragment")
    return found


def _joined(address: _Address) -> str:
    return f"{address.host}{address.path}{address.query}{address.fragment}".lstrip("/")


def _host_class(sent: str, wanted: str) -> str:
    if sent == wanted:
        return ""
    sent, wanted_lower = sent.lower(), wanted.lower()
    if sent == wanted_lower:
        return "host_case"
    if sent.rstrip(".") == wanted_lower.rstrip("."):
        return "host_dot"
    if {sent.strip("[]"), wanted_lower.strip("[]")} <= _ANY_HOST:
        return "loopback"
    if sent.removeprefix("www.") == wanted_lower.removeprefix("www."):
        return "www"
    if _ascii(sent) == _ascii(wanted_lower):
        return "idn"
    if _domain(sent) == _domain(wanted_lower) != "":
        return "subdomain"
    return "another_host"


@functools.lru_cache(maxsize=256)
def _ascii(host: str) -> str:
    if len(host) <= MOST_IN_HOST:
        with suppress(UnicodeError):
            return host.encode("idna").decode()
    return host


def _domain(host: str) -> str:
    """Return the last two labels. No list of public suffixes is needed, because the result is only a hint."""
    labels = host.rstrip(".").split(".")
    return ".".join(labels[-2:]) if len(labels) > 1 and not labels[-1].isdigit() else ""


def _port_classes(sent: _Address, wanted: _Address, *, is_public: bool) -> set[str]:
    is_loopback = wanted.scheme == "http" and wanted.host.strip("[]") in LOOPBACK_HOSTS
    is_free = is_public and is_loopback and not wanted.port and is_port(sent.port)
    if sent.port == wanted.port or is_free:
        return set()
    sent_port, wanted_port = (
        "" if each.port == _DEFAULT_PORTS.get(each.scheme.lower()) else each.port for each in (sent, wanted)
    )
    if sent_port == wanted_port:
        return {"default_port"}
    if not sent_port:
        return {"port_missing"}
    return {"loopback_port" if is_loopback else "port"}


def _path_classes(sent: str, wanted: str) -> set[str]:
    if sent == wanted:
        return set()
    if sent.rstrip("/") == wanted.rstrip("/"):
        return {"slash"}
    found = set()
    if "//" in sent and "//" not in wanted:
        found.add("double_slash")
        sent = re.sub("/{2,}", "/", sent)
    if "/." in sent and (resolved := normpath(sent)) != sent.rstrip("/"):
        found.add("dots")
        sent = resolved + ("/" if sent.endswith("/") and resolved != "/" else "")
    if sent.rstrip("/") == wanted.rstrip("/"):
        return found | ({"slash"} if sent != wanted else set())
    ours, theirs = _decoded(sent), _decoded(wanted)
    if ours == theirs:
        return found | {"percent"}
    if ours.rstrip("/").lower() == theirs.rstrip("/").lower():
        return found | {"path_case"} | ({"slash"} if sent.endswith("/") != wanted.endswith("/") else set())
    if sent in ("", "/"):
        return found | {"path_missing"}
    if sent.startswith(wanted.rstrip("/") + "/") and wanted.strip("/"):
        return found | {"path_longer"}
    if wanted.startswith(sent.rstrip("/") + "/"):
        return found | {"path_shorter"}
    return found | {"path"}


@functools.lru_cache(maxsize=8)  # `compare` decodes the sent path for each registered address
def _decoded(path: str) -> str:
    return unquote(path, errors="replace")


def _refined(sent: _Address, wanted: _Address, found: set[str]) -> set[str]:
    """If different hosts or paths are similar, replace the class of the difference by the class of a misspelling."""
    for is_other, name, ours, theirs, limit in (
        (found & {"another_host", "subdomain"}, "host_typo", sent.host.lower(), wanted.host.lower(), 2),
        (found & {"path"}, "path_typo", sent.path, wanted.path, 3),
    ):
        if is_other and ours and theirs and is_near(ours, theirs, min(limit, max(1, len(theirs) // 4))):
            found = (found - is_other) | {name}
    return found


def _distance(one: str, other: str, limit: int) -> int:
    """Return the optimal string alignment distance.

    This function computes only the cells within `limit` of the diagonal of the matrix.
    """
    far = limit + 1
    before: dict[int, int] = {}
    row = {column: column for column in range(min(limit, len(other)) + 1)}
    for line, letter in enumerate(one, 1):
        new: dict[int, int] = {0: line} if line <= limit else {}
        for column in range(max(1, line - limit), min(len(other), line + limit) + 1):
            cost = 0 if letter == other[column - 1] else 1
            best = min(row.get(column - 1, far) + cost, row.get(column, far) + 1, new.get(column - 1, far) + 1)
            if line > 1 and column > 1 and letter == other[column - 2] and one[line - 2] == other[column - 1]:
                best = min(best, before.get(column - 2, far) + 1)
            new[column] = best
        before, row = row, new
    return row.get(len(other), far)
