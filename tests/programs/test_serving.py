"""The service under gunicorn: which requests it takes, its environment, and what it says of itself."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
from typing import Any
from urllib.parse import urlsplit

import requests

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.peers import wait_until
from tests.server import Server, is_open


def send(server: Server, target: str, *headers: str) -> tuple[int, bytes]:
    """Status and body of a request that no client library would write."""
    netloc = urlsplit(server.base_url).netloc
    head = "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {netloc}", "Connection: close", *headers, "", ""])
    with socket.create_connection(("127.0.0.1", int(netloc.rpartition(":")[2])), timeout=60) as connection:
        connection.sendall(head.encode())
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return int(answer.split(b" ", 2)[1]), answer


def test_the_request_line_and_the_referrer_have_room_for_a_state(provider: Server) -> None:
    state = "/health/live?state=" + "%00" * 4096
    inside_next = "/health/live?next=/oauth/authorize%3Fstate%3D" + "%2500" * 4096
    assert [send(provider, target)[0] for target in (state, inside_next)] == [200, 200]
    assert send(provider, "/health/live", "Referer: http://localhost/?" + "%2500" * 4096)[0] == 200
    assert send(provider, "/health/live?state=" + "x" * 40_000)[0] == 414


def test_a_body_that_no_view_reads_leaves_the_connection_open(provider: Server) -> None:
    """gunicorn's own limit is 64 kB."""
    netloc = urlsplit(provider.base_url).netloc
    connection = http.client.HTTPConnection("127.0.0.1", int(netloc.rpartition(":")[2]), timeout=60)
    for _ in range(2):
        connection.request("POST", "/oauth/jwks", b"x" * 1_000_000, {"Host": netloc})
        response = connection.getresponse()
        assert response.status == 405
        response.read()
        assert connection.sock is not None, "closed"
    connection.close()


def test_headers_of_a_proxy_change_no_address(provider: Server) -> None:
    """gunicorn would take the script name from the loopback address."""
    assert send(provider, "/health/live", "SCRIPT-NAME: /elsewhere", "X-Forwarded-Proto: https")[0] == 200
    _, answer = send(provider, "/", "X-Forwarded-Host: mallory.example", "X-Forwarded-Proto: https")
    assert b"mallory" not in answer


def test_the_whole_log_is_json_and_holds_no_query(provider: Server) -> None:
    send(provider, "/hidden path HTTP/1.1 ")
    send(provider, "/", "broken header hidden")
    live = requests.get(f"{provider.base_url}/health/live", params={"code": "hidden-code"}, timeout=60)
    missing = requests.get(f"{provider.base_url}/hidden-path", timeout=60)
    assert all(provider.logged(answer.headers["X-Reference"]) for answer in (live, missing))
    lines = [json.loads(line) for line in provider.log.splitlines()]
    assert all({"time", "level", "logger", "message", "reference"} <= set(line) for line in lines)
    assert "hidden" not in provider.log


def test_a_full_garbage_collection_of_a_worker_examines_few_objects(launch: Launch) -> None:
    """The modules of the service are about 120,000 objects."""
    server = launch(wsgi="tests.wsgi.collecting")
    assert send(server, "/health/live")[0] == 200
    assert int(send(server, "/collect")[1].rpartition(b"\r\n")[2]) < 30_000


@contract("O.environment", "O.serve")
def test_the_environment_reaches_the_service_and_a_request_under_way_outlives_its_stop(
    launch: Launch, alice: Any
) -> None:
    server = launch(
        SERVICE_NAME="Ærlig Sign-In",
        DEFAULT_FROM_EMAIL="Ærlig <post@aerlig.example>",
        ALLOWED_HOSTS="localhost,127.0.0.1,other.example",
    )
    driver = OAuthDriver(server.base_url)
    page = driver.open("/accounts/sign-in")
    assert "Ærlig Sign-In" in Page(page).text
    assert driver.call("GET", "/openapi.json", headers={"Host": "other.example"}).status_code == 200
    assert driver.call("GET", "/openapi.json", headers={"Host": "third.example"}).status_code == 400
    form = Page(driver.open("/accounts/password/reset")).forms[0]
    driver.submit(form, email=alice.email)
    [letter] = server.mails()
    assert "post@aerlig.example" in letter
    assert f"{server.auth_url}/accounts/password/reset" in letter

    netloc = urlsplit(server.base_url).netloc
    port = int(netloc.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        body = b"grant_type=authorization_code"
        connection.sendall(
            f"POST /oauth/token HTTP/1.1\r\nHost: {netloc}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
        )
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n", "the request is under way"
        os.kill(server.process.pid, signal.SIGTERM)
        wait_until(lambda: not is_open(port))
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert server.process.wait(60) == 0
