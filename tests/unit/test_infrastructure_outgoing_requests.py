"""No internal address is reached, also by way of the DNS; no redirect is followed, and no request takes for ever."""

from __future__ import annotations

import functools
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from config.infrastructure import outgoing_requests
from tests.contract_coverage import contract
from tests.logout_receiver import DRIPS, HANGS, Receiver
from tests.server import free_port

LOOPBACK = [ip_network("127.0.0.0/8")]
INTERNAL = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.1.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "2002:7f00:1::",
    "2001:0:7f00:1::",
    "fc00::1",
    "fd12::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
]


def post(url: str, *, seconds: float = 5, allowed: Any = LOOPBACK) -> int:
    return outgoing_requests.post_form(url, {"logout_token": "x"}, seconds=seconds, allowed=allowed)


@contract("I10.internal")
@pytest.mark.parametrize("text", INTERNAL)
def test_an_internal_address_is_none_of_the_internet(text: str) -> None:
    assert not outgoing_requests.is_public(ip_address(text))
    assert not outgoing_requests.is_allowed(ip_address(text), [])


@pytest.mark.parametrize("text", ["8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"])
def test_a_public_address_is(text: str) -> None:
    assert outgoing_requests.is_public(ip_address(text))


def test_a_network_that_is_named_may_be_reached_in_every_spelling() -> None:
    for text in ("127.0.0.1", "::ffff:127.0.0.1"):
        assert outgoing_requests.is_allowed(ip_address(text), LOOPBACK)
    assert not outgoing_requests.is_allowed(ip_address("10.0.0.1"), LOOPBACK)


@contract("I10.internal")
@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0"],
)
def test_nothing_is_sent_to_this_machine(host: str) -> None:
    with Receiver().listening() as receiver:
        with pytest.raises((outgoing_requests.InternalAddress, OSError)):
            post(f"http://{host}:{receiver.port}/", allowed=[])
        assert receiver.requests == []


@contract("I10.internal")
def test_the_address_that_was_checked_is_the_one_that_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second answer of the DNS, to another address, is never asked for."""
    asked: list[str] = []
    looked_up = socket.getaddrinfo

    def answer(host: str, port: Any, *given: Any, **options: Any) -> Any:
        asked.append(host)
        place = "127.0.0.2" if asked.count("app.example") == 1 else "127.0.0.1"
        return looked_up(place if host == "app.example" else host, port, *given, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with Receiver().listening("127.0.0.2") as receiver:
        assert post(f"http://app.example:{receiver.port}/", allowed=[ip_network("127.0.0.2")]) == 200
        assert receiver.requests[0][1]["Host"] == f"app.example:{receiver.port}"
    assert asked.count("app.example") == 1


@contract("I10.internal")
def test_an_internal_answer_of_the_dns_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = socket.getaddrinfo

    def answer(host: str, port: int, *given: Any, **options: Any) -> Any:
        if host != "app.example":
            return looked_up(host, port, *given, **options)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (place, port)) for place in ("10.0.0.1", "127.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with Receiver().listening() as receiver:
        with pytest.raises(outgoing_requests.InternalAddress):
            post(f"http://app.example:{receiver.port}/", allowed=[])
        assert post(f"http://app.example:{receiver.port}/") == 200, "the first address that may be reached"


@contract("I10.internal")
def test_no_redirect_is_followed() -> None:
    with Receiver().listening() as inside, Receiver(307, location=inside.url).listening() as receiver:
        assert post(receiver.url) == 307
        assert inside.requests == []
        assert receiver.requests[0][0] == "/told?a=1"


@pytest.mark.parametrize("answer", [HANGS, DRIPS])
def test_a_request_is_over_after_its_time(answer: int) -> None:
    began = time.monotonic()
    with Receiver(answer).listening() as receiver, pytest.raises((outgoing_requests.TimedOut, TimeoutError)):
        post(receiver.url, seconds=0.5)
    assert time.monotonic() - began < 5


def test_a_peer_that_accepts_at_the_last_moment_gains_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection

    def late(*given: Any) -> socket.socket:
        time.sleep(0.4)
        return connect(*given)

    monkeypatch.setattr(socket, "create_connection", late)
    with Receiver(DRIPS).listening() as receiver:
        threading.Timer(5, receiver.released.set).start()
        with pytest.raises(outgoing_requests.TimedOut):
            post(receiver.url, seconds=0.2)
        assert not receiver.released.is_set()


def test_an_address_with_other_letters_is_sent_as_browsers_send_it() -> None:
    with Receiver().listening() as receiver:
        assert post(f"http://127.0.0.1:{receiver.port}/über?ä=%20%C3%BC&b=[1]") == 200
    assert receiver.requests[0][0] == "/%C3%BCber?%C3%A4=%20%C3%BC&b=[1]"


def test_a_closed_port_is_an_error_of_the_network() -> None:
    with pytest.raises(OSError, match="refused"):
        post(f"http://127.0.0.1:{free_port()}/")


def test_a_peer_that_speaks_no_tls_takes_no_longer() -> None:
    with Receiver(HANGS).listening() as receiver, pytest.raises((outgoing_requests.TimedOut, OSError)):
        post(f"https://127.0.0.1:{receiver.port}/", seconds=0.5)


@contextmanager
def with_certificate(folder: Path, name: str) -> Iterator[tuple[int, Path, list[bytes]]]:
    """A TLS server whose certificate is for the name. Yields its port, the certificate, and what was read."""
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    made += ["-keyout", str(key), "-out", str(certificate), "-subj", "/CN=x", "-addext", f"subjectAltName=DNS:{name}"]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", free_port()))
    read: list[bytes] = []

    def answer() -> None:
        try:
            with context.wrap_socket(listener.accept()[0], server_side=True) as peer:
                while not b"".join(read).endswith(b"logout_token=x"):
                    read.append(peer.recv(65536))
                peer.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        except OSError:
            pass

    threading.Thread(target=answer, daemon=True).start()
    yield listener.getsockname()[1], certificate, read
    listener.close()


@pytest.mark.parametrize(("name", "is_right"), [("app.example", True), ("127.0.0.1.example", False)])
def test_the_certificate_must_be_that_of_the_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, is_right: bool
) -> None:
    here = functools.partial(socket.getaddrinfo, "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *given, **options: here(*given, **options))
    with with_certificate(tmp_path, name) as (port, certificate, read):
        trusting = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
        if is_right:
            assert post(f"https://app.example:{port}/") == 204
            assert b"Host: app.example" in b"".join(read)
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                post(f"https://app.example:{port}/")
            assert read == []
