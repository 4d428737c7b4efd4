"""Changed valid requests: no answer is a 500, breaks the document, names a credential or leads elsewhere. 500 requests,
and 100,000 in `make fuzz`. Specification 3, 7; D3, D4, D5, D13, D19, D20.
"""

from __future__ import annotations

import html
import io
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from requests.structures import CaseInsensitiveDict

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.contract import openapi_responses
from tests.fuzz.requests import STATE, UNFRAMED, Plan, Request, World, plans, rendered
from tests.server import send, serve

BATCH = 250
LIMITS = ("TOKEN", "TOKEN_FAILURES", "USERINFO", "USERINFO_FAILURES", "AUTHORIZE")
WORD = re.compile(r"[\w.~-]{20,}")
TARGET = re.compile(rb"([a-z]+://[^/?#]*)?([^?#]*)")
METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS"}
HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": ""}
LED_BACK = ({"code", "state"}, {"code"}, {"error", "error_description", "state"}, {"error", "error_description"})
SPECULATIVE = re.compile(rb"purpose|x-moz|sec-fetch-dest", re.IGNORECASE)
OUR_PAGES = re.compile(r"/(oauth/authorize|accounts/sign-in)([/?]|$)")
REFRESH = re.compile(r'http-equiv="refresh" content="\d+;\s*url=([^"]+)"')


class Received:
    """The bytes of an answer, in place of the socket from which http.client reads them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, _mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


class Judge:
    """Raises AssertionError: an answer breaks a rule. The message has no credential."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counted: Counter[tuple[str, int]] = Counter()
        self.issued: set[str] = set()  # codes and tokens

    def attempt(self, plan: Plan) -> None:
        request, data = rendered(plan, self.world)
        received = send(self.world.server, data)
        assert received, "hung up"
        answer = HTTPResponse(Received(received), method="HEAD" if data.startswith(b"HEAD ") else "GET")  # type: ignore[arg-type]
        answer.begin()
        is_framed = not UNFRAMED & {kind for kind, _at, _what in plan[1]}
        self.judge(request, data, answer, answer.read(), is_framed)

    def judge(self, request: Request, data: bytes, answer: HTTPResponse, body: bytes, is_framed: bool) -> None:
        method, target = [*data.partition(b"\r\n")[0].split(b" ", 2), b"", b""][:2]
        path = unquote_to_bytes(TARGET.match(target)[2])  # type: ignore[index]
        headers = CaseInsensitiveDict(answer.getheaders())
        status, content_type = answer.status, headers.get("Content-Type", "")
        self.counted[path.decode("latin-1") if is_framed else "", status] += 1
        is_of_gunicorn = "X-Reference" not in headers and status in (400, 414, 417, 431, 501)
        assert status < 500 or is_of_gunicorn or (status == 503 and SPECULATIVE.search(data)), status
        if is_of_gunicorn or not path.startswith(b"/oauth/"):
            return
        assert [name for name, value in HEADERS.items() if value not in headers.get(name, "\0")] == []
        if path != b"/oauth/authorize" and "Location" not in headers:
            assert content_type == "application/json", "a machine path"
        if content_type == "application/json" and status >= 400:
            assert self.named_in(body.decode()) == set(), "a credential in an error"
        if method in METHODS and is_framed:
            text = path.decode("latin-1")
            assert openapi_responses.problems(method.decode(), text, status, headers, body) == []
        if path == b"/oauth/token" and status == 200:
            self.issued.add(json.loads(body)["access_token"])
        if path == b"/oauth/userinfo" and status == 200:
            assert self.world.live.encode() in data or self.named_in(data.decode("latin-1")), (
                "a profile without a token"
            )
        location = headers.get("Location", "")
        if status == 200 and (found := REFRESH.search(body.decode("utf-8"))):
            location = html.unescape(found[1])
        location = location.removeprefix(self.world.server.auth_url)
        if location.startswith("/"):
            assert OUR_PAGES.match(location), "a redirect to nowhere"
        elif location:
            self.judge_callback(request, data, location)

    def judge_callback(self, request: Request, data: bytes, location: str) -> None:
        """The callback is a registered address, and has only the defined parameters and the state that was sent."""
        addresses = self.world.ours.row.callback_addresses
        address = max((each for each in addresses if location.startswith(each)), key=len, default="")
        assert address, "a redirect to an address that is not registered"
        pairs = [pair.partition("=") for pair in location[len(address) + 1 :].split("&")]
        brought = {name: value for name, _, value in pairs}
        assert len(brought) == len(pairs)
        assert set(brought) in LED_BACK
        state = unquote_to_bytes(brought["state"]) if "state" in brought else None
        assert state == (STATE if request.form else state_of(data)), "another state"
        if "code" in brought:
            assert brought["code"] not in self.issued, "a code for the second time"
            assert self.world.cookies.partition(b"session=")[2][:20] in data, "a code for nobody"
            self.issued.add(brought["code"])

    def named_in(self, text: str) -> set[str]:
        return {word for word in WORD.findall(text) if word in self.world.credentials or word in self.issued}


