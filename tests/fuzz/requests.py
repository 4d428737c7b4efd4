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
from tests.server import Server

Pairs = list[tuple[bytes, bytes]]
VERIFIER = "the-verifier-that-every-fuzzed-code-with-a-challenge-wants"
ADDRESSES = "https://client.example/callback\nhttps://client.example/callback?tenant=a%20b\nhttp://localhost:9/"
PAGE, FORM = (b"Accept", b"text/html"), (b"Content-Type", b"application/x-www-form-urlencoded")
STATE = b"a \xe2\x98\x83&"  # of the consent page
# After these changes the end or the meaning of the request is uncertain.
UNFRAMED = {"raw", "header", "method", "path"}
Plan = tuple[str, tuple[tuple[str, int, bytes], ...]]  # the name of a request; kinds of change, positions and values


@dataclass
class Request:
    path: bytes
    method: bytes = b"GET"
    query: Pairs = field(default_factory=list)
    headers: Pairs = field(default_factory=list)
    form: Pairs | None = None
    raw: set[bytes] = field(default_factory=set)  # values that are not percent-encoded


class World:
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


# Values, names and headers that are known to break programs.
# fmt: off
NASTY = [
    b"", b" ", b"\x00", b"a\x00b", b"\r\nSet-Cookie: a=b", b"\x1b[31m", b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80",
    b"%", b"%zz", b"%00", b"%25%30%30", b"+", b"&&==", b";", b"#", b"//evil.example", b"/\\evil.example",
    b"https://evil.example/", b"https://client.example/callback/", b"https://client.example/callback?x=1",
    b"https://client.example/callback#x", b"https://client.example/callback%0d%0aX: y",
    b"https://client.example@evil.example/callback", b"https://client.example/callback?tenant=a%20b",
    b"javascript:alert(1)", b"<script>alert(1)</script>", b"' OR 1=1 --", b"{0.__class__}", b"%(name)s%s%n",
    b"null", b"0", b"9" * 400, b"\xe2\x98\x83" * 1365, b"a" * 5000, b"y" * 70_000, b"=".join([b"z"] * 300),
    b"&a=b" * 300, b"code", b"S256", b"authorization_code", b"token",
]
NAMES = [
    b"client_id", b"redirect_uri", b"response_type", b"state", b"scope", b"code_challenge", b"code_challenge_method",
    b"request", b"notice", b"pending", b"decision", b"csrfmiddlewaretoken", b"prompt", b"response_mode", b"nonce",
    b"grant_type", b"code", b"client_secret", b"code_verifier", b"access_token", b"refresh_token", b"state[]",
    b" state", b"State", b"client_id\x00", b"request_uri", b"client_assertion",
]
HEADER_NAMES = [
    b"Authorization", b"Cookie", b"Accept", b"Accept-Language", b"Accept-Encoding", b"Origin", b"Referer",
    b"Sec-Purpose", b"Purpose", b"Sec-Fetch-Dest", b"Sec-Fetch-Site", b"X-Forwarded-For", b"X-Forwarded-Proto",
    b"X-Forwarded-Host", b"X_Forwarded_For", b"Host", b"Range", b"If-None-Match", b"If-Modified-Since",
    b"Content-Encoding", b"Content-Type", b"Expect", b"Script-Name", b"X-CSRFToken", b"X-Request-ID",
    b"Content-Length", b"Transfer-Encoding", b"", b"A b", b"X" * 300, b"\xc3\xa9",
]
HEADER_VALUES = [
    b"Basic", b"Basic ", b"Basic Og==", b"Basic %%%", b"Basic YTpi", b"Basic /////w==", b"Bearer", b"Bearer ",
    b"Digest x", b"Bearer a b", b"bearer\tx", b"Bearer \xff", b"Basic " + b"A" * 9000, b"Bearer " + b"A" * 9000,
    b"text/html", b"*/*", b"text/html;q=\xff", b",;,", b"*/*;b*0*=bogus''%41", b"prefetch", b"prefetch;prerender",
    b"iframe", b"null", b"https://evil.example", b"1.2.3.4, 127.0.0.1", b"[::1]:80", b"fe80::1%eth0", b",,," * 99,
    b"evil.example", b"localhost:99999", b"[::1", b"a b", b"xn--", b"localhost.", b"delegated_session=",
    b'delegated_session="\x01', b"delegated_session=a; delegated_session=b", b"=;;=", b"a" * 9000, b"\xff=\xfe",
    b"gzip", b"bytes=0-1", b'W/"x"', b"100-continue", b"chunked", b"+5", b"5, 5", b"de-DE,*;q=0.1", b"x-" * 999,
]
METHODS = [
    b"GET", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"QUERY", b"get", b"A" * 25, b"",
]
PATHS = [
    b"/oauth/authorize", b"/oauth/token", b"/oauth/userinfo", b"/oauth/token/", b"/oauth/", b"//oauth/token",
    b"/oauth/%74oken", b"/oauth/token%00", b"/oauth/token%2f", b"/oauth/../oauth/token", b"/OAUTH/TOKEN",
    b"/oauth/\xff", b"/oauth/token#x", b"/oauth/token??", b"/oauth/introspect", b"/oauth/revoke", b"/oauth/%0d%0a",
    b"*", b"", b"oauth/token", b"http://evil.example/oauth/token", b"http://[/x", b"/oauth/userinfo/" + b"a" * 3000,
    b"/openapi.json", b"/.well-known/oauth-authorization-server", b"/accounts/sign-in", b"/health/live",
]
TYPES = [
    b"application/json", b"multipart/form-data; boundary=x", b"multipart/form-data", b"text/plain", b"",
    b"application/x-www-form-urlencoded; charset=utf-16", b"APPLICATION/X-WWW-FORM-URLENCODED",
    b"application/x-www-form-urlencoded; a*=bogus''%41", b"\xff/\xff", b"a/b; " + b"c=d; " * 99,
]
# fmt: on


