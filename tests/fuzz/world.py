"""The data of the fuzzer: applications, people, sessions, codes and tokens, and their current state."""

from __future__ import annotations

import html
import itertools
import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from django.utils import timezone

from oauth_bridge.models import Application
from oauth_bridge.pkce import challenge_of
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import codes_for
from tests.fuzz.wire import Answer, ask
from tests.server import Server

VERIFIER = "the-verifier-that-every-fuzzed-code-with-a-challenge-wants"
CHALLENGE = challenge_of(VERIFIER)
ADDRESSES = "https://client.example/callback\nhttps://client.example/callback?tenant=a%20b\nhttp://localhost:9/"
LONG = timedelta(days=1)
HIDDEN = re.compile(r'name="(\w+)" value="([^"]*)"')
SESSION = re.compile(rb"session=([^;]+)")
FIELDS = ("pending", "csrfmiddlewaretoken")


@dataclass
class World:
    """Created once for a run. Its fresh codes are divided among the batches."""

    server: Server
    applications: dict[str, Registered]
    people: dict[str, Any]
    cookies: dict[str, bytes]
    codes: dict[str, list[str]]
    tokens: dict[str, list[str]]
    fresh: dict[str, list[str]]

    @property
    def port(self) -> int:
        return urlsplit(self.server.auth_url).port or 0

    def credentials(self) -> set[str]:
        """All credentials, which must not be found in any log afterwards."""
        pools = [*self.codes.values(), *self.tokens.values(), *self.fresh.values()]
        known = [application.secret for application in self.applications.values() if application.secret]
        return {*itertools.chain(*pools), *known, *(session.decode() for session in self.sessions.values())}

    @property
    def sessions(self) -> dict[str, bytes]:
        """The value of each session's cookie."""
        return {name: SESSION.search(jar)[1] for name, jar in self.cookies.items()}  # type: ignore[index]


def make(server: Server, codes: int) -> World:
    """Create the data, with `codes` fresh codes for each kind of client."""
    applications: dict[str, Registered] = {
        "ours": ApplicationFactory(redirect_uris=ADDRESSES),
        "trusted": ApplicationFactory(redirect_uris=ADDRESSES, is_trusted=True),
        "public": ApplicationFactory(redirect_uris=ADDRESSES, client_type=Application.CLIENT_PUBLIC),
        "private": ApplicationFactory(redirect_uris="com.example.fuzz:/callback", is_trusted=True),
        "disabled": ApplicationFactory(redirect_uris=ADDRESSES, is_enabled=False),
        "another": ApplicationFactory(redirect_uris="https://another.example/back"),
        "remembered": ApplicationFactory(),
    }
    people = {
        "alice": PersonFactory(),
        "another": PersonFactory(),
        "unconfirmed": PersonFactory(email_verified_at=None),
        "deactivated": PersonFactory(is_active=False),
    }
    ours, alice = applications["ours"], people["alice"]
    common = {"application": ours, "user": alice}
    dead, lasting = timezone.now() - LONG, {"user": alice, "expires_at": timezone.now() + LONG}
    return World(
        server=server,
        applications=applications,
        people=people,
        cookies={name: signed_in(server, people[name].email) for name in ("alice", "another")},
        codes={
            "expired": [CodeFactory(**common, issued_at=dead).raw],
            "spent": [CodeFactory(**common, redeemed_at=timezone.now(), token_digest=bytes(32)).raw],
            "of another": [CodeFactory(application=applications["another"], user=alice).raw],
            "of nobody": [CodeFactory(application=ours, user=people["deactivated"]).raw],
        },
        tokens={
            "live": [TokenFactory(**common).raw for _ in range(3)],
            "expired": [TokenFactory(**common, issued_at=dead).raw],
            "revoked": [TokenFactory(**common, revoked_at=timezone.now()).raw],
            "narrow": [TokenFactory(**common, scope="").raw],
            "unconfirmed": [TokenFactory(application=ours, user=people["unconfirmed"]).raw],
            "disabled": [TokenFactory(application=applications["disabled"], user=alice).raw],
        },
        fresh={
            "ours": codes_for(ours, codes, **lasting),
            "challenged": codes_for(ours, codes, code_challenge=CHALLENGE, **lasting),
            "public": codes_for(applications["public"], codes, code_challenge=CHALLENGE, **lasting),
        },
    )


