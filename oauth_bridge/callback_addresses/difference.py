"""Say how a sent callback address differs from the registered addresses. RFC 8252.

Only the words of `likely_differences` may be sent to everybody. Only administrators may see the other results.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import NamedTuple
from urllib.parse import unquote, unquote_plus

from django.utils.translation import gettext
from django.utils.translation import gettext_noop as _  # marks the sentences for translation

from config.infrastructure.network import LOOPBACK_HOSTS
from oauth_bridge.callback_addresses.masking import ENCODED_SCHEME, MAX_QUOTED_LENGTH, MOST_COMPARED
from oauth_bridge.callback_addresses.registration import is_port, shown_host

# The names of the differences, with the likely reason and the advice, in the order in which people read them.
REASONS = {
    "whitespace": _("It was pasted with a space or a line end. Remove it in the application's setting."),
    "quotes": _("It was sent with quotation marks or angle brackets. Remove them in the application's setting."),
    "encoded_twice": _("It was percent-encoded twice. Let the application encode it once."),
    "not_encoded": _(
        "It was not percent-encoded in the link, so a part of it was lost: what follows the first &, or a + or %."
        " Let the application percent-encode it."
    ),
    "another_host": _("No registered address is near. Perhaps another installation of the application made the link."),
    "scheme": _(
        "The beginning before :// differs, such as http instead of https. If a proxy stands before the application,"
        " set the application's public address (https) in the application."
    ),
    "scheme_missing": _("The scheme is missing. Set the whole address in the application, as it is registered."),
    "userinfo": _("It contains a user name. Remove what stands before the @ in the application's setting."),
    "case": _("It differs in upper and lower case. Write it exactly as it is registered."),
    "www": _("One has www. and the other has not. Register both, or use one in the application."),
    "host": _("The host differs. Register this one only if it is the application's, too."),
    "loopback": _("localhost, 127.0.0.1 and [::1] are different addresses. Use the same one at both places."),
    "port": _("The port differs. Register the one that the application listens at."),
    "loopback_port": _(
        "The port differs. Register the one that the application listens at. If it is a program that listens at any"
        " free port of a person's machine, make it an application without a secret, and register its address without"
        " a port."
    ),
    "slash": _("It differs in the slash at the end. Write it exactly as it is registered."),
    "path": _("The path is another one. Register it, or correct the application's setting."),
    "query": _("The query differs. Send exactly the registered one. What varies belongs into state."),
    "fragment": _("It has a fragment, which a callback address must not have. Remove what stands after the #."),
}
# The words for the differences of a loopback address, in an answer that everybody gets.
PUBLIC_WORDS = {
    "whitespace": _("the white space"),
    "quotes": _("the quotation marks"),
    "scheme": _("the scheme"),
    "scheme_missing": _("the missing scheme"),
    "userinfo": _("the user name"),
    "case": _("the upper case"),
    "loopback": _("the host (localhost and 127.0.0.1 are different addresses)"),
    "port": _("the port"),
    "loopback_port": _("the port"),
    "slash": _("the slash at the end"),
    "path": _("the path"),
    "query": _("the query"),
    "fragment": _("the fragment"),
}
NEAR = 0.8  # the similarity of a misspelt host
MAX_HOST_LENGTH = 253

# A host at the beginning of an address without a scheme. In "localhost:8000", "localhost:" is no scheme.
_HOST = r"(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)(?::[0-9]+)?(?:[/?#]|\Z)"
_PARTS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*:)?(?:(//)([^/?#]*@)?([^/?#]*?)(:[0-9]*)?(?=[/?#]|\Z))?([^?#]*)(\?[^#]*)?(#.*)?",
    re.DOTALL,
)
_WORDS = re.compile(r"[A-Za-z0-9_~-]+\.?|.", re.DOTALL)
_UPPER = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])[A-Z]")  # not a digit of an escape
_UNSEEN = " \t\r\n\v\f\u00a0\u200b\u200c\u200d\u2060\ufeff"
_QUOTATION_MARKS = "\"'`‘’‚“”„‹›«»"


class _Address(NamedTuple):
    """The parts of an address, with their separators. A missing part is empty."""

    scheme: str
    slashes: str
    userinfo: str
    host: str
    port: str
    path: str
    query: str
    fragment: str

    @property
    def is_loopback(self) -> bool:
        return self.host.lower().strip("[]") in LOOPBACK_HOSTS


def _parsed(address: str) -> _Address:
    if re.match(_HOST, address):
        return _parsed(f"//{address}")._replace(slashes="")
    return _Address(*_PARTS.match(address).groups(""))  # type: ignore[union-attr]  # matches every text


def compare(sent: str, registered: Sequence[str], *, is_public: bool = False) -> tuple[str, list[str]]:
    """Return the registered address nearest to `sent` ("" if none is near) and the differences (keys of REASONS)."""
    if sent in registered:
        return sent, []
    for each in registered:
        # If a link has the address without percent-encoding, it ends before its first `&`, and its escapes are decoded.
        if "?" in sent and sent == unquote_plus(each.partition("&")[0], errors="replace"):
            return each, ["not_encoded"]
    found, cleaned = _cleaned(sent[:MOST_COMPARED])
    address = _parsed(cleaned)
    if not address.host.isascii() and (host := shown_host(f"https://{address.host[:MAX_HOST_LENGTH]}")):
        found, address = found | {"host"}, address._replace(host=host)
    matcher = SequenceMatcher(b=cleaned, autojunk=False)

    def distance(candidate: tuple[str, set[str]]) -> tuple[int, float]:
        matcher.set_seq1(candidate[0])
        # A difference of host or path counts as three others. Among equals, the more similar text is nearer.
        return sum(3 if name in ("host", "path") else 1 for name in candidate[1]), -matcher.quick_ratio()

    compared = [(each, _differences(address, _parsed(each), is_public=is_public)) for each in registered]
    near = [candidate for candidate in compared if "another_host" not in candidate[1]]
    if not near:
        return "", ["another_host"]
    nearest, differs = min(near, key=distance)
    return nearest, [name for name in REASONS if name in found | differs]


def reason(differs: Iterable[str]) -> str:
    return " ".join(gettext(REASONS[name]) for name in differs if name in REASONS)


def side_by_side(sent: str, registered: str) -> list[tuple[str, str, bool]]:
    """Return triples: a piece of `sent`, the piece of `registered` in its place, and whether the pieces are equal."""
    ours, theirs = (_WORDS.findall(address[:MAX_QUOTED_LENGTH]) for address in (sent, registered))
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    return [
        ("".join(ours[start:end]), "".join(theirs[other_start:other_end]), kind == "equal")
        for kind, start, end, other_start, other_end in matcher.get_opcodes()
    ]


def _cleaned(sent: str) -> tuple[set[str], str]:
    """Remove white space, quotes and double encoding. Return what was found (keys of REASONS) and the clean address."""
    stripped = sent.strip(_UNSEEN)
    unquoted = stripped.strip(f"{_QUOTATION_MARKS}<>{_UNSEEN}")
    found = {
        name for name, is_found in (("whitespace", stripped != sent), ("quotes", unquoted != stripped)) if is_found
    }
    if ENCODED_SCHEME.match(unquoted):
        return found | {"encoded_twice"}, unquote(unquoted, errors="replace")
    return found, unquoted


def _differences(sent: _Address, wanted: _Address, *, is_public: bool) -> set[str]:
    parts = {name for name, ours, theirs in zip(sent._fields, sent, wanted, strict=True) if ours != theirs}
    is_same_scheme = sent.scheme.lower() == wanted.scheme.lower()
    if "slashes" in parts and is_same_scheme:
        is_same_rest = "".join(sent[2:]).lstrip("/") == "".join(wanted[2:]).lstrip("/")
        return {"scheme"} if is_same_rest else {"another_host"}
    found = parts & {"userinfo", "query", "fragment"}
    if "scheme" in parts:
        found.add("case" if is_same_scheme else "scheme" if sent.scheme else "scheme_missing")
    if "host" in parts:
        found.add(_host_difference(sent.host.lower(), wanted.host))
    if "port" in parts:
        is_loopback = wanted.scheme == "http:" and wanted.is_loopback
        if not (is_public and is_loopback and not wanted.port and is_port(sent.port[1:])):
            found.add("loopback_port" if is_loopback else "port")
    ours, theirs = sent.path.rstrip("/"), wanted.path.rstrip("/")
    if ours.lower() != theirs.lower():
        found.add("path")
    else:
        found |= {"case"} if ours != theirs else set()
        found |= {"slash"} if sent.path[len(ours) :] != wanted.path[len(theirs) :] else set()
    return found


def _host_difference(sent: str, wanted: str) -> str:
    if sent == wanted:
        return "case"
    if {sent.strip("[]"), wanted.strip("[]")} <= {*LOOPBACK_HOSTS, "0.0.0.0"}:  # noqa: S104 - compared, not listened at
        return "loopback"
    if sent.removeprefix("www.") == wanted.removeprefix("www."):
        return "www"
    # The last two labels as the domain are good enough for a hint.
    of_one_domain = "." in sent and sent.rstrip(".").split(".")[-2:] == wanted.split(".")[-2:]
    is_near = of_one_domain or get_close_matches(sent[:MAX_HOST_LENGTH], [wanted], cutoff=NEAR)
    return "host" if is_near else "another_host"


def likely_differences(
    address: str, registered: Sequence[str], *, is_public: bool = False, is_cut: bool = False
) -> list[str]:
    """Return untranslated words for probably wrong parts, such as "the port". `is_cut`: an & or + damaged `address`.

    A loopback address is compared with the registered loopback addresses. For any other address, the words are guessed
    from `address` alone, so that they reveal no registered address.
    """
    parts = _parsed(address)
    if is_cut:
        return [_("the percent-encoding (the & and + of an address in a link are %26 and %2B)")]
    if ENCODED_SCHEME.match(address):
        return [_("the percent-encoding (it was encoded twice)")]
    if parts.is_loopback:
        own = [each for each in registered if _parsed(each).is_loopback]
        _nearest, differs = compare(address, own, is_public=is_public)
        return list(dict.fromkeys(PUBLIC_WORDS[name] for name in differs if name in PUBLIC_WORDS)) or [_("every part")]
    is_suspect = {
        _("the missing scheme"): not parts.scheme,
        _("the scheme http"): parts.scheme.lower() == "http:",
        _("the port"): bool(parts.port),
        _("the upper case"): _UPPER.search("".join(parts[:-2])) is not None,
        _("the slash at the end"): parts.path.endswith("/"),
        _("the query"): bool(parts.query),
        _("the fragment"): bool(parts.fragment),
        _("the quotation marks"): not set(_QUOTATION_MARKS).isdisjoint(address),
        _("the white space"): any(map(str.isspace, address)),
        _("the characters outside ASCII"): not address.isascii(),
    }
    return [part for part, suspect in is_suspect.items() if suspect] or [_("every part")]
