"""The service behind the nginx configuration of docs/operations.md, and of two servers."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

from config.infrastructure import paths
from tests import peers
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.faults.load import Caller
from tests.peers import nginx, wait_until
from tests.server import Server, free_port, serve

# One server -----------------------------------------------------------------------------------------------------------

KEY = "nobody-may-read-this-key"
RESET_LINK = f"/accounts/password/reset/{KEY}?code={KEY}"
# The last columns of the documented format: seconds of nginx and of the service, reference, request ID.
LINE = re.compile(
    r'(?P<time>\S+) 127\.0\.0\.1 localhost "(?P<method>[A-Z]+)" (?P<status>\d+) \d+ [\d.]+ '
    r"(?P<seconds>[\d.]+|-) (?P<reference>\w{8}|-) (?P<request_id>[0-9a-f]{32})"
)


@pytest.fixture(scope="module")
def server_behind_nginx(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests. `base_url` and `auth_url` are the address of nginx."""
    folder, port, origin_port = tmp_path_factory.mktemp("behind-nginx"), free_port(), free_port()
    address = f"http://localhost:{origin_port}"
    origin = {"BASE_URL": address, "AUTH_URL": address, "TRUSTED_PROXIES": "127.0.0.1"}
    with serve(folder / "server", port=port, **origin) as server, nginx(folder / "nginx", origin_port, port):
        yield server


def lines(folder: Path, **wanted: str) -> list[re.Match[str]]:
    """The lines of nginx's access log with these values."""
    logged = (folder / "sign-in.log").read_text(encoding="utf-8").splitlines()
    found = [match for match in map(LINE.fullmatch, logged) if match]
    assert len(found) == len(logged), logged
    return [match for match in found if wanted.items() <= match.groupdict().items()]


def written(folder: Path) -> str:
    """Everything that nginx has logged anywhere."""
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*.log"))


@contract("D5.state")
@pytest.mark.parametrize("is_text", [True, False], ids=["letters", "bytes"])
def test_a_state_of_4_kb_comes_back_after_a_whole_sign_in(
    server_behind_nginx: Server, application: Registered, is_text: bool
) -> None:
    state = secrets.token_urlsafe(4096)[:4096] if is_text else "".join(chr(0x2600 + n % 256) for n in range(1365))
    driver = OAuthDriver(server_behind_nginx.base_url, server_behind_nginx.auth_url)
    page = driver.open(driver.authorization_url(application, state=state))
    callback = driver.callback(driver.decide(driver.sign_in(page, PersonFactory().email, PASSWORD)))
    assert callback.raw("state") == quote(state, safe="-_")
    assert driver.exchange(application, callback.parameters["code"]).status_code == 200


def test_a_line_of_nginx_leads_to_those_of_the_service_and_has_no_path(server_behind_nginx: Server) -> None:
    folder = server_behind_nginx.folder.parent / "nginx"
    answer = requests.get(f"{server_behind_nginx.auth_url}{RESET_LINK}", timeout=60)
    reference = answer.headers["X-Reference"]
    wait_until(lambda: len(lines(folder, reference=reference)) == 1)
    [line] = lines(folder, reference=reference)
    assert line["status"] == str(answer.status_code)
    assert float(line["seconds"]) >= 0
    assert abs(datetime.now(UTC) - datetime.fromisoformat(line["time"])) < timedelta(hours=1)
    assert server_behind_nginx.logged(f'"request_id":"{line["request_id"]}"')
    of_service = [json.loads(each) for each in server_behind_nginx.log.splitlines() if line["request_id"] in each]
    assert {each["reference"] for each in of_service} == {reference}
    assert KEY not in written(folder)


def upstream(server: Server) -> int:
    """The port behind nginx."""
    return int(re.findall(r"Listening at: http://127\.0\.0\.1:(\d+)", server.log)[0])


