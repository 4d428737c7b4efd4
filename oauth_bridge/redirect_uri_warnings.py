"""Warn about callback addresses that can be registered, but that clients seldom send. D3."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import idna
from django.utils.translation import gettext as _

from config.infrastructure.hosts import LOOPBACK_HOSTS

_DEFAULT_PORTS = {"https": 443, "http": 80}


def hints(uri: str, *, is_public: bool) -> list[str]:
    """Return sentences about unusual parts of an address that an application can register."""
    parts = urlsplit(uri)
    if parts.scheme not in _DEFAULT_PORTS:
        return []
    host, found = parts.hostname or "", []
    if parts.port == _DEFAULT_PORTS[parts.scheme]:
        found.append(_("Most clients leave :%(port)d out; then the address is another one.") % {"port": parts.port})
    if not parts.path:
        found.append(_("A bare host. Clients usually come back to a path."))
    elif parts.path == "/" or parts.path.endswith("/"):
        found.append(_("It ends with a slash. The application must send the slash, too."))
    if parts.scheme == "http" and parts.port is None and not is_public:
        found.append(_("Without a port, this is port 80. Only an application without a secret may send other ports."))
    if _is_private(host):
        found.append(_("A private network: only people in it come back to the application."))
    if spelled := _spelled_out(host):
        found.append(_("The host reads %(host)s. Letters of other alphabets can look alike.") % {"host": spelled})
    return found


def _is_private(host: str) -> bool:
    if host in LOOPBACK_HOSTS:
        return False
    try:
        return ip_address(host).is_private
    except ValueError:
        return host.endswith((".local", ".internal", ".lan", ".home.arpa")) or "." not in host


def _spelled_out(host: str) -> str:
    """Return the decoded host if it is in punycode; otherwise an empty string."""
    if "xn--" not in host:
        return ""
    try:
        return idna.decode(host)
    except idna.IDNAError:
        return ""
