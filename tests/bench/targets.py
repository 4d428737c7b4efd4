"""The measured targets: the service with four operations, and the floor with one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from http.client import HTTPConnection
from urllib.parse import parse_qs, urlencode

CALLBACK = "http://127.0.0.1:9999/callback"
MEMBERS = {"sub", "nickname", "email", "avatar"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class Failed(Exception):
    """An operation failed. The message contains no credential."""


@dataclass(frozen=True)
class Target:
    name: str
    port: int
    roots: dict[str, int]  # process ids: "server", "postgresql", "redis"

    def line(self) -> HTTPConnection:
        """A persistent connection, which is opened again when the server closes it."""
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def send(self, line: HTTPConnection, method: str, path: str, headers: dict[str, str], body: str = "") -> None:
        line.request(method, path, body or None, {"Host": f"localhost:{self.port}", **headers})

    def profile(self, line: HTTPConnection, path: str, token: str) -> None:
        self.send(line, "GET", path, {"Authorization": f"Bearer {token}"})
        if not success(line, "user info").keys() >= MEMBERS:
            raise Failed("user info: a member is missing")


@dataclass(frozen=True)
class Floor(Target):
    tokens: int

    def select(self, line: HTTPConnection, number: int) -> None:
        self.profile(line, "/select", f"floor-token-{1 + number % self.tokens}")


@dataclass(frozen=True)
class Service(Target):
    """Each method is an operation of a browser that is signed in, or of the application's backend."""

    client_id: str
    client_secret: str = field(repr=False)
    cookies: list[str] = field(repr=False)

    def authorize(self, line: HTTPConnection, number: int, scope: str = "") -> str:
        """The code in the callback."""
        state = secrets.token_hex(12)
        request = {"response_type": "code", "client_id": self.client_id, "redirect_uri": CALLBACK, "state": state}
        request |= {"scope": scope} if scope else {}
        cookie = self.cookies[number % len(self.cookies)]
        self.send(line, "GET", f"/oauth/authorize?{urlencode(request)}", {"Cookie": cookie})
        answer = line.getresponse()
        answer.read()
        address, _, query = answer.headers.get("Location", "").partition("?")
        if answer.status != 302 or address != CALLBACK:
            raise Failed(f"authorize: {answer.status}, and no redirect to the application")
        members = parse_qs(query)
        if members.get("state") != [state] or "code" not in members:
            raise Failed("authorize: another state, or no code")
        return members["code"][0]

    def redeem(self, line: HTTPConnection, code: str) -> None:
        """Send the request without waiting for the response."""
        grant = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK}
        client = {"client_id": self.client_id, "client_secret": self.client_secret}
        self.send(line, "POST", "/oauth/token", FORM, urlencode(grant | client))

    def token(self, line: HTTPConnection, code: str) -> str:
        self.redeem(line, code)
        return success(line, "token")["access_token"]

    def userinfo(self, line: HTTPConnection, token: str) -> None:
        self.profile(line, "/oauth/userinfo", token)

    def flow(self, line: HTTPConnection, number: int) -> None:
        self.userinfo(line, self.token(line, self.authorize(line, number)))


def success(line: HTTPConnection, operation: str) -> dict[str, str]:
    """Raises Failed: the status is another."""
    answer = line.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise Failed(f"{operation}: {answer.status}")
    members: dict[str, str] = json.loads(body)
    return members