def signed_in(server: Server, email: str) -> bytes:
    """The `Cookie` header of a browser in which the person has signed in."""
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(email, PASSWORD)
    driver.get("/accounts/profile")
    jar = {cookie.name: cookie.value for cookie in driver.browser.cookies}
    return "; ".join(f"{name}={value}" for name, value in jar.items()).encode()


class Hand:
    """The data of one batch and its current state. `used` lists the data in the current request."""

    def __init__(self, world: World, share: slice) -> None:
        self.world = world
        self.fresh = {kind: list(codes[share]) for kind, codes in world.fresh.items()}
        self.issued: dict[str, tuple[str, str]] = {}  # code: application and person
        self.seen: set[str] = set()
        self.redeemed: dict[str, str] = {}  # code: token
        self.owners: dict[str, str] = {}  # token: person
        self.revoked: set[str] = set()
        self.used: set[str] = set()

    def code(self, kind: str) -> str:
        """A code that can be redeemed, that was redeemed, or that is invalid."""
        if kind == "redeemed" and self.redeemed:
            return self._noted(next(reversed(self.redeemed)))
        if kind == "issued" and self.issued:
            return self._noted(next(reversed(self.issued)))
        pool = self.fresh.get(kind) or self.world.codes.get(kind) or self.world.codes["spent"]
        return self._noted(pool[-1])

    def issued_to(self) -> str:
        """The application of the code that `code("issued")` returns."""
        return next(reversed(self.issued.values()), ("ours", ""))[0]

    def token(self, kind: str) -> str:
        if kind == "new" and self.redeemed:
            return self._noted(next(reversed(self.redeemed.values())))
        return self._noted(self.world.tokens.get(kind, self.world.tokens["live"])[0])

    def secret(self, name: str) -> str:
        return self._noted(self.world.applications[name].secret)

    def consent(self, application: str, state: bytes | None, person: str = "alice") -> dict[str, str]:
        """The fields of a new consent page of the person."""
        cookies = self.world.cookies[person]
        answer = self._authorize(application, state, cookies)
        if address := answer.headers.get("Location"):  # of the attempt; too long for a redirect, there is none
            answer = self._get(address, cookies)
        page = answer.body.decode()
        return {name: self._noted(html.unescape(value)) for name, value in HIDDEN.findall(page) if name in FIELDS}

    def sealed(self, application: str, state: bytes | None) -> str:
        """A signed pending request of a browser in which nobody is signed in."""
        location = self._authorize(application, state, b"a=b").headers["Location"]
        way_back = dict(parse_qsl(urlsplit(location).query))["next"]
        return self._noted(dict(parse_qsl(urlsplit(way_back).query))["pending"])

    def _authorize(self, application: str, state: bytes | None, cookies: bytes) -> Answer:
        query = {
            "client_id": self.world.applications[application].client_id,
            "redirect_uri": self.world.applications[application].redirect_uri,
            "response_type": "code",
        }
        pairs = [f"{name}={quote(value, safe='')}" for name, value in query.items()]
        pairs += [] if state is None else [f"state={quote(state, safe='')}"]
        return self._get(f"/oauth/authorize?{'&'.join(pairs)}", cookies)

    def _get(self, path: str, cookies: bytes) -> Answer:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost:{self.world.port}\r\nCookie: "
        [answer] = ask(self.world.server, head.encode() + cookies + b"\r\n\r\n")
        return answer

    def can_redeem(self, code: str) -> bool:
        return code in self.issued or any(code in pool for pool in self.fresh.values())

    def redeemed_now(self, code: str, token: str) -> None:
        self.redeemed[code] = token
        self.owners[token] = self.issued.pop(code, ("", "alice"))[1]
        for pool in self.fresh.values():
            if code in pool:
                pool.remove(code)

    def _noted(self, credential: str) -> str:
        if credential:  # a public client has no secret
            self.used.add(credential)
        return credential
