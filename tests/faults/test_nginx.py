"""The service behind the nginx configuration of docs/operations.md. Behind that of several machines: `make drill`."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
import requests

from config.infrastructure import paths
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory, Registered
from tests.peers import OPERATIONS, PAGES, nginx
from tests.server import Server, free_port, serve, wait_until

KEY = "nobody-may-read-this-key"
RESET_LINK = f"/accounts/password/reset/{KEY}?code={KEY}"
# The last columns of the documented format: seconds of nginx and of the service, reference, request ID.
LINE = re.compile(
    r'\S+ 127\.0\.0\.1 localhost "[A-Z]+" (?P<status>\d+) \d+ [\d.]+ (?:[\d.]+|-) \w{8} (?P<request_id>[0-9a-f]{32})'
)


@pytest.fixture(scope="module")
def server_behind_nginx(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, port, origin_port = tmp_path_factory.mktemp("behind-nginx"), free_port(), free_port()
    address = f"http://localhost:{origin_port}"
    origin = {"BASE_URL": address, "AUTH_URL": address, "TRUSTED_PROXIES": "127.0.0.1"}
    with serve(folder / "server", port=port, **origin) as server, nginx(folder / "nginx", origin_port, port):
        yield server


def written(folder: Path) -> str:
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("*.log"))


@contract("D5.state")
def test_a_state_of_4_kb_comes_back_after_a_whole_sign_in(server_behind_nginx: Server, application: Registered) -> None:
    state = "".join(chr(0x2600 + n % 256) for n in range(1365))
    driver = OAuthDriver(server_behind_nginx.base_url)
    page = driver.open(driver.authorization_url(application, state=state))
    callback = driver.callback(driver.decide(driver.sign_in(page, PersonFactory().email, PASSWORD)))
    assert callback.raw("state") == quote(state, safe="-_")
    assert driver.exchange(application, callback.parameters["code"]).status_code == 200


def test_a_line_of_nginx_leads_to_those_of_the_service_and_has_no_path(server_behind_nginx: Server) -> None:
    folder = server_behind_nginx.folder.parent / "nginx"
    answer = requests.get(f"{server_behind_nginx.auth_url}{RESET_LINK}", timeout=60)
    reference = answer.headers["X-Reference"]
    log = folder / "sign-in.log"
    wait_until(lambda: reference in log.read_text(encoding="utf-8"))
    [line] = [found for each in log.read_text().splitlines() if (found := LINE.fullmatch(each)) and reference in each]
    assert line["status"] == str(answer.status_code)
    assert server_behind_nginx.logged(f'"request_id":"{line["request_id"]}"')
    of_service = [json.loads(each) for each in server_behind_nginx.log.splitlines() if line["request_id"] in each]
    assert {each["reference"] for each in of_service} == {reference}
    assert KEY not in written(folder)


def upstream(server: Server) -> int:
    return int(re.findall(r"Listening at: http://127\.0\.0\.1:(\d+)", server.log)[0])


def test_nginx_tells_the_operations_of_applications_from_pages(server_behind_nginx: Server, tmp_path: Path) -> None:
    port = free_port()
    units = {PAGES: upstream(server_behind_nginx), OPERATIONS: free_port()}  # the unit of operations is away

    def is_answered(path: str) -> bool:
        return requests.get(f"http://localhost:{port}{path}", timeout=60, allow_redirects=False).status_code != 502

    of_pages = {paths.AUTHORIZE, paths.LOGOUT}
    with nginx(tmp_path / "nginx", port, units):
        assert [path for path in (*paths.OPERATIONS, "/health/ready") if is_answered(path)] == sorted(of_pages)
        assert all(map(is_answered, ("/accounts/sign-in", "/oauth/nowhere", "/static/css/site.css", "/docs")))


@pytest.mark.parametrize(
    ("addresses", "are_refused"), [("2001:db8:a:a::{:x}", True), ("2001:db8:a:{:x}::1", False), ("192.0.2.{}", False)]
)
def test_nginx_counts_an_ipv6_address_by_its_64(
    server_behind_nginx: Server, tmp_path: Path, addresses: str, are_refused: bool
) -> None:
    port, folder = free_port(), tmp_path / "nginx"
    server = f"{{ server 127.0.0.1:{upstream(server_behind_nginx)}; }}"
    # A header gives the addresses, because the loopback interface has one IPv6 address only.
    service = f"upstream sign_in_pages {server} upstream sign_in_operations {server}"

    def answered(pattern: str = "HEAD") -> int:
        return len(re.findall(pattern, (folder / "sign-in.log").read_text(encoding="utf-8")))

    service += " set_real_ip_from 127.0.0.1; real_ip_header X-Client;"
    with nginx(folder, port, service), ExitStack() as opened:
        for number in range(140):
            client = f"X-Client: {addresses.format(number)}"
            request = f"HEAD {RESET_LINK} HTTP/1.1\r\nHost: localhost:{port}\r\n{client}\r\n\r\n".encode()
            opened.enter_context(socket.create_connection(("127.0.0.1", port))).sendall(request)
        wait_until(lambda: answered('"HEAD" 429 .* - [0-9a-f]{32}') > 0 if are_refused else answered() == 140)
        assert (answered('"HEAD" 429') > 0) == are_refused
    assert KEY not in written(folder)
    assert "$binary_remote_addr zone" not in (folder / "nginx.conf").read_text(encoding="utf-8"), "a limit is left out"
