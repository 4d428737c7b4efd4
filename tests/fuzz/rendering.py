"""Render a plan as the bytes of a request."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote_from_bytes

from tests.fuzz.nasties import HEADER_NAMES, NAMES
from tests.fuzz.plans import BASES, FORM, Change, Plan, Request, framings
from tests.fuzz.world import Hand

# After these mutations the end or the meaning of the request is uncertain.
UNFRAMED = {
    "framing",
    "splice",
    "raw",
    "cut",
    "header",
    "header value",
    "header repeat",
    "header drop",
    "method",
    "path",
}


@dataclass(frozen=True)
class Sent:
    """The bytes of one request and their known properties."""

    plan: Plan
    request: Request
    data: bytes

    @property
    def is_whole(self) -> bool:
        """Whether a response is expected, which may be an error."""
        return not {"cut", "splice"} & {change.kind for change in self.plan.changes}

    @property
    def is_framed(self) -> bool:
        """Whether the meaning of the request is certain."""
        return not UNFRAMED & {change.kind for change in self.plan.changes}

    @property
    def line(self) -> list[bytes]:
        """Method, target and version, as far as present."""
        return [*self.data.partition(b"\r\n")[0].split(b" ", 2), b"", b"", b""][:3]


def rendered(plan: Plan, hand: Hand) -> Sent:
    hand.used = set()
    request = BASES[plan.base](hand, plan.state)
    is_page = request.path == b"/oauth/authorize"
    request.headers.insert(0, (b"Host", f"{'localhost' if is_page else '127.0.0.1'}:{hand.world.port}".encode()))
    for change in plan.changes:
        if change.kind not in ("splice", "cut"):
            _apply(change, request, hand)
    data = _bytes_of(request)
    for change in plan.changes:
        at = change.at % (len(data) + 1)
        if change.kind == "splice":
            data = data[:at] + _plain(change.what) + data[at + len(change.what) % 3 :]
        elif change.kind == "cut":
            data = data[:at]
    return Sent(plan, request, data)


def _plain(what: bytes | str) -> bytes:
    return what if isinstance(what, bytes) else what.encode()


def _apply(change: Change, request: Request, hand: Hand) -> None:
    what, kind = _plain(change.what), change.kind
    if kind == "method":
        request.method = what
    elif kind == "path":
        request.path = what
    elif kind == "framing":
        request.framing = str(change.what)
    elif kind == "type":
        request.headers = [pair for pair in request.headers if pair[0] != FORM[0]] + [(FORM[0], what)]
    elif kind == "header":
        request.headers.append((HEADER_NAMES[(change.at * 7 + len(what)) % len(HEADER_NAMES)], what))
    elif kind.startswith("header"):
        _apply_to_header(kind, change.at, what, request)
    elif kind == "to url":
        request.query += request.form or []
    else:
        _apply_to_pairs(change, what, request, hand)


def _apply_to_header(kind: str, at: int, what: bytes, request: Request) -> None:
    at %= len(request.headers)
    if kind == "header drop":
        del request.headers[at]
        request.headers = request.headers or [(b"X", b"")]
    elif kind == "header value":
        request.headers[at] = (request.headers[at][0], what)
    else:
        request.headers.append(request.headers[at])


def _apply_to_pairs(change: Change, what: bytes, request: Request, hand: Hand) -> None:
    pairs, kind = request.pairs, change.kind
    if kind.startswith("credential"):
        which, _, name = str(change.what).partition(" ")
        what = {"code": hand.code, "token": hand.token, "secret": hand.secret}[which](name).encode()
        kind = "name" if kind == "credential as name" else "value"
    if kind == "add" or not pairs:
        pairs.append((NAMES[(change.at * 5 + len(what)) % len(NAMES)], what))
        return
    at = change.at % len(pairs)
    name, value = pairs[at]
    if kind == "drop":
        del pairs[at]
    elif kind == "repeat":
        pairs.append((name, what))
    elif kind == "name":
        pairs[at] = (what, value)
    elif kind == "append":
        pairs[at] = (name, value + what)
    elif kind == "alter":  # changes the case of one letter, or one character
        there = change.at * 3 % (len(value) or 1)
        pairs[at] = (
            name,
            value[:there] + bytes(each ^ what[0] for each in value[there : there + 1]) + value[there + 1 :],
        )
    else:
        pairs[at] = (name, what)
        if kind == "raw":
            request.raw.add(what)


def _bytes_of(request: Request) -> bytes:
    target = request.path
    if request.query:
        target += (b"&" if b"?" in target else b"?") + _encoded(request.query, request.raw)
    body = b"" if request.form is None else _encoded(request.form, request.raw)
    kind = "none" if request.framing == "length" and request.form is None else request.framing
    version, framing, body = framings(body)[kind]
    headers = [*request.headers, *framing]
    end = b"\n" if request.framing == "bare lf" else b"\r\n"
    lines = [b"%b %b %b" % (request.method, target, version), *(b"%b: %b" % pair for pair in headers), b"", body]
    return end.join(lines)


def _encoded(pairs: list[tuple[bytes, bytes]], raw: set[bytes]) -> bytes:
    def quoted(part: bytes) -> bytes:
        return part if part in raw else quote_from_bytes(part, safe="").encode()

    return b"&".join(b"%b=%b" % (quoted(name), quoted(value)) for name, value in pairs)
