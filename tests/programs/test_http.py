"""HTTP over a socket under gunicorn: which requests it takes, hostile ones, HEAD, the stop, and what the log says."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from django.conf import settings

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import CodeFactory, Registered, TokenFactory
from tests.server import Server, is_open, request, send, status_of, wait_until

FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"
CHUNKED = FORM + b"Transfer-Encoding: chunked\r\n"
# tests/fuzz mutates whole requests; these are what it does not make.
HOSTILE = {
    "garbage": bytes(range(256)),
    "40 kB of header": request(b"GET /oauth/userinfo", b"X: " + b"a" * 40_000 + b"\r\n"),
    "200 headers": request(b"GET /oauth/userinfo", b"".join(b"X-%d: 1\r\n" % n for n in range(200))),
    "length of 4,301 digits": request(b"POST /oauth/token", FORM + b"Content-Length: %b\r\n" % (b"0" * 4301), b"a=b"),
    "odd forwarded-for": request(b"GET /oauth/userinfo", b"X-Forwarded-For: " + b"," * 5000 + b"\xff\r\n"),
    "session of odd bytes": request(b"GET /accounts/profile", b'Cookie: delegated_session=\xff";\x01; =; a==\r\n'),
    # Headers that make Django's own parsing fail.
    "media type": request(b"POST /oauth/token", b"Content-Type: x/y; a*=bogus''%41\r\nContent-Length: 3\r\n", b"a=b"),
    "character set": request(b"GET /accounts/sign-in", b"Content-Type: text/plain; charset=rot13\r\n"),
    "accept": request(b"GET /oauth/authorize", b"Accept: */*;b*0*=bogus''%41, text/plain\r\n"),
}


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", urlsplit(server.base_url).port, timeout=60)


def chunks(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


@contract("D19/invalid_request", "7/400")
def test_hostile_bytes_are_refused_and_the_server_goes_on(driver: OAuthDriver, provider: Server) -> None:
    before = provider.workers()
    statuses = {name: status_of(send(provider, data)) for name, data in HOSTILE.items()}
    assert statuses["length of 4,301 digits"] == 400
    assert {name: status for name, status in statuses.items() if status and not 200 <= status < 500} == {}
    unknown = send(provider, request(b"POST /oauth/token", FORM + b"Transfer-Encoding: zip\r\n", b"a=b"))
    assert status_of(unknown) == 501, "gunicorn's, as RFC 9112 §6.1 asks"
    assert driver.userinfo(TokenFactory().raw).status_code == 200
    assert provider.workers() == before


@pytest.mark.parametrize("path", [b"/oauth/token", b"/accounts/language", b"/accounts/sign-in"])
def test_a_form_that_is_cut_off_is_not_taken_for_whole(provider: Server, path: bytes) -> None:
    form = b"grant_type=authorization_code&next=/&language=de"
    host = b"Host: %b\r\n" % urlsplit(provider.auth_url).netloc.encode()

    def post(length: int) -> bytes:
        return send(provider, request(b"POST " + path, host + FORM + b"Content-Length: %d\r\n" % length, form))

    assert status_of(post(len(form))) in (303, 400, 403)
    errors = provider.log.count('"level":"error"')
    answer = post(len(form) + 10)
    assert status_of(answer) in (400, 403)
    assert b"language=" not in answer
    assert provider.log.count('"level":"error"') == errors


@contract("D12.media-type", "4.3", "4.4", "D19.large")
def test_a_chunked_body_is_read_like_any_other(provider: Server, application: Registered) -> None:
    credentials = f"client_id={application.client_id}&client_secret={application.client_secret}"
    form = f"grant_type=authorization_code&code={CodeFactory(application=application).raw}&{credentials}".encode()
    assert status_of(send(provider, request(b"POST /oauth/token", CHUNKED, chunks(form)))) == 200
    token = TokenFactory().raw.encode()
    form = b"access_token=" + token
    for body, status in ((form, 200), (form + b"&x=" + b"a" * 65536, 413)):
        assert status_of(send(provider, request(b"POST /oauth/userinfo", CHUNKED, chunks(body)))) == status
    headers = b"Transfer-Encoding: chunked\r\nAuthorization: Bearer %b\r\n" % token
    assert status_of(send(provider, request(b"POST /oauth/userinfo", headers, chunks(b"{}")))) == 200
    megabyte = b"10000\r\n%b\r\n" % (b"a" * 65536) * 16
    status = status_of(send(provider, request(b"POST /oauth/token", CHUNKED, megabyte)))
    assert status in (0, 413), "not read to the end"


def test_the_request_line_and_the_referrer_have_room_for_a_state(provider: Server) -> None:
    def status(target: str, *headers: str) -> int:
        lines = "".join(f"{each}\r\n" for each in headers)
        return status_of(send(provider, request(f"GET /health/live{target}".encode(), lines.encode())))

    assert status("?state=" + "%00" * 4096) == 200
    assert status("?next=/oauth/authorize%3Fstate%3D" + "%2500" * 4096) == 200
    assert status("", "Referer: http://localhost/?" + "%2500" * 4096) == 200
    assert status("?state=" + "x" * 40_000) == 414
    # gunicorn would take the script name from the loopback address.
    assert status("", "SCRIPT-NAME: /elsewhere", "X-Forwarded-Proto: https", "X-Forwarded-Host: a.example") == 200


def test_a_connection_stays_open_after_a_body_that_no_view_reads(provider: Server) -> None:
    connection = connect(provider)
    for _ in range(2):
        connection.request("POST", "/oauth/jwks", b"x" * 1_000_000)  # gunicorn's own limit for such a body is 64 kB
        response = connection.getresponse()
        response.read()
        assert (response.status, connection.sock is not None) == (405, True)
    connection.close()


@contract("D19.head")
def test_head_is_answered_by_the_headers_of_get_alone(provider: Server, committed: None) -> None:
    """A body after HEAD would be taken for the beginning of the next answer. RFC 9110 §9.3.2."""
    bearer = {"Authorization": f"Bearer {TokenFactory().raw}"}

    page = {"Accept": "text/html"}
    for path, status, headers in (
        ("/accounts/sign-in", 200, page),
        ("/accounts/profile", 302, page),
        ("/oauth/token", 405, {}),
        ("/oauth/userinfo", 200, bearer),
        ("/static/css/site.css", 200, {}),
    ):
        connection, answers = connect(provider), []
        for method in ("HEAD", "GET", "HEAD"):
            connection.request(method, path, headers={"Host": urlsplit(provider.base_url).netloc, **headers})
            response = connection.getresponse()
            response.read()
            answers.append((response.status, response.getheader("Content-Type"), response.getheader("Cache-Control")))
        assert answers == [(status, *answers[0][1:])] * 3, path
        connection.close()
    assert "no-body response" not in provider.log, "the server has no body to drop"


def test_the_whole_log_is_json_and_holds_no_query(provider: Server) -> None:
    send(provider, b"GET /hidden path HTTP/1.1  HTTP/1.1\r\n\r\n")
    send(provider, request(b"GET /", b"broken header hidden\r\n"))
    send(provider, request(b"HIDDEN /hidden"))
    live = requests.get(f"{provider.base_url}/health/live", params={"code": "hidden-code"}, timeout=60)
    missing = requests.get(f"{provider.base_url}/hidden-path", timeout=60)
    assert all(provider.logged(answer.headers["X-Reference"]) for answer in (live, missing))
    assert re.search(
        r'"GET","route":"/health/live","status":200,"duration_ms":[0-9.]+,"address":"127.0.0.1"', provider.log
    )
    assert '"method":"other","route":null' in provider.log
    lines = [json.loads(line) for line in provider.log.splitlines()]
    assert all({"time", "level", "logger", "message", "reference"} <= set(line) for line in lines)
    assert "hidden" not in provider.log.lower()


@contract("O.environment", "O.serve")
def test_the_environment_arrives_and_a_request_outlives_the_stop(launch: Launch, alice: Any, tmp_path: Path) -> None:
    server = launch(
        AUDIT_LOG=f"file://{tmp_path}/audit.log",
        SERVICE_NAME="Ærlig Sign-In",
        DEFAULT_FROM_EMAIL="Ærlig <post@aerlig.example>",
        ALLOWED_HOSTS="localhost,127.0.0.1,other.example",
    )
    driver = OAuthDriver(server.base_url)
    assert "Ærlig Sign-In" in Page(driver.open("/accounts/sign-in")).text
    for host, status in (("other.example", 200), ("third.example", 400)):
        assert driver.call("GET", "/openapi.json", headers={"Host": host}).status_code == status
    form = Page(driver.open("/accounts/password/reset")).forms[0]
    driver.submit(form, email=alice.email)
    [letter] = server.mails()
    assert "post@aerlig.example" in letter
    assert f"{server.auth_url}/accounts/password/reset" in letter
    assert '"event":"password_reset_asked"' in (tmp_path / "audit.log").read_text(encoding="utf-8")
    assert '"logger":"events"' not in server.log
    assert f'"message":"The service starts.","reference":"","version":"{settings.VERSION}"' in server.log

    port, body = urlsplit(server.base_url).port or 0, b"grant_type=authorization_code"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        headers = FORM + b"Content-Length: %d\r\nExpect: 100-continue\r\n" % len(body)
        connection.sendall(request(b"POST /oauth/token", headers))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n", "the request is under way"
        os.kill(server.process.pid, signal.SIGTERM)
        wait_until(lambda: not is_open(port))
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert server.process.wait(60) == 0
