"""The grammar of hosts, for settings, callback addresses and passkeys."""

from __future__ import annotations

import re
from contextlib import suppress
from ipaddress import ip_address

import idna

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# The last label of a name must not be a number, because browsers read 127.1 as an IPv4 address.
_NAME = re.compile(r"(?=.{1,253}$)((?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?![0-9]+$)(?!-)[a-z0-9_-]{1,63}(?<!-)")


def is_ip_address(host: str) -> bool:
    """Return whether the text is an IPv4 or IPv6 address without brackets."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_host(host: str) -> bool:
    """Return whether the text is an IP address without brackets, or a name in lower case, with or without a dot."""
    return is_ip_address(host) or _NAME.fullmatch(host) is not None


def ascii_forms(text: str) -> dict[str, str]:
    """Return the ASCII form (RFC 5891) of each internationalised host in addresses, origins and lists of hosts."""
    parts = re.split(r"[\s,<>@]|//", text)
    hosts = {re.split(r"[/?#:]", part)[0].removeprefix(".") for part in parts}
    found = {}
    for host in sorted(hosts):
        if not host.isascii() and "." in host:
            with suppress(idna.IDNAError):
                found[host] = idna.encode(host, uts46=True).decode()
    return found
