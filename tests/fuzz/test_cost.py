"""No hostile request is answered with 500, or costs much more CPU time than a plain one. In `make fuzz` only.

Measured on a real server as CPU time of its worker, and compared with plain requests of the same run.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD
from tests.server import Server, request, send, status_of

LONG = 31_000
PLAIN_REQUESTS = 100
# A plain request costs about a millisecond.
TIMES_A_PLAIN_REQUEST = 20

pytestmark = pytest.mark.long


# A label, method and target, header lines with CRLF at the end of each, and a body.
Request = tuple[str, bytes, bytes, bytes]


def cpu_time(worker: int) -> int:
    """Nanoseconds of CPU time that all threads of the process have used. proc(5): the first field of `schedstat`."""
    threads = Path(f"/proc/{worker}/task").glob("*/schedstat")
    return sum(int(path.read_text(encoding="ascii").split()[0]) for path in threads)


def cost(server: Server, given: Request) -> int:
    _label, line, headers, body = given
    lower, [worker] = headers.lower(), server.workers()
    if body and not lower.startswith((b"content-length:", b"transfer-encoding:")):
        headers += b"Content-Length: %d\r\n" % len(body)
    if body and b"content-type:" not in lower:
        headers += b"Content-Type: application/x-www-form-urlencoded\r\n"
    before = cpu_time(worker)
    assert status_of(send(server, request(line, headers, body))) != 500, given[0]
    assert server.workers() == {worker}, "the worker has ended"
    return cpu_time(worker) - before


PLAIN: Request = ("plain", b"GET /oauth/userinfo", b"Authorization: Bearer " + b"x" * 43 + b"\r\n", b"")
TARGETS = {
    "user info": (b"GET /oauth/userinfo", b""),
    "token": (b"POST /oauth/token", b"grant_type=authorization_code"),
    "authorize": (b"GET /oauth/authorize?client_id=x&redirect_uri=y", b""),
    "sign-in page": (b"GET /accounts/sign-in", b""),
    "sign-in": (b"POST /accounts/sign-in", b"login=a&password=b"),
    "picture": (b"GET /avatars/00000000-0000-4000-8000-000000000000/x.png", b""),
    "static file": (b"GET /static/css/site.css", b""),
    "administration": (b"GET /admin/", b""),
}
# fmt: off
HEADERS = (
    "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Authorization", "Cache-Control", "Connection",
    "Content-Disposition", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Expect", "Forwarded",
    "Host", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "Origin", "Purpose", "Range", "Referer",
    "Sec-Purpose", "Sec-Fetch-Dest", "TE", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Forwarded-For",
    "X-Forwarded-Host", "X-Forwarded-Proto", "X-Invented", "X-Requested-With",
)
FILLINGS = (
    b"*", b";", b",", b" ", b"\t", b"=", b'"', b"\\", b"0", b"a", b"%", b":", b"/", b".", b"(", b"[", b"\xff",
    b"; ", b", ", b";*", b";a*=", b";a=", b"a;", b"a=b; ", b'W/"a",', b'"a",', b"1-2,", b"127.0.0.1,",
)
# fmt: on
BEGINNINGS = {
    "Accept": (b"", b";", b"text/html;", b'a/b;c="', b"*/*;q="),
    "Authorization": (b"", b"Bearer ", b"Basic "),
    "Content-Type": (b"", b";", b"multipart/form-data; boundary=", b'a/b;c="', b"application/x-www-form-urlencoded;"),
    "Cookie": (b"", b'a="', b'delegated_session="', b"delegated_csrf=", b"delegated_known=", b"messages="),
    "Host": (b"", b"[", b"[:"),
    "If-None-Match": (b"", b'"', b'W/"'),
    "Range": (b"", b"bytes="),
}
ENDINGS = {"Cookie": (b"", b'"'), "Accept": (b"", b"="), "Content-Type": (b"", b"="), "Host": (b"", b"]")}


def hostile_headers() -> Iterator[tuple[str, bytes]]:
    for name in HEADERS:
        for beginning, ending, filling in product(BEGINNINGS.get(name, (b"",)), ENDINGS.get(name, (b"",)), FILLINGS):
            text = (beginning + filling * (LONG // len(filling)))[:LONG] + ending
            yield f"{name}: {beginning!r} {filling!r} … {ending!r}", name.encode() + b": " + text + b"\r\n"


def hostile_texts() -> Iterator[bytes]:
    """Queries and bodies: as long as gunicorn accepts in a request line, and twice as long in a body."""
    for filling in (b"&", b"=", b"a=&", b"%", b"%00&", b"+", b";", b"%ff", b"a%5B%5D=1&", b"/", b"..%2f"):
        yield filling * (LONG // len(filling))
    for name in (b"state", b"redirect_uri", b"client_id", b"pending", b"next", b"code_challenge", b"code"):
        for filling in (b"x", b"%25", b":", b"/", b"%00", b"a.", b"%E2%98%83", b"@", b"%0a"):
            yield name + b"=" + filling * (LONG // len(filling))


def hostile_forms(cookie: bytes) -> Iterator[Request]:
    """At a path that takes no form, at one that takes a form, and at one that takes a file."""
    multipart, end = b"Content-Type: multipart/form-data; boundary=b\r\n", b"--b--\r\n"

    def parts(count: int, name: bytes, content: bytes = b"x") -> bytes:
        return (b'--b\r\nContent-Disposition: form-data; name="' + name + b"\r\n\r\n" + content + b"\r\n") * count + end

    bodies = {
        "one name of many parameters": parts(1, b";" * 900),
        "many names of many parameters": parts(1000, b";" * 900),
        "as many as a form may have": parts(38, b";" * 930),
        "as many as a part may have": parts(38, b"; " * 60),
        "many parts": parts(10_000, b'a"'),
        "a file of what looks like a boundary": parts(1, b'f"; filename="f"', b"\r\n--" * 250_000),
    }
    for path, (what, body), headers in product(
        (b"/health/live", b"/accounts/sign-in", b"/accounts/profile"), bodies.items(), (multipart, cookie + multipart)
    ):
        yield f"multipart: {headers[:6]!r} {path.decode()}: {what}", b"POST " + path, headers, body
    yield "a megabyte of percent signs", b"POST /accounts/sign-in", b"", b"%" * 1_000_000


def hostile_requests() -> Iterator[Request]:
    for label, (line, body) in TARGETS.items():
        for what, header in hostile_headers():
            yield f"{label}: {what}", line, header, body
        path = line.partition(b"?")[0]
        for text in hostile_texts():
            yield f"{label}: query {text[:24]!r}", path + b"?" + text, b"", body
            if body:
                yield f"{label}: body {text[:24]!r}", line, b"", text + text


def test_no_hostile_request_costs_much(launch: Launch, alice: Any) -> None:
    server = launch()
    cookies = OAuthDriver(server.base_url).signed_in(alice.email, PASSWORD).browser.cookies.get_dict()
    cookie = b"Cookie: " + "; ".join(f"{name}={value}" for name, value in cookies.items()).encode() + b"\r\n"
    dearest, dear = 0.0, {}
    plain = statistics.median(cost(server, PLAIN) for _ in range(PLAIN_REQUESTS))
    for each in (*hostile_forms(cookie), *hostile_requests()):
        times = cost(server, each) / plain
        # Other load on the machine only ever increases the CPU time of a request.
        if times > max(dearest, 2):
            times = min(times, *(cost(server, each) / plain for _ in range(4)))
        dearest = max(dearest, times)
        if times > TIMES_A_PLAIN_REQUEST:
            dear[each[0]] = f"{times:.0f} plain requests"
    print(f"the dearest costs as much as {dearest:.1f} plain requests")  # noqa: T201 - shown by `-rP`
    assert dear == {}
