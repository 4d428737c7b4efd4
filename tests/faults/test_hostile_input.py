"""Malformed bytes and headers: no response is a 500, and the server keeps running."""

from __future__ import annotations

import socket
from itertools import product
from urllib.parse import urlsplit

import pytest
import requests

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import CodeFactory, Registered, TokenFactory
from tests.server import Server

FORM = b"Content-Type: application/x-www-form-urlencoded\r\n"


def send(server: Server, data: bytes) -> bytes:
    """Send the bytes on a new connection. The response; empty when the server closed the connection."""
    port = urlsplit(server.base_url).port
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            received = b""
            while part := connection.recv(65536):
                received += part
        except ConnectionError:
            return b""
        return received


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def request(line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    return b"%b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%b\r\n%b" % (line, headers, body)


REQUESTS = {
    "empty": b"\r\n\r\n",
    "garbage": bytes(range(256)),
    "tls hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "unknown method": request(b"BREW /oauth/token"),
    "long method": request(b"G" * 500 + b" /oauth/token"),
    "path with nul": request(b"GET /oauth/%00"),
    "path of bad utf-8": request(b"GET /oauth/%ff%fe"),
    "raw high bytes in the path": request(b"GET /oauth/\xff\xfe?\xc3\x28=\xff"),
    "avatar with nul": request(b"GET /avatars/%00/1.png"),
    "absolute address": request(b"GET http://evil.example/oauth/userinfo"),
    "query of percent signs": request(b"GET /oauth/authorize?%%%&%zz=%&=&&&==;"),
    "40 kB of query": request(b"GET /oauth/authorize?state=" + b"a" * 40_000),
    "40 kB of header": request(b"GET /oauth/userinfo", b"X: " + b"a" * 40_000 + b"\r\n"),
    "200 headers": request(b"GET /oauth/userinfo", b"".join(b"X-%d: 1\r\n" % n for n in range(200))),
    "30 kB of token": request(b"GET /oauth/userinfo", b"Authorization: Bearer " + b"a" * 30_000 + b"\r\n"),
    "token of odd bytes": request(b"GET /oauth/userinfo", b"Authorization: Bearer \xff\xfe\xc3\r\n"),
    "two authorizations": request(b"GET /oauth/userinfo", b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n"),
    "two hosts": request(b"GET /oauth/userinfo", b"Host: evil.example\r\n"),
    "negative length": request(b"POST /oauth/token", FORM + b"Content-Length: -1\r\n", b"a=b"),
    "length in words": request(b"POST /oauth/token", FORM + b"Content-Length: many\r\n", b"a=b"),
    "length of 4,301 digits": request(b"POST /oauth/token", FORM + b"Content-Length: %b\r\n" % (b"0" * 4301), b"a=b"),
    "length too large": request(b"POST /oauth/token", FORM + b"Content-Length: 50\r\n", b"a=b"),
    "huge length": request(b"POST /oauth/token", FORM + b"Content-Length: 99999999999999\r\n", b"a=b"),
    "broken chunks": request(b"POST /oauth/token", FORM + b"Transfer-Encoding: chunked\r\n", b"zz\r\nabc"),
    "chunks and a length": request(
        b"POST /oauth/token", FORM + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", b"3\r\na=b\r\n0\r\n\r\n"
    ),
    "cookies of odd bytes": request(b"GET /accounts/profile", b'Cookie: delegated_session=\xff";\x01; =; a==\r\n'),
    "session of a path": request(b"GET /accounts/profile", b"Cookie: delegated_session=../../etc/passwd\r\n"),
    "odd accept": request(b"GET /oauth/authorize", b"Accept: text/html;q=\xff,;;,*/*/*;=\r\n"),
    "odd language": request(b"GET /accounts/sign-in", b"Accept-Language: " + b"x-" * 4000 + b"\r\n"),
    "odd forwarded-for": request(b"GET /oauth/userinfo", b"X-Forwarded-For: " + b"," * 5000 + b"\xff\r\n"),
    "expectation": request(b"POST /oauth/token", FORM + b"Expect: 200-maybe\r\nContent-Length: 3\r\n", b"a=b"),
    "unknown transfer coding": request(b"POST /oauth/token", FORM + b"Transfer-Encoding: zip\r\n", b"a=b"),
    "deeply nested json": request(
        b"POST /oauth/token", b"Content-Type: application/json\r\nContent-Length: 20000\r\n", b"[" * 20_000
    ),
    "multipart without end": request(
        b"POST /accounts/profile",
        b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 9\r\n",
        b"--x\r\nabcd",
    ),
}


# Headers that make Django's own parsing fail.
CLAIMS = [
    ("Content-Type", "x/y; a*=bogus''%41"),
    ("Content-Type", "application/x-www-form-urlencoded; a*=bogus''%41"),
    ("Content-Type", "text/plain; charset=rot13"),
    ("Content-Type", "text/plain; charset=unicode_escape"),
    ("Accept", "text/plain; a*=bogus''%41"),
    ("Accept", "*/*;b*0*=bogus''%41, text/plain"),
]


@contract("D19/invalid_request", "7/400")
def test_hostile_bytes_are_refused_and_the_server_goes_on(driver: OAuthDriver, provider: Server) -> None:
    before = provider.workers()
    statuses = {name: status_of(send(provider, data)) for name, data in REQUESTS.items()}
    assert statuses["length of 4,301 digits"] == 400
    unknown = statuses.pop("unknown transfer coding")
    assert unknown == 501, "gunicorn's, as RFC 9112 §6.1 asks"
    assert {name: status for name, status in statuses.items() if status and not 200 <= status < 500} == {}
    assert driver.userinfo(TokenFactory().raw).status_code == 200
    assert provider.workers() == before


@pytest.mark.parametrize("path", [b"/oauth/token", b"/accounts/language", b"/accounts/sign-in"])
def test_a_form_that_is_cut_off_is_not_taken_for_whole(provider: Server, path: bytes) -> None:
    """Otherwise a connection that breaks in the middle of a name or a password would store half of it."""
    form = b"grant_type=authorization_code&next=/&language=de"
    host = urlsplit(provider.auth_url).netloc.encode()

    def post(length: int) -> bytes:
        sent = request(b"POST " + path, FORM + b"Content-Length: %d\r\n" % length, form)
        return send(provider, sent.replace(b"Host: localhost", b"Host: " + host))

    assert status_of(post(len(form))) in (303, 400, 403)
    errors = provider.log.count('"level":"error"')
    answer = post(len(form) + 10)
    assert status_of(answer) in (400, 403)
    assert b"language=" not in answer
    assert provider.log.count('"level":"error"') == errors


@contract("D12.media-type", "4.3")
def test_a_chunked_body_is_read_like_any_other(driver: OAuthDriver, provider: Server, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    body = (
        f"grant_type=authorization_code&code={code}&client_id={application.client_id}"
        f"&client_secret={application.client_secret}"
    ).encode()
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = send(provider, request(b"POST /oauth/token", FORM + b"Transfer-Encoding: chunked\r\n", chunks))
    assert status_of(answer) == 200


@contract("4.4")
def test_a_chunked_form_at_user_info_is_read_too(provider: Server, driver: OAuthDriver) -> None:
    body = b"access_token=%b" % TokenFactory().raw.encode()

    def post(form: bytes, headers: bytes = FORM) -> bytes:
        chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(form), form)
        return send(provider, request(b"POST /oauth/userinfo", headers + b"Transfer-Encoding: chunked\r\n", chunks))

    assert status_of(post(body)) == 200
    assert status_of(post(body + b"&x=" + b"a" * 65536)) == 413
    bearer = b"Authorization: Bearer %b\r\n" % TokenFactory().raw.encode()
    assert status_of(post(b"{}", bearer)) == 200


@contract("D19.large")
def test_a_chunked_body_of_a_megabyte_is_not_read_to_the_end(provider: Server, driver: OAuthDriver) -> None:
    chunk = b"10000\r\n%b\r\n" % (b"a" * 65536)
    answer = send(provider, request(b"POST /oauth/token", FORM + b"Transfer-Encoding: chunked\r\n", chunk * 16))
    assert status_of(answer) in (0, 413)
    error_of(driver.userinfo("x"), 401, "invalid_token")


@contract("D19.json")
def test_a_machine_path_answers_in_json_whatever_the_headers_claim(provider: Server) -> None:
    paths = ("/oauth/token", "/oauth/userinfo", "/oauth/nowhere", "/oauth/authorize?client_id=%2F")
    wrong = []
    for method, path, (name, value) in product(("GET", "POST"), paths, CLAIMS):
        answer = requests.request(method, provider.base_url + path, headers={name: value}, timeout=60)
        is_json = answer.headers["Content-Type"].startswith("application/json")
        if answer.status_code >= 500 or (is_json and not {"error", "error_description"} <= answer.json().keys()):
            wrong.append((method, path, name, value, answer.status_code))
        if not is_json and not path.startswith("/oauth/authorize"):
            wrong.append((method, path, name, value, answer.headers["Content-Type"]))
    assert wrong == []


@contract("D19.page")
@pytest.mark.parametrize("accept", ["text/html", "text/html; a*=bogus''%41"])
def test_a_page_is_a_page_whatever_the_headers_claim(provider: Server, accept: str) -> None:
    url = f"{provider.auth_url}/accounts/sign-in?next=%2Fa%5Cud800"
    for content_type in (value for name, value in CLAIMS if name == "Content-Type"):
        answer = requests.get(url, headers={"Accept": accept, "Content-Type": content_type}, timeout=60)
        assert (answer.status_code, "<form" in answer.text) == (200, True), content_type


@contract("D3.order", "7/400")
@pytest.mark.parametrize("client_id", ["%00", "%ff", "%ed%a0%80", "%0a", "a" * 3000])
def test_an_impossible_client_id_is_an_unknown_client(provider: Server, client_id: str) -> None:
    answer = requests.get(f"{provider.auth_url}/oauth/authorize?client_id={client_id}&redirect_uri=x", timeout=60)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")