def plans() -> st.SearchStrategy[Plan]:
    at = st.integers(0, 2000)
    drawn = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")))
    value = st.one_of(st.sampled_from(NASTY), drawn)
    changes = st.one_of(
        *(st.tuples(st.just(kind), at, value) for kind in ("repeat", "value", "append", "raw", "add")),
        *(st.tuples(st.just(kind), at, st.just(b"")) for kind in ("drop", "to url")),
        st.tuples(st.just("header"), at, st.one_of(st.sampled_from(HEADER_VALUES), value)),
        st.tuples(st.just("name"), at, st.one_of(st.sampled_from(NAMES), value)),
        st.tuples(st.just("type"), at, st.sampled_from(TYPES)),
        st.tuples(st.just("method"), at, st.sampled_from(METHODS)),
        st.tuples(st.just("path"), at, st.sampled_from(PATHS)),
    )
    return st.tuples(st.sampled_from(list(REQUESTS)), st.lists(changes, max_size=4).map(tuple))


def change(request: Request, kind: str, at: int, what: bytes) -> None:
    pairs = request.query if request.form is None else request.form
    if kind == "method":
        request.method = what
    elif kind == "path":
        request.path = what
    elif kind == "type":
        request.headers = [pair for pair in request.headers if pair[0] != FORM[0]] + [(FORM[0], what)]
    elif kind == "to url":
        request.query += request.form or []
    elif kind == "header":
        request.headers.append((HEADER_NAMES[at % len(HEADER_NAMES)], what))
    elif kind == "add" or not pairs:
        pairs.append((NAMES[at % len(NAMES)], what))
    else:
        at %= len(pairs)
        name, value = pairs[at]
        changed = {"drop": [], "repeat": [(name, value), (name, what)], "name": [(what, value)]}
        pairs[at : at + 1] = changed.get(kind, [(name, value + what if kind == "append" else what)])
        request.raw |= {what} if kind == "raw" else set()


def rendered(plan: Plan, world: World) -> tuple[Request, bytes]:
    base, changes = plan
    request = REQUESTS[base](world)
    host = "localhost" if request.path == b"/oauth/authorize" else "127.0.0.1"
    request.headers.insert(0, (b"Host", f"{host}:{world.server.base_url.rpartition(':')[2]}".encode()))
    for each in changes:
        change(request, *each)

    def encoded(pairs: Pairs) -> bytes:
        def quoted(part: bytes) -> bytes:
            return part if part in request.raw else quote_from_bytes(part, safe="").encode()

        return b"&".join(b"%b=%b" % (quoted(name), quoted(value)) for name, value in pairs)

    target, body = request.path + (b"?" + encoded(request.query) if request.query else b""), b""
    if request.form is not None:
        body = encoded(request.form)
        request.headers.append((b"Content-Length", b"%d" % len(body)))
    lines = [b"%b %b HTTP/1.1" % (request.method, target), *(b"%b: %b" % pair for pair in request.headers)]
    return request, b"\r\n".join([*lines, b"", body])
