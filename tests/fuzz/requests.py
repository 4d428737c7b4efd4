"""Valid requests, and changes of them that Hypothesis draws. A drawn plan has no credential, so it can be printed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import Application
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import codes_for
from tests.fuzz.values import HEADER_NAMES, HEADER_VALUES, METHODS, NAMES, NASTY, PATHS, TYPES
from tests.server import Server

Pairs = list[tuple[bytes, bytes]]
VERIFIER = "the-verifier-that-every-fuzzed-code-with-a-challenge-wants"
ADDRESSES = "https://client.example/callback\nhttps://client.example/callback?tenant=a%20b\nhttp://localhost:9/"
PAGE, FORM = (b"Accept", b"text/html"), (b"Content-Type", b"application/x-www-form-urlencoded")
STATE = b"a \xe2\x98\x83&"  # of the consent page
# After these changes the end or the meaning of the request is uncertain.
UNFRAMED = {"framing", "splice", "cut", "raw", "header", "header value", "header drop", "method", "path"}
Plan = tuple[str, tuple[tuple[str, int, bytes], ...]]  # the name of a request; kinds of change, positions and values


@dataclass
class Request:
    path: bytes
    method: bytes = b"GET"
    query: Pairs = field(default_factory=list)
    headers: Pairs = field(default_factory=list)
    form: Pairs | None = None
    framing: int = 0
    raw: set[bytes] = field(default_factory=set)  # values that are not percent-encoded


class World:
    """What the requests are about. Each exchange spends a code of a pool, while there is one."""

    def __init__(self, server: Server, requests: int) -> None:
        self.server = server
        self.alice = PersonFactory()
        self.ours: Registered = ApplicationFactory(redirect_uris=ADDRESSES)
        self.trusted: Registered = ApplicationFactory(redirect_uris=ADDRESSES, is_trusted=True)
        self.public: Registered = ApplicationFactory(
            redirect_uris=ADDRESSES, client_type=Application.CLIENT_PUBLIC, is_trusted=True
        )
        driver = OAuthDriver(server.base_url, server.auth_url).signed_in(self.alice.email, PASSWORD)
        consent = Page(driver.open(driver.authorization_url(self.ours, state=STATE.decode()))).consent
        assert consent
        self.consent = [(name.encode(), value.encode()) for name, value in consent.fields.items()]
        self.cookies = "; ".join(f"{each.name}={each.value}" for each in driver.browser.cookies).encode()
        challenge = {"user": self.alice, "code_challenge": challenge_of(VERIFIER)}
        self.codes = {
            "ours": codes_for(self.ours, requests // 4, user=self.alice),
            "challenged": codes_for(self.ours, requests // 8, **challenge),
            "public": codes_for(self.public, requests // 8, **challenge),
        }
        given: dict[str, Any] = {"application": self.ours, "user": self.alice}
        self.live = TokenFactory(**given).raw
        self.tokens = {"live": self.live, "narrow": TokenFactory(**given, scope="").raw, "unknown": "x" * 43}
        session = next(each.value for each in driver.browser.cookies if "session" in each.name)
        pools = [code for pool in self.codes.values() for code in pool]
        self.credentials = {*pools, *self.tokens.values(), self.ours.secret, self.trusted.secret, str(session)}

    def authorize(self, application: str, cookies: bytes = b"", *headers: tuple[bytes, bytes]) -> Request:
        registered: Registered = getattr(self, application)
        query = [(b"client_id", registered.client_id.encode()), (b"redirect_uri", registered.redirect_uri.encode())]
        query += [(b"response_type", b"code"), (b"state", STATE)]
        return Request(b"/oauth/authorize", query=query, headers=[*(headers or [PAGE]), (b"Cookie", cookies)])

    def decide(self, decision: bytes) -> Request:
        form = [*self.consent, (b"decision", decision)]
        return Request(b"/oauth/authorize", b"POST", headers=[FORM, PAGE, (b"Cookie", self.cookies)], form=form)

    def token(self, kind: str, *, is_basic: bool = False, **more: str) -> Request:
        application = self.public if kind == "public" else self.ours
        code = self.codes[kind].pop() if self.codes[kind] else "x" * 43
        given = {"grant_type": "authorization_code", "code": code, **more}
        headers = [FORM]
        if is_basic:
            pair = f"{application.client_id}:{application.secret}".encode()
            headers.append((b"Authorization", b"Basic " + base64.b64encode(pair)))
        else:
            given |= {"client_id": application.client_id, "client_secret": application.secret}
        form = [(name.encode(), value.encode()) for name, value in given.items() if value]
        return Request(b"/oauth/token", b"POST", headers=headers, form=form)

    def userinfo(self, kind: str) -> Request:
        return Request(b"/oauth/userinfo", headers=[(b"Authorization", b"Bearer " + self.tokens[kind].encode())])


# Each new operation needs a valid request here.
REQUESTS: dict[str, Callable[[World], Request]] = {
    "stranger": lambda world: world.authorize("ours"),
    "stranger, a program": lambda world: world.authorize("ours", b"", (b"Accept", b"*/*")),
    "alice is asked": lambda world: world.authorize("ours", world.cookies),
    "alice is not asked": lambda world: world.authorize("trusted", world.cookies),
    "in advance": lambda world: world.authorize("trusted", world.cookies, (b"Sec-Purpose", b"prefetch")),
    "without a challenge": lambda world: world.authorize("public", world.cookies),
    "allow": lambda world: world.decide(b"allow"),
    "refuse": lambda world: world.decide(b"refuse"),
    "exchange": lambda world: world.token("ours"),
    "exchange of too much": lambda world: world.token("ours", filler="x" * 70_000),
    "exchange by basic": lambda world: world.token("ours", is_basic=True),
    "exchange with a verifier": lambda world: world.token("challenged", code_verifier=VERIFIER),
    "exchange without a verifier": lambda world: world.token("challenged"),
    "exchange of a public client": lambda world: world.token("public", code_verifier=VERIFIER),
    "profile": lambda world: world.userinfo("live"),
    "profile, narrow": lambda world: world.userinfo("narrow"),
    "profile, unknown": lambda world: world.userinfo("unknown"),
}


def plans() -> st.SearchStrategy[Plan]:
    at = st.integers(0, 2000)
    drawn = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")))
    value = st.one_of(st.sampled_from(NASTY), drawn)
    header = st.one_of(st.sampled_from(HEADER_VALUES), value)
    changes = st.one_of(
        *(st.tuples(st.just(kind), at, value) for kind in ("repeat", "value", "append", "raw", "add", "splice")),
        *(st.tuples(st.just(kind), at, st.just(b"")) for kind in ("drop", "to url", "cut", "header drop", "framing")),
        *(st.tuples(st.just(kind), at, header) for kind in ("header", "header", "header value")),
        st.tuples(st.just("name"), at, st.one_of(st.sampled_from(NAMES), value)),
        st.tuples(st.just("type"), at, st.sampled_from(TYPES)),
        st.tuples(st.just("method"), at, st.sampled_from(METHODS)),
        st.tuples(st.just("path"), at, st.sampled_from(PATHS)),
    )
    return st.tuples(st.sampled_from(list(REQUESTS)), st.lists(changes, max_size=4).map(tuple))


def change(request: Request, kind: str, at: int, what: bytes) -> None:
    pairs, headers = request.query if request.form is None else request.form, request.headers
    if kind == "method":
        request.method = what
    elif kind == "path":
        request.path = what
    elif kind == "framing":
        request.framing = at
    elif kind == "type":
        request.headers = [pair for pair in headers if pair[0] != FORM[0]] + [(FORM[0], what)]
    elif kind == "to url":
        request.query += request.form or []
    elif kind == "header":
        headers.append((HEADER_NAMES[at % len(HEADER_NAMES)], what))
    elif kind == "header value":
        headers[at % len(headers)] = (headers[at % len(headers)][0], what)
    elif kind == "header drop":
        headers[at % len(headers)] = (b"X", b"")
    elif kind == "add" or (not pairs and kind not in ("splice", "cut")):
        pairs.append((NAMES[at % len(NAMES)], what))
    elif kind not in ("splice", "cut"):
        change_pair(request, pairs, kind, at % len(pairs), what)


def change_pair(request: Request, pairs: Pairs, kind: str, at: int, what: bytes) -> None:
    name, value = pairs[at]
    if kind == "drop":
        del pairs[at]
    elif kind == "repeat":
        pairs.append((name, what))
    elif kind == "name":
        pairs[at] = (what, value)
    elif kind == "append":
        pairs[at] = (name, value + what)
    else:
        pairs[at] = (name, what)
        request.raw |= {what} if kind == "raw" else set()


def rendered(plan: Plan, world: World) -> tuple[Request, bytes]:
    base, changes = plan
    request = REQUESTS[base](world)
    host = "localhost" if request.path == b"/oauth/authorize" else "127.0.0.1"
    request.headers.insert(0, (b"Host", f"{host}:{world.server.base_url.rpartition(':')[2]}".encode()))
    for kind, at, what in changes:
        change(request, kind, at, what)
    data = bytes_of(request)
    for kind, at, what in changes:
        at %= len(data) + 1
        if kind == "splice":
            data = data[:at] + what + data[at + len(what) % 3 :]
        elif kind == "cut":
            data = data[:at]
    return request, data


def bytes_of(request: Request) -> bytes:
    def encoded(pairs: Pairs) -> bytes:
        def quoted(part: bytes) -> bytes:
            return part if part in request.raw else quote_from_bytes(part, safe="").encode()

        return b"&".join(b"%b=%b" % (quoted(name), quoted(value)) for name, value in pairs)

    target = request.path + (b"?" + encoded(request.query) if request.query else b"")
    framing, body = framed(encoded(request.form or []), request.framing) if request.form is not None else ([], b"")
    lines = [b"%b %b HTTP/1.1" % (request.method, target)]
    return b"\r\n".join([*lines, *(b"%b: %b" % pair for pair in [*request.headers, *framing]), b"", body])


def framed(body: bytes, framing: int) -> tuple[Pairs, bytes]:
    """The headers that frame the body, and the framed body: as it should be for 0, and otherwise."""
    length, chunked = (b"Content-Length", b"%d" % len(body)), (b"Transfer-Encoding", b"chunked")
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body)
    ways: list[tuple[Pairs, bytes]] = [
        ([length], body),
        ([chunked], chunks + b"\r\n"),
        ([chunked], chunks + b"Authorization: Bearer x\r\nX: y\r\n\r\n"),
        ([chunked], b"zz;=\r\n" + body + b"\r\n"),
        ([length, chunked], chunks + b"\r\n"),
        ([(b"Content-Length", b"%d" % (len(body) + 9))], body),
        ([(b"Content-Length", b"%d" % (len(body) // 2))], body),
        ([(b"Content-Length", b"-1")], body),
        ([(b"Content-Length", b"many")], body),
        ([], body),
        ([length, (b"Content-Length", b"1")], body),
        ([(b"Transfer-Encoding", b"zip, chunked")], chunks + b"\r\n"),
        ([length, (b"Expect", b"100-continue")], body),
        ([length, (b"X", b"y\r\n z")], body),
    ]
    return ways[framing % len(ways)]
