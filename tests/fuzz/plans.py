"""Plans: valid or nearly valid requests and their mutations, drawn by Hypothesis. They contain no credential, so a
failing plan can be printed; `rendered` turns a plan into bytes."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.fuzz.nasties import HEADER_VALUES, METHODS, NAMES, NASTY, PATHS, TYPES
from tests.fuzz.world import VERIFIER, Hand

Pairs = list[tuple[bytes, bytes]]
PAGE = (b"Accept", b"text/html")
FORM = (b"Content-Type", b"application/x-www-form-urlencoded")
STATE_BYTES = 5000
CHUNK_BYTES = 7
CREDENTIALS = (
    "code ours",
    "code challenged",
    "code public",
    "code issued",
    "code redeemed",
    "code spent",
    "code expired",
    "code of another",
    "token live",
    "token new",
    "token expired",
    "secret ours",
    "secret another",
)


@dataclass
class Request:
    """A request before rendering. Values are not encoded; those named in `raw` are never encoded."""

    path: bytes
    method: bytes = b"GET"
    query: Pairs = field(default_factory=list)
    headers: Pairs = field(default_factory=list)
    form: Pairs | None = None
    framing: str = "length"
    raw: set[bytes] = field(default_factory=set)
    about: str = ""  # the application of the signed request in it
    page: tuple[str, set[bytes]] = ("", set())  # the person of the consent page, and the expected result

    @property
    def pairs(self) -> Pairs:
        """The parameters that the service reads: those of the form, otherwise those of the query."""
        return self.query if self.form is None else self.form


def framings(body: bytes) -> dict[str, tuple[bytes, Pairs, bytes]]:
    """The version, the headers that frame the body, and the framed body: as it should be, and otherwise."""
    size = b"%d" % len(body)
    length, chunked = (b"Content-Length", size), (b"Transfer-Encoding", b"chunked")
    pieces = [body[start : start + CHUNK_BYTES] for start in range(0, len(body), CHUNK_BYTES)]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n"
    one = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"
    return {
        "length": (b"HTTP/1.1", [length], body),
        "bare lf": (b"HTTP/1.1", [length], body),
        "chunked": (b"HTTP/1.1", [chunked], chunks + b"\r\n"),
        "one chunk": (b"HTTP/1.1", [chunked], one),
        "chunked trailer": (b"HTTP/1.1", [chunked], chunks + b"Authorization: Bearer x\r\nX: y\r\n\r\n"),
        "bad chunk": (b"HTTP/1.1", [chunked], b"zz;=\r\n" + body + b"\r\n"),
        "both": (b"HTTP/1.1", [length, chunked], one),
        "short": (b"HTTP/1.1", [(b"Content-Length", b"%d" % (len(body) + 9))], body),
        "long": (b"HTTP/1.1", [(b"Content-Length", b"%d" % (len(body) // 2))], body),
        "negative": (b"HTTP/1.1", [(b"Content-Length", b"-" + size)], body),
        "words": (b"HTTP/1.1", [(b"Content-Length", b"many")], body),
        "none": (b"HTTP/1.1", [], body),
        "two lengths": (b"HTTP/1.1", [length, (b"Content-Length", b"1")], body),
        "unknown coding": (b"HTTP/1.1", [(b"Transfer-Encoding", b"zip, chunked")], one),
        "http/1.0": (b"HTTP/1.0", [length], body),
        "http/2.0": (b"HTTP/2.0", [length], body),
        "expect": (b"HTTP/1.1", [length, (b"Expect", b"100-continue")], body),
        "folded": (b"HTTP/1.1", [length, (b"X", b"y\r\n z")], body),
    }


@dataclass(frozen=True)
class Change:
    """A mutation: its `kind`, its position `at` (modulo the length) and the inserted value `what`."""

    kind: str
    at: int = 0
    what: bytes | str = b""


@dataclass(frozen=True)
class Plan:
    base: str
    state: bytes | None
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        """The Python expression, with long values shortened."""
        return re.sub(r"b'([^']{60})[^']*'", r"b'\1…'", repr(self))


def plans() -> st.SearchStrategy[Plan]:
    at = st.integers(0, 15)
    drawn = st.one_of(st.binary(max_size=12), st.text(max_size=8).map(_encoded))
    value = st.one_of(st.sampled_from(NASTY), drawn)
    # Longer ones would exceed a request line when percent-encoded.
    state = st.one_of(st.none(), st.sampled_from([each for each in NASTY if len(each) <= STATE_BYTES]), drawn)

    def change(kind: str, what: st.SearchStrategy[bytes | str] | None = None) -> st.SearchStrategy[Change]:
        return st.builds(Change, st.just(kind), at, st.just(b"") if what is None else what)

    changes = st.one_of(
        change("drop"),
        change("repeat", value),
        change("value", value),
        change("append", value),
        change("alter", st.just(b"\x20")),
        change("raw", value),
        change("name", st.one_of(st.sampled_from(NAMES), value)),
        change("add", value),
        change("credential", st.sampled_from(CREDENTIALS)),
        change("credential as name", st.sampled_from(CREDENTIALS)),
        change("to url"),
        change("header", st.one_of(st.sampled_from(HEADER_VALUES), value)),
        change("header", st.one_of(st.sampled_from(HEADER_VALUES), value)),
        change("header value", st.one_of(st.sampled_from(HEADER_VALUES), value)),
        change("header drop"),
        change("header repeat"),
        change("type", st.sampled_from(TYPES)),
        change("method", st.sampled_from(METHODS)),
        change("path", st.sampled_from(PATHS)),
        change("framing", st.sampled_from(list(framings(b"")))),
        st.builds(Change, st.just("splice"), st.integers(0, 2000), value),
        st.builds(Change, st.just("cut"), st.integers(0, 2000)),
    )
    return st.builds(
        Plan,
        base=st.sampled_from(list(BASES)),
        state=state,
        changes=st.lists(changes, max_size=4).map(tuple),
    )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# Valid and nearly valid requests --------------------------------------------------------------------------------------


def _authorize(
    hand: Hand, state: bytes | None, application: str, who: str = "", *headers: tuple[bytes, bytes]
) -> Request:
    registered = hand.world.applications[application]
    query = [
        (b"client_id", registered.client_id.encode()),
        (b"redirect_uri", registered.redirect_uri.encode()),
        (b"response_type", b"code"),
    ]
    if state is not None:
        query.append((b"state", state))
    cookies = [(b"Cookie", hand.world.cookies[who])] if who else []
    return Request(b"/oauth/authorize", query=query, headers=[*(headers or (PAGE,)), *cookies])


def _near_miss(hand: Hand, state: bytes | None) -> Request:
    """A callback address that extends a registered one."""
    request = _authorize(hand, state, "trusted", "alice")
    name, address = request.query[1]
    request.query[1] = (name, address + (state or b"x"))
    return request


def _consent(hand: Hand, state: bytes | None, decision: bytes, application: str = "ours", by: str = "alice") -> Request:
    """The post of Alice's consent page, in her browser or in another."""
    fields = hand.consent(application, state)
    if by != "alice":
        fields |= {"csrfmiddlewaretoken": hand.consent(application, state, by)["csrfmiddlewaretoken"]}
    form = [(name.encode(), value.encode()) for name, value in fields.items()]
    return Request(
        b"/oauth/authorize",
        b"POST",
        headers=[FORM, (b"Cookie", hand.world.cookies[by]), PAGE],
        form=[*form, (b"decision", decision)],
        about=application,
        page=("alice", {value for _name, value in form}),
    )