def test_nginx_tells_the_operations_of_applications_from_pages(server_behind_nginx: Server, tmp_path: Path) -> None:
    """The unit of operations is away."""
    port = free_port()
    units = {peers.PAGES: upstream(server_behind_nginx), peers.OPERATIONS: free_port()}

    def is_answered(path: str) -> bool:
        return requests.get(f"http://localhost:{port}{path}", timeout=60, allow_redirects=False).status_code != 502

    of_pages = {paths.AUTHORIZE, paths.LOGOUT}
    with peers.nginx(tmp_path / "nginx", port, units):
        assert [path for path in (*paths.OPERATIONS, "/health/ready") if is_answered(path)] == sorted(of_pages)
        assert all(map(is_answered, ("/accounts/sign-in", "/oauth/nowhere", "/static/css/site.css", "/docs")))


@pytest.mark.parametrize(
    ("addresses", "are_refused"),
    [
        ("2001:db8:a:a::{:x}", True),
        ("2001:db8:a:a:{:x}::", True),
        ("2001:db8:a:{:x}::1", False),
        ("192.0.2.{}", False),
    ],
    ids=["hosts of a /64", "subnets of a /64", "several /64", "IPv4"],
)
def test_nginx_counts_an_ipv6_address_by_its_64(
    server_behind_nginx: Server, tmp_path: Path, addresses: str, are_refused: bool
) -> None:
    """A header gives the addresses, because the loopback interface has one IPv6 address only."""
    port, folder = free_port(), tmp_path / "nginx"
    server = f"{{ server 127.0.0.1:{upstream(server_behind_nginx)}; }}"
    service = f"upstream sign_in_pages {server} upstream sign_in_operations {server}"

    def answered(pattern: str = "HEAD") -> int:
        return len(re.findall(pattern, (folder / "sign-in.log").read_text(encoding="utf-8")))

    with (
        peers.nginx(folder, port, f"{service} set_real_ip_from 127.0.0.1; real_ip_header X-Client;"),
        ExitStack() as opened,
    ):
        for number in range(140):
            client = f"X-Client: {addresses.format(number)}"
            request = f"HEAD {RESET_LINK} HTTP/1.1\r\nHost: localhost:{port}\r\n{client}\r\n\r\n".encode()
            opened.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(request)
        wait_until(lambda: answered('"HEAD" 429 .* - [0-9a-f]{32}') > 0 if are_refused else answered() == 140)
        assert (answered('"HEAD" 429') > 0) == are_refused
    assert KEY not in written(folder)
    assert "$binary_remote_addr zone" not in (folder / "nginx.conf").read_text(encoding="utf-8"), "a limit is left out"


# Two servers, as docs/operations.md says; one is killed under load -------------------------------------------------

PEOPLE = 4
SIGN_INS = 3  # of each person, before and after the kill


class Visitor(threading.Thread):
    """Somebody who is signed in to an application again and again: three requests each time."""

    def __init__(self, url: str, application: Registered) -> None:
        super().__init__()
        self.driver, self.application = OAuthDriver(url).signed_in(PersonFactory().email, PASSWORD), application
        self.sign_ins, self.is_over = 0, threading.Event()
        self.failed: Counter[tuple[str | None, int]] = Counter()
        for session in (self.driver.browser, self.driver.backend):
            # Not those of openapi.json, which does not have nginx's 502.
            session.hooks["response"] = [self.note]

    def note(self, response: requests.Response, **_options: Any) -> None:
        if response.status_code >= 400:
            self.failed[response.request.method, response.status_code] += 1

    def run(self) -> None:
        while not self.is_over.is_set():
            try:
                self.sign_in()
            except requests.exceptions.ChunkedEncodingError:  # the server had sent the headers, but not the whole body
                self.failed["answer", 200] += 1

    def sign_in(self) -> None:
        before = self.failed.total()
        code = self.driver.open(self.driver.authorization_url(self.application))
        if self.failed.total() == before:
            answer = self.driver.exchange(self.application, self.driver.callback(code).parameters["code"])
            self.sign_ins += answer.ok and self.driver.userinfo(answer.json()["access_token"]).ok


