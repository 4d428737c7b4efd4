"""Requests of this service to addresses that other people have registered.

A request reaches no internal address, follows no redirect and ends after a fixed time. The host is looked up once, so
the connection goes to the address that was checked. TLS verifies the name of the host.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from collections.abc import Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, urlencode, urlsplit

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_PORTS = {"https": 443, "http": 80}
_AS_SENT = "".join(map(chr, range(0x21, 0x7F)))  # a path keeps these characters; others are percent-encoded
_NAT64 = ip_network("64:ff9b::/96")
# Tunnels to IPv4 addresses. They are refused, because the IPv4 addresses in them are not checked.
_TUNNELS = (ip_network("2002::/16"), ip_network("2001::/32"))


class InternalAddress(Exception):
    """The host has only internal addresses."""


class TimedOut(Exception):
    """The request took too long."""


def post_form(url: str, fields: dict[str, str], *, seconds: float, allowed: Collection[Network]) -> int:
    """Post the fields and return the status, without reading the body. Internal networks in `allowed` may be reached.

    The DNS lookup has no time limit. Raises InternalAddress, TimedOut, OSError or HTTPException.
    """
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    address = _checked(host, port, allowed)
    path = quote(f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}", safe=_AS_SENT)
    connection = _Pinned(host, port, address, is_tls=parts.scheme == "https", seconds=seconds)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    try:
        connection.request("POST", path, urlencode(fields), headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException):
        if connection.is_over:
            raise TimedOut from None
        raise
    finally:
        connection.end()
    if connection.is_over:  # the time ended while headers were read
        raise TimedOut
    return status


def is_public(address: Address) -> bool:
    """Return whether the address is public: in no private, reserved, multicast or tunnel network."""
    address = _plain(address)
    if isinstance(address, IPv6Address) and (address.is_site_local or any(address in each for each in _TUNNELS)):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_allowed(address: Address, allowed: Collection[Network]) -> bool:
    return is_public(address) or any(_plain(address) in network for network in allowed)


def internal_host(host: str, allowed: Collection[Network]) -> bool:
    """Return whether the host is `localhost` or an internal address. Other names are not looked up."""
    if host == "localhost":
        host = "127.0.0.1"
    try:
        return not is_allowed(ip_address(host), allowed)
    except ValueError:
        return False


def _plain(address: Address) -> Address:
    """Return the IPv4 address in an IPv4-mapped or NAT64 address, and any other address unchanged."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped
    if isinstance(address, IPv6Address) and address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _checked(host: str, port: int, allowed: Collection[Network]) -> str:
    """Return the first address of the host that may be reached. Raises InternalAddress: there is none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for *_kind, place in found:
        text = str(place[0])
        if is_allowed(ip_address(text.partition("%")[0]), allowed):
            return text
    raise InternalAddress


class _Pinned(http.client.HTTPConnection):
    """A connection to `address`, with `host` as Host header and TLS name. It ends after `seconds` in any case."""

    def __init__(self, host: str, port: int, address: str, *, is_tls: bool, seconds: float) -> None:
        self.default_port = _PORTS["https" if is_tls else "http"]  # the Host header omits this port
        super().__init__(host, port, timeout=seconds)
        self._address, self._is_tls = address, is_tls
        self.is_over = False
        self._timer = threading.Timer(seconds, self._stop)
        self._timer.daemon = True
        self._timer.start()

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        self._refuse_when_over()
        if self._is_tls:
            context = ssl.create_default_context()
            self.sock = secured = context.wrap_socket(
                self.sock, server_hostname=self.host, do_handshake_on_connect=False
            )
            self._refuse_when_over()
            secured.do_handshake()

    def _refuse_when_over(self) -> None:
        """Raises TimeoutError: the time is over. `_stop` may have run before the present socket existed."""
        if self.is_over:
            raise TimeoutError

    def end(self) -> None:
        self._timer.cancel()
        self.close()

    def _stop(self) -> None:
        self.is_over = True
        if sock := self.sock:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
