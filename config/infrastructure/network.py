"""The reference of a request, the network address of its client, and the grammar of hosts."""

from __future__ import annotations

import base64
import functools
import re
import secrets
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

from config.infrastructure.texts import typed_code

# The `client_address` and the reference of the present request; empty outside of a request, such as in a command.
of_request: ContextVar[str] = ContextVar("address", default="")
reference: ContextVar[str] = ContextVar("reference", default="")

UNKNOWN = "unknown"
IPV6_PREFIX_BITS = 64
IPV6_SITE_BITS = 48


def client_address(request: HttpRequest) -> str:
    """Return the client's address (IPv6: its /64 network) or UNKNOWN. Only TRUSTED_PROXIES may set X-Forwarded-For."""
    proxies = tuple(settings.TRUSTED_PROXIES)
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if proxies else ""
    return _client_address(request.META.get("REMOTE_ADDR", ""), forwarded, proxies)


def is_proxy(peer: str) -> bool:
    address = _parse(peer) if settings.TRUSTED_PROXIES else None
    return address is not None and any(address in network for network in settings.TRUSTED_PROXIES)


@functools.lru_cache(maxsize=256)
def _client_address(peer: str, forwarded: str, proxies: tuple[IPv4Network | IPv6Network, ...]) -> str:
    address = _parse(peer)
    if address is None:
        return UNKNOWN
    # Take the right-most address that is no trusted proxy.
    for hop in reversed(forwarded.split(",")):
        if not any(address in network for network in proxies):
            break
        claimed = _parse(hop)
        if claimed is None:
            break
        address = claimed
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(ip_network((address, IPV6_PREFIX_BITS), strict=False))
    return str(address)


@functools.lru_cache(maxsize=256)
def site_of(address: str) -> str:
    """Return the /48 network of an IPv6 `client_address`, otherwise "". One customer may own a whole /48."""
    if ":" not in address:
        return ""
    return str(ip_network(address).supernet(new_prefix=IPV6_SITE_BITS))


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    text = text.strip()
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    return address


# Hosts ---------------------------------------------------------------------------------------------------------------

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
# The last label of a name must not be a number, because browsers read 127.1 as an IPv4 address.
_NAME = re.compile(r"(?=.{1,253}$)((?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?![0-9]+$)(?!-)[a-z0-9_-]{1,63}(?<!-)")


def is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_host(host: str) -> bool:
    """Return whether the text is an IP address without brackets, or a host name in lower case."""
    return is_ip_address(host) or _NAME.fullmatch(host) is not None


# References ----------------------------------------------------------------------------------------------------------

_CROCKFORD = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")
_MISREAD = str.maketrans("OIL", "011")


def new_reference() -> str:
    """Return eight random characters of Crockford's base 32 (no I, L, O, U). They are neither unique nor secret."""
    return base64.b32encode(secrets.token_bytes(5)).translate(_CROCKFORD).decode()


def typed_reference(text: str) -> str:
    """Return a typed reference in capitals, without spaces and hyphens. O becomes 0. I and L become 1."""
    return typed_code(text).upper().translate(_MISREAD)


def with_reference(sentence: str) -> str:
    return f"{sentence} Reference {reference.get()}." if reference.get() else sentence
