"""The service under gunicorn: what starts, what is refused, and what the server says of itself."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from django.conf import settings

from tests.server import ROOT, Server, environment, free_port

COMMAND = [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi"]


def send(server: Server, target: str, *headers: str) -> tuple[int, bytes]:
    """Status and body of a request that no client library would write."""
    netloc = urlsplit(server.base_url).netloc
    head = "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {netloc}", "Connection: close", *headers, "", ""])
    with socket.create_connection(("127.0.0.1", int(netloc.rpartition(":")[2])), timeout=20) as connection:
        connection.sendall(head.encode())
        answer = b""
        while received := connection.recv(65536):
            answer += received
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/health/live?state=" + "%00" * 4096, 200),
        ("/health/live?next=/oauth/authorize%3Fstate%3D" + "%2500" * 4096, 200),
        ("/health/live?state=" + "x" * 40_000, 414),
    ],
    ids=["a state of 4 kB", "the same inside next", "too long"],
)
def test_the_request_line_has_room_for_a_state(provider: Server, target: str, status: int) -> None:
    assert send(provider, target)[0] == status


def test_a_referrer_may_be_as_long_as_the_line(provider: Server) -> None:
    assert send(provider, "/health/live", "Referer: http://localhost/?" + "%2500" * 4096)[0] == 200


def test_a_body_that_no_view_reads_leaves_the_connection_open(provider: Server) -> None:
    """gunicorn's own limit is 64 kB."""
    netloc = urlsplit(provider.base_url).netloc
    connection = http.client.HTTPConnection("127.0.0.1", int(netloc.rpartition(":")[2]), timeout=20)
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
    requests.get(f"{provider.base_url}/health/live", params={"code": "hidden-code"}, timeout=10)
    requests.get(f"{provider.base_url}/hidden-path", timeout=10)
    send(provider, "/hidden path HTTP/1.1 ")
    send(provider, "/", "broken header hidden")
    time.sleep(0.2)
    lines = [json.loads(line) for line in provider.log.splitlines()]
    assert lines
    assert all({"time", "level", "logger", "message", "reference"} <= set(line) for line in lines)
    assert "hidden" not in provider.log


def test_the_first_line_of_the_log_has_the_version(provider: Server) -> None:
    line = json.loads(provider.log.splitlines()[0])
    assert (line["message"], line["version"]) == ("The service starts.", settings.VERSION)


def test_a_python_that_parses_a_quoted_cookie_in_quadratic_time_is_named_at_the_start(launch: Any) -> None:
    """Distributions correct it in releases of older numbers, so the time is what tells."""

    def cpu_seconds(length: int) -> float:
        cookie, before = 'a="' + r"\"" * length + '"', time.process_time()
        SimpleCookie(cookie)
        return time.process_time() - before

    growth = min(cpu_seconds(8000) for _ in range(3)) / min(cpu_seconds(1000) for _ in range(3))
    assert ("CVE-2024-7592" in launch().log) == (growth > 24)  # 8 where it is linear, 64 where it is quadratic


def test_static_files_need_no_step(provider: Server) -> None:
    response = requests.get(f"{provider.base_url}/static/css/site.css", timeout=10)
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/css")


@pytest.mark.parametrize(
    ("variables", "arguments"), [({"WEB_CONCURRENCY": "2"}, []), ({}, ["-w", "2"])], ids=["variable", "argument"]
)
def test_several_workers_need_redis(
    committed: None, tmp_path: Path, variables: dict[str, str], arguments: list[str]
) -> None:
    env = {**environment(tmp_path, **variables, BIND=f"127.0.0.1:{free_port()}"), "REDIS_URL": ""}
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("More than one worker needs REDIS_URL")
    assert "Traceback" not in ended.stderr


def test_several_workers_start_with_redis(launch: Any, redis_server: Any) -> None:
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    assert requests.get(f"{server.base_url}/health/ready", timeout=10).json()["redis"] == "ok"


def test_it_starts_from_any_folder(committed: None, tmp_path: Path) -> None:
    port = free_port()
    env = environment(tmp_path, BIND=f"127.0.0.1:{port}", BASE_URL=f"http://localhost:{port}")
    command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "config" / "gunicorn.py"), "--check-config"]
    checked = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stderr


def test_a_reload_replaces_the_workers_and_a_stop_is_clean(launch: Any) -> None:
    server = launch()
    before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and (server.workers() & before or not server.workers()):
        assert requests.get(f"{server.base_url}/health/live", timeout=10).status_code == 200
    assert not server.workers() & before
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(20) == 0


def test_a_request_under_way_outlives_a_stop(launch: Any) -> None:
    server = launch()
    netloc = urlsplit(server.base_url).netloc
    with socket.create_connection(("127.0.0.1", int(netloc.rpartition(":")[2])), timeout=20) as connection:
        body = b"grant_type=authorization_code"
        connection.sendall(
            f"POST /oauth/token HTTP/1.1\r\nHost: {netloc}\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n".encode()
        )
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n", "the request is under way"
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.logged("Handling signal: term")
        time.sleep(0.5)
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert server.process.wait(20) == 0
