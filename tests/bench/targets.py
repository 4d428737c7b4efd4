"""What is measured: the service with its four operations, and the floor with its one."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode

from tests.bench.wire import Answer, Line

CALLBACK = "http://127.0.0.1:9999/callback"
MEMBERS = {"sub", "nickname", "email", "avatar"}


class Failed(Exception):
    """An operation did not do what it should. Its text holds no credential."""


@dataclass(frozen=True)
class Target:
    name: str
    port: int
    roots: dict[str, int]  # process ids: "server", "postgresql", "redis"

    @property
    def host(self) -> str:
        return f"localhost:{self.port}"

    def message(self, start: str, *headers: str, body: str = "") -> bytes:
        lines = [f"{start} HTTP/1.1", f"Host: {self.host}", "User-Agent: bench", *headers]
        return ("\r\n".join(lines) + f"\r\n\r\n{body}").encode()

    def profile(self, path: str, line: Line, token: str) -> None:
        answer = line.ask(self.message(f"GET {path}", f"Authorization: Bearer {token}"))
        if not json_of(answer, "userinfo").keys() >= MEMBERS:
            raise Failed("userinfo: a member is missing")


@dataclass(frozen=True)
class Floor(Target):
    tokens: int

    def select(self, line: Line, number: int) -> None:
        self.profile("/select", line, f"floor-token-{1 + number % self.tokens}")


@dataclass(frozen=True)
class Service(Target):
    """Each method is one operation of a browser that is signed in, or of the application's backend."""

    client_id: str
    client_secret: str = field(repr=False)
    cookies: list[str] = field(repr=False)

    def authorize(self, line: Line, number: int) -> str:
        """The code that the callback is given."""
        state = secrets.token_hex(12)
        query = urlencode(
            {"response_type": "code", "client_id": self.client_id, "redirect_uri": CALLBACK, "state": state}
        )
        cookie = self.cookies[number % len(self.cookies)]
        answer = line.ask(self.message(f"GET /oauth/authorize?{query}", f"Cookie: {cookie}"))
        address, _, sent = answer.location.partition("?")
        if answer.status != 302 or address != CALLBACK:
            raise Failed(f"authorize: {answer.status}, and no redirect to the application")
        members = parse_qs(sent)
        if members.get("state") != [state] or "code" not in members:
            raise Failed("authorize: another state, or no code")
        return members["code"][0]

    def redemption(self, code: str) -> bytes:
        form = urlencode(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": CALLBACK,
                "client_id": self.client_id,
                "client_secret": self.client_secret,
            }
        )
        kind = "Content-Type: application/x-www-form-urlencoded"
        return self.message("POST /oauth/token", kind, f"Content-Length: {len(form)}", body=form)

    def token(self, line: Line, code: str) -> str:
        answer = json_of(line.ask(self.redemption(code)), "token")
        if answer.get("token_type") != "Bearer":
            raise Failed("token: another type of token")
        return answer["access_token"]

    def userinfo(self, line: Line, token: str) -> None:
        self.profile("/oauth/userinfo", line, token)

    def flow(self, line: Line, number: int) -> None:
        self.userinfo(line, self.token(line, self.authorize(line, number)))


def json_of(answer: Answer, operation: str) -> dict[str, str]:
    """Raises Failed: the answer is no success."""
    if answer.status != 200:
        raise Failed(f"{operation}: {answer.status}")
    members: dict[str, str] = json.loads(answer.body)
    return members
