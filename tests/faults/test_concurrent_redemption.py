"""Many concurrent redemptions of one code, in real threads, processes and transactions. D13."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, Registered, digest_of, rewind
from tests.load import Answer, Caller, codes_for, statuses
from tests.server import Server

WORKERS = 4


class Crowd:
    """Concurrent callers with separate connections that redeem the same code."""

    def __init__(self, server: Server, application: Registered, callers: int) -> None:
        self.application = application
        self.barrier = threading.Barrier(callers)
        self.callers = [Caller(server) for _ in range(callers)]

    def redeem(self, codes: list[str]) -> dict[str, str]:
        """The token of each code. Fails unless one caller got it and the others got the error for concurrent use."""
        with ThreadPoolExecutor(len(self.callers)) as pool:
            columns = list(pool.map(lambda caller: [self._exchange(caller, code) for code in codes], self.callers))
        return {code: self._token(answers) for code, answers in zip(codes, zip(*columns, strict=True), strict=True)}

    def _exchange(self, caller: Caller, code: str) -> Answer:
        self.barrier.wait(30)
        return caller.exchange(self.application, code)

    def _token(self, answers: tuple[Answer, ...]) -> str:
        assert Counter(answer.status for answer in answers) == {200: 1, 400: len(answers) - 1}
        [token] = [answer.json()["access_token"] for answer in answers if answer.status == 200]
        for answer in answers:
            if answer.status == 400:
                assert answer.json()["error"] == "invalid_grant"
                assert "less than 3 seconds ago" in answer.json()["error_description"]
        return str(token)


def check(server: Server, *, pairs: int, tens: int) -> None:
    """One success for each code, one row, a valid token for each winner; 3 seconds later another use is a replay."""
    for callers, count in ((2, pairs), (10, tens)):
        application = ApplicationFactory()
        redeemed = Crowd(server, application, callers).redeem(codes_for(application, count))
        tokens = AccessToken.objects.filter(application=application.row)
        codes = AuthorizationCode.objects.filter(application=application.row, redeemed_at__isnull=False)
        won = {digest_of(token) for token in redeemed.values()}
        assert len(won) == tokens.count() == codes.count() == count
        assert {bytes(row.digest) for row in tokens} == {bytes(row.token_digest or b"") for row in codes} == won
        assert statuses(server, redeemed.values()) == {200: count}

        code, token = next(iter(redeemed.items()))
        rewind(codes.get(digest=digest_of(code)), 3)
        assert "has been revoked" in Caller(server).exchange(application, code).json()["error_description"]
        assert statuses(server, redeemed.values()) == {200: count - 1, 401: 1}
        assert statuses(server, [token]) == {401: 1}
    assert '"level":"error"' not in server.log


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_of_redemptions_at_once_one_succeeds_and_its_token_lives(
    postgresql: None, redis_server: Any, launch: Launch
) -> None:
    check(launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY=str(WORKERS)), pairs=100, tens=20)


@pytest.mark.long
@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_of_a_thousand_pairs_and_two_hundred_tens_every_winner_keeps_its_token(
    postgresql: None, redis_server: Any, launch: Launch
) -> None:
    """Run by `python -m pytest tests/faults/test_concurrent_redemption.py -m long`, on PostgreSQL."""
    check(launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY=str(WORKERS)), pairs=1000, tens=200)


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_callers_of_one_process_redeem_a_code_once(launch: Launch) -> None:
    check(launch(), pairs=20, tens=10)