def state_of(data: bytes) -> bytes | None:
    """The bytes of the first `state` in the address; None when there is none. Decoded leniently, like a form."""
    target = data.partition(b"\r\n")[0].split(b" ", 2)[1]
    for pair in target.partition(b"#")[0].partition(b"?")[2].split(b"&"):
        name, _, value = pair.replace(b"+", b" ").partition(b"=")
        if unquote_to_bytes(name) == b"state":
            return unquote_to_bytes(value)
    return None


@pytest.fixture
def judge(committed: None, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Judge]:
    """For as many requests as the parameter says, to a server whose limits are counted but never reached.

    At the end, each redemption had its answer and its token, and no log line has a credential.
    """
    rates = {f"RATE_{name}": "999999999/d" for name in LIMITS}
    workers = "2" if os.environ.get("REDIS_URL") else "1"
    more = {"RATE_LIMITS": "on", "TRUSTED_PROXIES": "127.0.0.1", "WEB_CONCURRENCY": workers}
    addresses = {"BASE_URL": "http://127.0.0.1:{port}", "AUTH_URL": "http://localhost:{port}"}
    with serve(tmp_path, **rates, **more, **addresses) as server:
        judge = Judge(World(server, request.param))
        yield judge
        assert judge.named_in(server.log) == set()
    rows = [judge.world.ours.row, judge.world.public.row]
    spent = AuthorizationCode.objects.filter(application__in=rows).exclude(redeemed_at=None).values("token_digest")
    tokens = AccessToken.objects.filter(application__in=rows)
    assert tokens.filter(digest__in=spent).count() == spent.count() == tokens.count() - 2


@pytest.mark.parametrize("judge", [500, pytest.param(100_000, marks=pytest.mark.long)], indirect=True)
def test_nothing_that_is_sent_breaks_a_promise(judge: Judge, request: pytest.FixtureRequest) -> None:
    """`FUZZ_SEED` repeats a run."""
    number = request.node.callspec.params["judge"]
    base_seed = int(os.environ.get("FUZZ_SEED") or (random.SystemRandom().randrange(1_000_000) if number > 500 else 0))
    print(f"FUZZ_SEED={base_seed}")  # noqa: T201 - shown by `-rP`
    for batch in range(number // BATCH):

        @seed(base_seed * 100_000 + batch)
        @settings(
            max_examples=BATCH,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )
        @given(plan=plans())
        def holds(plan: Plan) -> None:
            judge.attempt(plan)

        holds()
    print(judge.counted)  # noqa: T201
    reached = {("/oauth/authorize", 302), ("/oauth/authorize", 303), ("/oauth/token", 200), ("/oauth/userinfo", 200)}
    if number > 500:
        reached |= {
            ("/oauth/authorize", 503),
            *(("/oauth/token", each) for each in (401, 413)),
            ("/oauth/userinfo", 403),
        }
    assert reached <= set(judge.counted)
