"""Validate callback addresses for registration and quote them in errors. D3, D4; RFC 6749 §3.1.2; RFC 8252 §7."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from itertools import groupby
from operator import itemgetter
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

MAX_LENGTH = 2000
MAX_COUNT = 50
MAX_QUOTED_LENGTH = 300
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
REVERSE_DOMAIN_SCHEME = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")
SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
URI_PARTS = re.compile(rf"({SCHEME.pattern})?(//[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.DOTALL)
PORT = re.compile(r":[0-9]*\Z")
BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
HOST_NAME = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
RESPONSE_PARAMETERS = {"code", "state", "error", "error_description"}
INVALID_CHARACTERS = set('<>"{}|\\^`')


def split_lines(text: str) -> list[str]:
    """The lines of a text field without surrounding white space and without empty lines."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def quoted_for_description(address: str, *, without: Iterable[str] = ()) -> str:
    """The address percent-encoded for an `error_description`, cut after 300 characters.

    Each credential in `without` is replaced by `...`. A value that is not an absolute address is not quoted at all: it
    may be a credential that was sent in the wrong parameter.
    """
    if not SCHEME.match(address):
        return "not an absolute address"
    for credential in without:
        address = address.replace(credential, "...")
    encoded = quote(address, safe="!#$%&'()*+,/:;=?@[]~")
    return encoded if len(encoded) <= MAX_QUOTED_LENGTH else f"{encoded[:MAX_QUOTED_LENGTH]}..."


def likely_differences(address: str) -> list[str]:
    """The parts of a sent address that are most likely wrong, in words that are marked for translation. D3.

    Only the sent address is read, so the words reveal nothing about the registered addresses.
    """
    scheme, authority, path, query, fragment = _parts(address)
    is_suspect = {
        gettext_noop("the missing scheme"): not scheme,
        gettext_noop("the scheme http"): scheme.lower() == "http:",
        gettext_noop("the upper case before the path"): (scheme + authority).lower() != scheme + authority,
        gettext_noop("the port"): PORT.search(authority) is not None,
        gettext_noop("the missing path"): not path,
        gettext_noop("the slash at the end"): path.endswith("/"),
        gettext_noop("the query"): bool(query),
        gettext_noop("the fragment"): bool(fragment),
        gettext_noop("the percent-encoding"): "%" in address,
        gettext_noop("the white space"): any(character.isspace() for character in address),
        gettext_noop("the characters outside ASCII"): not address.isascii(),
    }
    return [part for part, suspect in is_suspect.items() if suspect] or [
        gettext_noop("the host"),
        gettext_noop("the path"),
    ]


def mark_likely_differences(address: str) -> list[tuple[str, bool]]:
    """The address in pieces, each with whether it is one of its `likely_differences`."""
    scheme, authority, path, _query, _fragment = _parts(address)
    origin = scheme + authority
    port = PORT.search(authority)
    rest = len(origin) + len(path)
    spans = [
        (0, len(scheme) if scheme.lower() == "http:" else 0),
        (len(scheme) + port.start(), len(origin)) if port else (0, 0),
        (rest - path.endswith("/"), rest),
        (rest, len(address)),
    ]
    suspects = [
        any(start <= place < end for start, end in spans)
        or (place < len(origin) and character.lower() != character)
        or character == "%"
        or character.isspace()
        or not character.isascii()
        for place, character in enumerate(address)
    ]
    pieces = groupby(zip(address, suspects, strict=True), key=itemgetter(1))
    return [("".join(character for character, _suspect in piece), is_suspect) for is_suspect, piece in pieces]


def _parts(address: str) -> tuple[str, ...]:
    """Scheme, authority, path, query and fragment, each with its separator; empty where there is none."""
    return URI_PARTS.match(address).groups("")  # type: ignore[union-attr]  # matches every text


def validate_all(uris: list[str]) -> None:
    """Raises ValidationError: there is no address, there are too many, or one is repeated or can't be registered."""
    problems = []
    if not uris:
        problems.append(_("Enter at least one callback address."))
    if len(uris) > MAX_COUNT:
        raise ValidationError(_("Enter at most %(count)d callback addresses.") % {"count": MAX_COUNT})
    for uri in dict.fromkeys(uris):
        if uris.count(uri) > 1:
            problems.append(_("%(uri)s: it is there more than once.") % {"uri": uri})
        if problem := registration_problem(uri):
            problems.append(_("%(uri)s: %(problem)s") % {"uri": uri[:200], "problem": problem})
    if problems:
        raise ValidationError(problems)


def validate_lines(text: str) -> None:
    """Validate a text field with one address a line. Raises ValidationError: as `validate_all`."""
    validate_all(split_lines(text))


def registration_problem(uri: str) -> str | None:
    """The reason why the address can't be registered, to follow a colon; None when it can."""
    if len(uri) > MAX_LENGTH:
        return _("it is longer than %(limit)d characters.") % {"limit": MAX_LENGTH}
    if not VISIBLE_ASCII.fullmatch(uri):
        return _("it holds spaces, control or non-ASCII characters; write them percent-encoded, a host in punycode.")
    if found := INVALID_CHARACTERS & set(uri):
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
    if taken := RESPONSE_PARAMETERS & {name for name, _value in parse_qsl(parts.query, keep_blank_values=True)}:
        return _("its query holds “%(name)s”, which is what the callback brings.") % {"name": min(taken)}
    if ".." in unquote(parts.path).split("/"):
        return _("“..” in the path is not possible; write the path it leads to.")
    if parts.scheme not in ("https", "http"):
        return _private_scheme_problem(uri, parts.scheme)
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
    """Whether the host is a name, an IPv4 address in its standard form (not 127.1) or a bracketed IPv6 address."""
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


def _private_scheme_problem(uri: str, scheme: str) -> str | None:
    if not scheme:
        return _("it has no scheme; write https://host/path.")
    if not REVERSE_DOMAIN_SCHEME.fullmatch(scheme) or not uri.startswith(f"{scheme}:"):
        return _("use https, or a scheme of your own in the form com.example.app (lower case).")
    if not uri.startswith(f"{scheme}:/"):
        return _("write a path after the scheme, as in com.example.app:/callback.")
    return None
