"""Validate the addresses of an application, and describe unusual addresses. RFC 6749 §3.1.2; RFC 8252 §7."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import parse_qsl, unquote, urlsplit

import idna
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.utils.translation import gettext as _

from config.infrastructure.network import LOOPBACK_HOSTS, is_host
from config.infrastructure.texts import refuse_control_characters

MAX_LENGTH = 2000
MAX_COUNT = 50
REVERSE_DOMAIN_SCHEME = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)+")
VISIBLE_ASCII = re.compile(r"[\x21-\x7e]+")
RESPONSE_PARAMETERS = {"code", "state", "error", "error_description"}
# The beginning of an address that names this machine, but has no scheme or too few slashes.
ON_THIS_MACHINE = re.compile(r"(?:http:)?/{0,2}(?:localhost|127\.0\.0\.1|\[::1\])(?:[:/?]|\Z)", re.IGNORECASE)
# An http address of this machine with a port: the part before the port, and the port.
LOOPBACK_WITH_PORT = re.compile(r"(http://(?:localhost|127\.0\.0\.1|\[::1\])):([0-9]+)(?=[/?]|\Z)")
DEFAULT_PORTS = {"https": 443, "http": 80}
INVALID_CHARACTERS = set('<>"{}|\\^`')


def without_loopback_port(uri: str) -> str:
    """Return `uri` without its port if it is an http loopback address with a port, otherwise "". RFC 8252 §7.3."""
    found = LOOPBACK_WITH_PORT.match(uri)
    return found[1] + uri[found.end() :] if found and is_port(found[2]) else ""


def is_port(text: str) -> bool:
    """Return whether the text is a port as browsers send it: 1 to 65535 without leading zeros."""
    return re.fullmatch("[1-9][0-9]{0,4}", text) is not None and int(text) <= 65_535


def split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def validate_lines(text: str) -> None:
    """Validate a text field with one callback address per line."""
    if not text.strip():
        raise ValidationError(_("Enter at least one callback address."))
    _validate_each(split_lines(text), RESPONSE_PARAMETERS)


def validate_after_sign_out(text: str) -> None:
    """Validate a text field with one address per line. People return to one of these addresses after a sign-out."""
    _validate_each(split_lines(text), {"state"})


def _validate_each(uris: list[str], taken: set[str]) -> None:
    problems = []
    if len(uris) > MAX_COUNT:
        raise ValidationError(_("Enter at most %(count)d addresses.") % {"count": MAX_COUNT})
    for uri in dict.fromkeys(uris):
        if uris.count(uri) > 1:
            problems.append(_("%(uri)s: it is there more than once.") % {"uri": uri})
        if problem := registration_problem(uri, taken):
            problems.append(_("%(uri)s: %(problem)s") % {"uri": uri[:200], "problem": problem})
    if problems:
        raise ValidationError(problems)


def registration_problem(uri: str, taken: set[str] = RESPONSE_PARAMETERS) -> str | None:
    """Return why the address cannot be registered, or None. `taken`: query parameters reserved for this service."""
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
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        return _("host or port can't be read.")
    if found_taken := taken & {name for name, _value in parse_qsl(parts.query, keep_blank_values=True)}:
        return _("its query holds “%(name)s”, which is what the callback brings.") % {"name": min(found_taken)}
    if ".." in unquote(parts.path).split("/"):
        return _("“..” in the path is not possible; write the path it leads to.")
    is_local = ON_THIS_MACHINE.match(uri) is not None
    proposed = "http" if is_local else "https"
    if not parts.scheme or (is_local and parts.scheme != "http"):  # in "localhost:8000", the host looks like a scheme
        return _("it has no scheme; write %(scheme)s://host/path.") % {"scheme": proposed}
    if not uri.startswith(f"{parts.scheme}:"):
        return _("write the scheme in lower case.")
    if parts.scheme not in ("https", "http"):
        if not REVERSE_DOMAIN_SCHEME.fullmatch(parts.scheme):
            return _("use https, or a scheme of your own in the form com.example.app (lower case).")
        is_path = uri.startswith(f"{parts.scheme}:/")
        return None if is_path else _("write a path after the scheme, as in com.example.app:/callback.")
    if not uri.startswith(f"{parts.scheme}://") or not parts.hostname:
        return _("it has no host; write %(scheme)s://host/path.") % {"scheme": proposed}
    if "@" in parts.netloc:
        return _("a user name or password in the address is not possible.")
    if parts.netloc != parts.netloc.lower():
        return _("write the host in lower case, as browsers send it.")
    if not is_host(parts.hostname) or (":" in parts.hostname) != parts.netloc.startswith("["):
        return _("the host is not a name, an IPv4 or a bracketed IPv6 address written in full.")
    if port == 0 or parts.netloc.endswith(":"):
        return _("the port can't be used.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        return _("http is possible on this machine only (localhost, 127.0.0.1, [::1]); use https.")
    return None


def hints(uri: str, *, is_public: bool) -> list[str]:
    """Return sentences about what is unusual in a valid http or https address. For other schemes, the list is empty."""
    parts = urlsplit(uri)
    if parts.scheme not in DEFAULT_PORTS:
        return []
    host, found = parts.hostname or "", []
    if parts.port == DEFAULT_PORTS[parts.scheme]:
        found.append(_("Most clients leave :%(port)d out; then the address is another one.") % {"port": parts.port})
    if not parts.path:
        found.append(_("A bare host. Clients usually come back to a path."))
    elif parts.path.endswith("/"):
        found.append(_("It ends with a slash. The application must send the slash, too."))
    if parts.scheme == "http" and parts.port is None and not is_public:
        found.append(_("Without a port, this is port 80. Only an application without a secret may send other ports."))
    if _is_private(host):
        found.append(_("A private network: only people in it come back to the application."))
    if "xn--" in host:
        with suppress(idna.IDNAError):
            spelled = idna.decode(host)
            found.append(_("The host reads %(host)s. Letters of other alphabets can look alike.") % {"host": spelled})
    return found


def _is_private(host: str) -> bool:
    if host in LOOPBACK_HOSTS:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:
        return host.endswith((".local", ".internal", ".lan", ".home.arpa")) or "." not in host


def validate_page(address: str) -> None:
    refuse_control_characters(address)
    URLValidator(["https", "http"])(address)
    if "@" in urlsplit(address).netloc:
        raise ValidationError(_("A user name or password in the address is not possible."), code="user")
    if not shown_host(address):
        raise ValidationError(_("The host is not one that a browser can open."), code="host")


def validate_sign_in_start(address: str) -> None:
    """Validate the address of the application's page that starts a sign-in (`initiate_login_uri`)."""
    validate_page(address)
    parts = urlsplit(address)
    if parts.scheme.lower() != "https" and parts.hostname not in LOOPBACK_HOSTS:
        raise ValidationError(_("Use https; http is possible on localhost, 127.0.0.1 and [::1] only."), code="scheme")


def shown_host(address: str) -> str:
    """Return the host and any port of the address, or "" if the address has no readable host.

    The host is in punycode (UTS #46), because letters of several alphabets look alike. A user name in the address is
    left out, because it could look like the host.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = idna.encode(host, uts46=True).decode()
    except ValueError:  # idna raises UnicodeErrors, which are ValueErrors
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
