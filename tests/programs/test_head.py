"""HEAD over a socket: the headers of GET, no body, and a connection that goes on. RFC 9110 §9.3.2."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from accounts.models import StoredPicture
from accounts.pictures import current_picture
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import PersonFactory, TokenFactory
from tests.server import Server


class Wire:
    """One connection. `ask` reads an answer up to the end of its headers."""

    def __init__(self, server: Server) -> None:
        self.host = urlsplit(server.base_url).netloc
        self.socket = socket.create_connection(("127.0.0.1", int(self.host.rpartition(":")[2])), timeout=60)
        self.file = self.socket.makefile("rb")

    def ask(self, line: str, *headers: str) -> tuple[int, dict[str, str]]:
        self.socket.sendall("\r\n".join([f"{line} HTTP/1.1", f"Host: {self.host}", *headers, "", ""]).encode())
        status = int(self.file.readline().split(b" ")[1])
        lines = (line.decode().rstrip() for line in iter(self.file.readline, b"\r\n"))
        pairs = (line.partition(": ") for line in lines)
        return status, {name.lower(): value for name, _, value in pairs}

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def check(server: Server, path: str, status: int, *headers: str) -> None:
    """HEAD, GET and HEAD on one connection, which only ends where it should when no body follows HEAD."""
    wire = Wire(server)
    asked, had = wire.ask(f"HEAD {path}", *headers)
    answered, has = wire.ask(f"GET {path}", *headers)
    assert len(wire.file.read(int(has["content-length"]))) == int(has["content-length"])
    assert (path, asked, answered) == (path, status, status)
    for name in ("content-type", "cache-control"):
        assert had.get(name) == has.get(name), name
    assert wire.ask(f"HEAD {path}", *headers, "Connection: close")[0] == status
    assert wire.file.read() == b""
    wire.close()


@contract("D19.head")
def test_head_is_answered_by_the_headers_of_get_alone(provider: Server, committed: None) -> None:
    logo = f"logos/{'0' * 32}.png"
    StoredPicture.objects.create(name=logo, content=b"picture")
    for path, status, *headers in (
        ("/accounts/sign-in", 200),
        ("/accounts/profile", 302),
        ("/oauth/authorize?client_id=x&response_type=code", 400),
        ("/oauth/authorize?client_id=x&response_type=code", 400, "Accept: text/html"),
        ("/oauth/token", 405),
        ("/oauth/userinfo", 401),
        ("/oauth/userinfo", 200, f"Authorization: Bearer {TokenFactory().raw}"),
        ("/unknown", 404),
        ("/unknown", 404, "Accept: text/html"),
        ("/static/css/site.css", 200),
        (urlsplit(current_picture.avatar_url(PersonFactory())).path, 200),
        (f"/{logo}", 200),
        ("/health/live", 200),
    ):
        check(provider, path, status, *headers)
    assert "no-body response" not in provider.log, "the server has no body to drop"


def test_head_of_a_fault_of_ours_has_no_body(launch: Launch) -> None:
    check(launch(wsgi="tests.wsgi.broken"), "/oauth/userinfo", 500, f"Authorization: Bearer {TokenFactory().raw}")