def _going_on(hand: Hand, state: bytes | None, application: str) -> Request:
    """The authorize path that follows the sign-in page."""
    query = [(b"pending", hand.sealed(application, state).encode())]
    headers = [PAGE, (b"Cookie", hand.world.cookies["alice"])]
    return Request(b"/oauth/authorize", query=query, headers=headers, about=application)


def _token(
    hand: Hand,
    kind: str,
    application: str = "ours",
    *,
    verifier: bool = False,
    basic: bool = False,
    filler: bytes = b"",
) -> Request:
    client_id, secret = hand.world.applications[application].client_id.encode(), hand.secret(application).encode()
    form = [(b"grant_type", b"authorization_code"), (b"code", hand.code(kind).encode())]
    headers = [FORM]
    if basic:
        headers.append((b"Authorization", b"Basic " + base64.b64encode(client_id + b":" + secret)))
    else:
        form += [(b"client_id", client_id)] + ([(b"client_secret", secret)] if secret else [])
    if verifier:
        form.append((b"code_verifier", VERIFIER.encode()))
    if filler:
        form.append((b"filler", filler))
    return Request(b"/oauth/token", b"POST", headers=headers, form=form)


def _userinfo(hand: Hand, kind: str) -> Request:
    return Request(b"/oauth/userinfo", headers=[(b"Authorization", b"Bearer " + hand.token(kind).encode())])


