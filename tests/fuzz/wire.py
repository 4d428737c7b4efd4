"""The answers to a request that was sent as bytes, so that no HTTP library corrects it."""

from __future__ import annotations

import io
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse

from requests.structures import CaseInsensitiveDict

from tests.server import Server, send


@dataclass(frozen=True)
class Answer:
    status: int
    headers: CaseInsensitiveDict[str]
    body: bytes


class Silence(Exception):
    """The server sent no answer, too many, an incomplete one, or something other than HTTP."""


class _Stream(io.BufferedReader):
    """What was received, of which one response after the other is read: none of them closes it."""

    def makefile(self, _mode: str) -> _Stream:
        return self

    def close(self) -> None:
        pass


def ask(server: Server, request: bytes) -> list[Answer]:
    """Those that are not informational. Raises Silence: one is incomplete, or it is not HTTP."""
    stream, found = _Stream(io.BytesIO(send(server, request))), []
    method = "HEAD" if request.startswith(b"HEAD ") else "GET"
    try:
        while stream.peek(1):
            answer = HTTPResponse(stream, method=method)  # type: ignore[arg-type]
            answer.begin()
            found.append(Answer(answer.status, CaseInsensitiveDict(answer.getheaders()), answer.read()))
            if method == "HEAD":  # the bytes after such a response can't be distinguished from a body
                break
    except (HTTPException, ValueError) as error:
        raise Silence(type(error).__name__) from None
    return found
