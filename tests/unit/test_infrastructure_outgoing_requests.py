"""No internal address is reached, also by way of the DNS; no redirect is followed, and no request takes for ever."""

from __future__ import annotations

import functools
import socket
import ssl
import threading
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from config.infrastructure import outgoing_requests
from tests.contract_coverage import contract
from tests.peers import DRIPS, HANGS, Receiver, certificate_for

LOOPBACK = [ip_network("127.0.0.0/8")]
INTERNAL = (
    "0.0.0.0 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 192.168.1.1 224.0.0.1 240.0.0.1 "
    "255.255.255.255 :: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 64:ff9b::127.0.0.1 "
    "64:ff9b::10.0.0.1 2002:7f00:1:: 2001:0:7f00:1:: fc00::1 fd12::1 fe80::1 fec0::1 ff02::1"
)
PUBLIC = "8.8.8.8 2606:4700::1111 64:ff9b::8.8.8.8 ::ffff:8.8.8.8"


def post(url: str, *, seconds: float = 60, allowed: Any = LOOPBACK) -> int:
    return outgoing_requests.post_form(url, {"logout_token": "x"}, seconds=seconds, allowed=allowed)


@contract("I10.internal")
def test_an_internal_address_is_none_of_the_internet_and_a_public_one_is() -> None:
    internal, public = ([ip_address(text) for text in texts.split()] for texts in (INTERNAL, PUBLIC))
    assert [each for each in internal if outgoing_requests.is_public(each)] == []
    assert [each for each in internal if outgoing_requests.is_allowed(each, [])] == []
    assert [each for each in public if not outgoing_requests.is_public(each)] == []
    named = ("127.0.0.1", "::ffff:127.0.0.1", "10.0.0.1")
    assert [outgoing_requests.is_allowed(ip_address(each), LOOPBACK) for each in named] == [True, True, False]


@contract("I10.internal")
def test_nothing_is_sent_to_this_machine() -> None:
    with Receiver().listening() as receiver:
        for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0"):
            with pytest.raises((outgoing_requests.InternalAddress, OSError)):
                post(f"http://{host}:{receiver.port}/", allowed=[])
        assert receiver.requests == []


@contract("I10.internal")
def test_the_address_that_was_checked_is_the_one_that_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second answer of the DNS, to another address, is never asked for."""
    asked: list[str] = []
    looked_up = socket.getaddrinfo

    def answer(host: str, port: Any, *given: Any, **options: Any) -> Any:
        if host != "app.example":
            return looked_up(host, port, *given, **options)
        asked.append(host)
        places = ("10.0.0.1", "127.0.0.2") if len(asked) == 1 else ("127.0.0.1",)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with Receiver().listening("127.0.0.2") as receiver:
        url = f"http://app.example:{receiver.port}/"
        assert post(url, allowed=[ip_network("127.0.0.2")]) == 200, "at the first address that may be reached"
        assert receiver.requests[0][1]["Host"] == f"app.example:{receiver.port}"
        assert len(asked) == 1
        with pytest.raises(outgoing_requests.InternalAddress):
            post(url, allowed=[])
        assert len(receiver.requests) == 1


@contract("I10.internal")
def test_no_redirect_is_followed() -> None:
    with Receiver().listening() as inside, Receiver(307, location=inside.url).listening() as receiver:
        assert post(f"http://127.0.0.1:{receiver.port}/über?ä=%20%C3%BC&b=[1]") == 307
        assert inside.requests == []
        assert receiver.requests[0][0] == "/%C3%BCber?%C3%A4=%20%C3%BC&b=[1]", "letters are sent as browsers send them"


def test_a_request_is_over_after_its_time() -> None:
    over = (outgoing_requests.TimedOut, TimeoutError)
    for answer in (HANGS, DRIPS):
        with Receiver(answer).listening() as receiver, pytest.raises(over):
            post(receiver.url, seconds=0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(over):  # no TLS is spoken
        post(f"https://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.2)


def test_a_peer_that_accepts_at_the_last_moment_gains_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    connect, stop, is_over = socket.create_connection, outgoing_requests._Pinned._stop, threading.Event()

    def late(*given: Any) -> socket.socket:
        assert is_over.wait(60)
        return connect(*given)

    monkeypatch.setattr(outgoing_requests._Pinned, "_stop", lambda pinned: (stop(pinned), is_over.set()))
    monkeypatch.setattr(socket, "create_connection", late)
    with Receiver().listening() as receiver:
        with pytest.raises(outgoing_requests.TimedOut):
            post(receiver.url, seconds=0.1)
        assert receiver.requests == []


def test_the_certificate_must_be_that_of_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificate = certificate_for(tmp_path, 1)  # for localhost
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=f"{certificate}.crt")
    monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
    here = functools.partial(socket.getaddrinfo, "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *given, **options: here(*given, **options))
    read: list[bytes] = []

    def answer() -> None:
        for _ in range(2):
            with suppress(OSError), context.wrap_socket(listener.accept()[0], server_side=True) as secured:
                while not b"".join(read).endswith(b"logout_token=x"):
                    read.append(secured.recv(65536))
                secured.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer, daemon=True).start()
        port = listener.getsockname()[1]
        with pytest.raises(ssl.SSLCertVerificationError):
            post(f"https://localhost.example:{port}/")
        assert read == []
        assert post(f"https://localhost:{port}/") == 204
    assert b"Host: localhost" in b"".join(read)