BASES: dict[str, Callable[[Hand, bytes | None], Request]] = {
    "stranger": lambda hand, state: _authorize(hand, state, "ours"),
    "near miss": _near_miss,
    "stranger, a program": lambda hand, state: _authorize(hand, state, "ours", "", (b"Accept", b"*/*")),
    "alice is asked": lambda hand, state: _authorize(hand, state, "ours", "alice"),
    "alice is not asked": lambda hand, state: _authorize(hand, state, "trusted", "alice"),
    "another is not asked": lambda hand, state: _authorize(
        hand, state, "trusted", "another", (b"Accept", b"application/json")
    ),
    "in advance": lambda hand, state: _authorize(hand, state, "trusted", "alice", (b"Sec-Purpose", b"prefetch")),
    "without a challenge": lambda hand, state: _authorize(hand, state, "public", "alice"),
    "a private scheme": lambda hand, state: _authorize(hand, state, "private", "alice"),
    "switched off": lambda hand, state: _authorize(hand, state, "disabled", "alice"),
    "remembered": lambda hand, state: _authorize(hand, state, "remembered", "alice"),
    "back from signing in": lambda hand, state: _going_on(hand, state, "ours"),
    "back from signing in, not asked": lambda hand, state: _going_on(hand, state, "trusted"),
    "allow": lambda hand, state: _consent(hand, state, b"allow"),
    "allow in another browser": lambda hand, state: _consent(hand, state, b"allow", by="another"),
    "refuse": lambda hand, state: _consent(hand, state, b"refuse"),
    "exchange": lambda hand, state: _token(hand, "ours"),
    "exchange what was issued": lambda hand, state: _token(hand, "issued", hand.issued_to()),
    "exchange of too much": lambda hand, state: _token(hand, "ours", filler=b"x" * 70_000),
    "exchange by basic": lambda hand, state: _token(hand, "ours", basic=True),
    "exchange with a verifier": lambda hand, state: _token(hand, "challenged", verifier=True),
    "exchange without a verifier": lambda hand, state: _token(hand, "challenged"),
    "exchange of a public client": lambda hand, state: _token(hand, "public", "public", verifier=True),
    "replay": lambda hand, state: _token(hand, "redeemed"),
    "expired code": lambda hand, state: _token(hand, "expired"),
    "code of another": lambda hand, state: _token(hand, "of another"),
    "code of somebody who is away": lambda hand, state: _token(hand, "of nobody"),
    "exchange by a disabled one": lambda hand, state: _token(hand, "ours", "disabled"),
    "profile": lambda hand, state: _userinfo(hand, "live"),
    "profile by a new token": lambda hand, state: _userinfo(hand, "new"),
    "profile, expired": lambda hand, state: _userinfo(hand, "expired"),
    "profile, revoked": lambda hand, state: _userinfo(hand, "revoked"),
    "profile, narrow": lambda hand, state: _userinfo(hand, "narrow"),
    "profile, unconfirmed": lambda hand, state: _userinfo(hand, "unconfirmed"),
    "profile, disabled": lambda hand, state: _userinfo(hand, "disabled"),
}
