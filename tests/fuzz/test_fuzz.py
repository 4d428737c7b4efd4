"""Mutated valid requests: 500, and 100,000 in `make fuzz`."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.fuzz import running, world
from tests.fuzz.running import BATCH, CODES_OF_A_BATCH, Totals
from tests.server import serve

LIMITS = ("TOKEN", "TOKEN_FAILURES", "USERINFO", "USERINFO_FAILURES", "AUTHORIZE")
TOKEN = re.compile(r"[\w.~-]{20,}")


@pytest.fixture
def fuzzed(committed: None, tmp_path: Path) -> Iterator[Any]:
    """`fuzzed(requests, seed)` sends them to a server whose limits are counted but never reached."""
    rates = {f"RATE_{name}": "999999999/d" for name in LIMITS}
    workers = "2" if os.environ.get("REDIS_URL") else "1"
    more = {"RATE_LIMITS": "on", "TRUSTED_PROXIES": "127.0.0.1", "WEB_CONCURRENCY": workers}
    addresses = {"BASE_URL": "http://127.0.0.1:{port}", "AUTH_URL": "http://localhost:{port}"}
    with serve(tmp_path, **rates, **more, **addresses) as server:

        def run(requests: int, seed: int) -> tuple[Totals, world.World, str]:
            made = world.make(server, CODES_OF_A_BATCH * -(-requests // BATCH))
            return running.run(made, requests, seed), made, server.log

        yield run


def test_nothing_that_is_sent_breaks_a_promise(fuzzed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    hold(*fuzzed(500, 0), capsys)


@pytest.mark.long
def test_nothing_that_is_sent_breaks_a_promise_in_the_long_run(fuzzed: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`FUZZ_SEED` repeats a run."""
    seed = int(os.environ.get("FUZZ_SEED") or random.SystemRandom().randrange(1_000_000))
    totals, made, log = fuzzed(100_000, seed)
    hold(totals, made, log, capsys)
    reached = set(totals.counted)
    assert reached >= {("authorize", 200), ("authorize", 302), ("consent", 303), ("token", 200), ("token", 401)}
    assert reached >= {("userinfo", 200), ("userinfo", 401), ("userinfo", 403), ("authorize", 503), ("token", 413)}


def hold(totals: Totals, made: world.World, log: str, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{totals}")  # noqa: T201 - what the run is for
    assert not totals.failures, totals.failures[0]
    assert {("authorize", 200), ("authorize", 302), ("token", 200), ("userinfo", 200)} <= set(totals.counted)
    # In the database, too, each token belongs to one code, and each redemption has its response.
    rows = [each.row for each in made.applications.values()]
    spent = AuthorizationCode.objects.filter(application__in=rows).exclude(redeemed_at=None).count()
    tokens = AccessToken.objects.filter(application__in=rows).count()
    kept = sum(len(pool) for pool in made.tokens.values())
    assert (spent - len(made.codes["spent"]), tokens - kept) == (totals.tokens, totals.tokens)
    assert kept_in(log, made.credentials() | totals.seen) == set()


def kept_in(text: str, credentials: set[str]) -> set[str]:
    """The credentials that occur in the text, also inside a longer word."""
    lengths = sorted({len(credential) for credential in credentials})
    found = set()
    for word in {match[0] for match in TOKEN.finditer(text)}:
        for length in lengths:
            found |= {word[at : at + length] for at in range(len(word) - length + 1)} & credentials
    return found