def test_one_of_two_servers_is_killed_and_no_sign_in_is_lost(
    postgresql: None, launch: Launch, redis_server: Any, tmp_path: Path
) -> None:
    """Only a POST or an answer that the killed server was sending may fail, at most one of each visitor."""
    origin, application = free_port(), ApplicationFactory(is_trusted=True)
    url, key, ports = f"http://localhost:{origin}", secrets.token_urlsafe(50), (free_port(), free_port())
    units = {f"10.0.0.{number}:{unit}": port for number, port in enumerate(ports, 1) for unit in (8000, 8001)}
    variables = {"BASE_URL": url, "TRUSTED_PROXIES": "127.0.0.1", "REDIS_URL": redis_server.url, "SECRET_KEY": key}
    lost, _ = (launch(port=port, BIND=f"127.0.0.1:{port}", **variables) for port in ports)
    with nginx(tmp_path / "nginx", origin, units):
        visitors = [Visitor(url, application) for _ in range(PEOPLE)]

        def all_sign_in_more() -> None:
            wanted = [(visitor, visitor.sign_ins + SIGN_INS) for visitor in visitors]
            wait_until(lambda: all(visitor.sign_ins >= count for visitor, count in wanted), seconds=120)

        for visitor in visitors:
            visitor.start()
        try:
            all_sign_in_more()
            assert '"route":"/oauth/token"' in lost.log, "nginx used one server only"
            os.killpg(lost.process.pid, signal.SIGKILL)
            all_sign_in_more()
        finally:
            for visitor in visitors:
                visitor.is_over.set()
            for visitor in visitors:
                visitor.join()
        failed = sum((visitor.failed for visitor in visitors), Counter())
        assert failed.keys() <= {("POST", 502), ("answer", 200)}, failed
        assert all(visitor.failed.total() <= 1 for visitor in visitors), failed
        assert [visitor.driver.get("/accounts/profile").status_code for visitor in visitors] == [200] * PEOPLE


# Slow clients: without a proxy they delay others; see docs/operations.md ----------------------------------------------

ALICE, MALLORY = "127.0.0.2", "127.0.0.3"
MANY = 60
DESCRIPTORS = 64
QUESTION = b"GET /oauth/userinfo HTTP/1.1\r\nHost: HOST\r\n\r\n"


class Slow:
    """A connection of Mallory's that sends exactly the given bytes, and reads nothing."""

    def __init__(self, server: Server) -> None:
        self.host = urlsplit(server.base_url).netloc.encode()
        port = int(self.host.rpartition(b":")[2])
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(MALLORY, 0))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)

    def send(self, text: bytes) -> None:
        self.socket.sendall(text.replace(b"HOST", self.host))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (b"", b""),
        (b"GET /oau", b""),
        (QUESTION[:-2], b"X: 1\r\n"),
        (b"POST /oauth/token HTTP/1.1\r\nHost: HOST\r\nContent-Length: 30\r\n\r\ngrant_type", b"="),
        (b"GET /health/live HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", b""),
        (b"GET /static/css/site.css HTTP/1.1\r\nHost: HOST\r\n\r\n" * 10, b""),
    ],
    ids=["silent", "half a line", "headers that trickle", "half a body", "never closed", "answers that are not read"],
)
def test_slow_clients_keep_nobody_waiting(server_behind_nginx: Server, first: bytes, then: bytes) -> None:
    """They are many more than the threads of the service, and occupy nginx only, for longer than the others ask."""
    with ExitStack() as opened:
        clients = [Slow(server_behind_nginx) for _ in range(MANY)]
        for client in clients:
            opened.enter_context(client.socket)
            client.send(first)
        for _ in range(3):
            for client in clients:
                with suppress(ConnectionError):  # a busy machine took so long that nginx gave it up
                    client.send(then)
            assert Caller(server_behind_nginx, address=ALICE).userinfo("x").status == 401


def test_more_connections_than_descriptors_end_no_worker(launch: Launch) -> None:
    server = launch(under=["prlimit", f"--nofile={DESCRIPTORS}"])
    before = server.workers()
    with ExitStack() as opened:
        for _ in range(2 * DESCRIPTORS):
            client = Slow(server)
            opened.enter_context(client.socket)
            client.send(QUESTION)

    def is_answered() -> bool:
        with suppress(OSError):
            return Caller(server).userinfo("x").status == 401
        return False

    wait_until(is_answered)
    assert server.workers() == before
