"""Which callback addresses may be registered, and how a sentence names one. D3, D4; RFC 6749 §3.1.2; RFC 8252 §7."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

MAX_LENGTH = 2000
MAX_COUNT = 50
SHOWN_CHARACTERS = 300
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
REVERSE_DOMAIN_SCHEME = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
PARTS = re.compile(rf"({SCHEME.pattern})?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
PORT = re.compile(r":[0-9]*\Z")
BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
OURS = {"code", "state", "error", "error_description"}
NEVER = set('<>"{}|\\^`')


def lines_of(text: str) -> list[str]:
    """The addresses of a text field, one a line, blank lines left out."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def shown(address: str, *, without: Iterable[str] = ()) -> str:
    """The address as an `error_description` may hold it: in the characters of an address, 300 of them at most.

    Each of the credentials in `without` becomes `...` where the address holds it. What is no absolute address may be a
    credential in the wrong place, so it is not shown at all.
    """
    if not SCHEME.match(address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= SHOWN_CHARACTERS else f"{encoded[:SHOWN_CHARACTERS]}..."


def conspicuous(address: str) -> str:
    """The parts in which the address that was sent is most likely to differ from a registered one, as a list in words.

    Read from that address alone: nothing of a registered one can be learned from it.
    """
    scheme, authority, path, query, fragment = (part or "" for part in PARTS.match(address).groups())  # type: ignore[union-attr]
    is_seen = {
        "the missing scheme": not scheme,
        "the scheme http": scheme.lower() == "http:",
        "the upper case before the path": (scheme + authority).lower() != scheme + authority,
        "the port": PORT.search(authority) is not None,
        "the missing path": not path,
        "the slash at the end": path.endswith("/"),
        "the query": bool(query),
        "the fragment": bool(fragment),
        "the percent-encoding": "%" in address,
        "the white space": any(character.isspace() for character in address),
        "the characters outside ASCII": not address.isascii(),
    }
    *others, last = [part for part, seen in is_seen.items() if seen] or ["the host", "the path"]
    return f"{', '.join(others)} and {last}" if others else last


def validate_all(uris: list[str]) -> None:
    """Raises ValidationError: one message for each address that can't be registered, naming it."""
    problems = []
    if not uris:
        problems.append(_("Enter at least one callback address."))
    if len(uris) > MAX_COUNT:
        raise ValidationError(_("Enter at most %(count)d callback addresses.") % {"count": MAX_COUNT})
    for uri in dict.fromkeys(uris):
        if uris.count(uri) > 1:
            problems.append(_("%(uri)s: it is there more than once.") % {"uri": uri})
        if problem := problem_of(uri):
            problems.append(_("%(uri)s: %(problem)s") % {"uri": uri[:200], "problem": problem})
    if problems:
        raise ValidationError(problems)


def validate_lines(text: str) -> None:
    """Raises ValidationError as `validate_all`, for the addresses of a text field."""
    validate_all(lines_of(text))


def problem_of(uri: str) -> str | None:
    """What keeps the address from being registered, as half a sentence; None when nothing does."""
    if len(uri) > MAX_LENGTH:
        return _("it is longer than %(limit)d characters.") % {"limit": MAX_LENGTH}
    if not VISIBLE_ASCII.fullmatch(uri):
        return _("it holds spaces, control or non-ASCII characters; write them percent-encoded, a host in punycode.")
    if found := NEVER & set(uri):
        return _("it holds %(character)s, which no address may hold.") % {"character": min(found)}
    if "*" in uri:
        return _("wildcards are not possible; register every address in full.")
    if "#" in uri:
        return _("a fragment (#…) is not possible; it would never reach your server.")
    if BROKEN_ESCAPE.search(uri):
        return _("a % must be followed by two hexadecimal digits.")
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return _("host or port can't be read.")
    if taken := OURS & {name for name, _value in parse_qsl(parts.query, keep_blank_values=True)}:
        return _("its query holds “%(name)s”, which is what the callback brings.") % {"name": min(taken)}
    if ".." in unquote(parts.path).split("/"):
        return _("“..” in the path is not possible; write the path it leads to.")
    if parts.scheme not in ("https", "http"):
        return _problem_of_private_scheme(uri, parts.scheme)
    if not uri.startswith(f"{parts.scheme}://") or not parts.hostname:
        return _("it has no host; write https://host/path.")
    if "@" in parts.netloc:
        return _("a user name or password in the address is not possible.")
    if parts.netloc != parts.netloc.lower():
        return _("write the host in lower case, as browsers send it.")
    if not _is_host(parts.hostname, parts.netloc):
        return _("the host is not a name, an IPv4 or a bracketed IPv6 address written in full.")
    if port == 0 or parts.netloc.endswith(":"):
        return _("the port can't be used.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        return _("http is possible on this machine only (localhost, 127.0.0.1, [::1]); use https.")
    return None


def _is_host(host: str, netloc: str) -> bool:
    """A name, or an address in its one full spelling: browsers read 127.1, too, but people don't."""
    if netloc.startswith("["):
        try:
            return ip_address(host).version == 6
        except ValueError:
            return False
    if host.rpartition(".")[2].isdigit():
        try:
            return str(ip_address(host)) == host
        except ValueError:
            return False
    return HOST_NAME.fullmatch(host) is not None


def _problem_of_private_scheme(uri: str, scheme: str) -> str | None:
    if not scheme:
        return _("it has no scheme; write https://host/path.")
    if not REVERSE_DOMAIN_SCHEME.fullmatch(scheme) or not uri.startswith(f"{scheme}:"):
        return _("use https, or a scheme of your own in the form com.example.app (lower case).")
    if not uri.startswith(f"{scheme}:/"):
        return _("write a path after the scheme, as in com.example.app:/callback.")
    return None
