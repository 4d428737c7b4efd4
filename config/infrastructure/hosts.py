"""The grammar of hosts, for settings, callback addresses and passkeys."""

from __future__ import annotations

import re
from ipaddress import ip_address

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
