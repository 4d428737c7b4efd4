"""Many redemptions of one code at the same moment: real threads, processes and transactions. D13."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.driver import error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered
from tests.matrix import contract
from tests.server import Server

CALLERS = 10


class Crowd:
    """Callers, each with a connection of its own, that post at the same moment."""

    def __init__(self, server: Server, application: Registered, callers: int = CALLERS) -> None:
        self.server = server
        self.application = application
        self.barrier = threading.Barrier(callers)
        self.connections = [requests.Session() for _ in range(callers)]

    def redeem(self, code: str) -> list[requests.Response]:
        with ThreadPoolExecutor(len(self.connections)) as pool:
            return list(pool.map(lambda connection: self._post(connection, code), self.connections))

    def _post(self, connection: requests.Session, code: str) -> requests.Response:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.application.client_id,
            "client_secret": self.application.client_secret,
        }
        self.barrier.wait(30)
        return connection.post(f"{self.server.base_url}/oauth/token", data=form, timeout=60)


def check(server: Server, codes: int) -> None:
    application = ApplicationFactory()
    crowd = Crowd(server, application)
    for _ in range(codes):
        code = CodeFactory(application=application)
        answers = crowd.redeem(code.raw)
        assert Counter(answer.status_code for answer in answers) == {200: 1, 400: CALLERS - 1}
        for answer in answers:
            if answer.status_code == 400:
                error_of(answer, 400, "invalid_grant")
    tokens = AccessToken.objects.filter(application=application.row)
    spent = AuthorizationCode.objects.filter(application=application.row, redeemed_at__isnull=False)
    assert tokens.count() == spent.count() == codes
    assert {bytes(row.digest) for row in tokens} == {bytes(row.token_digest or b"") for row in spent}
    assert '"level":"error"' not in server.log


@contract("D13.race", "D13.no-row")
def test_ten_threads_and_four_processes_redeem_a_code_once(postgresql: None, redis_server: Any, launch: Launch) -> None:
    check(launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="4"), codes=50)


@contract("D13.race", "D13.no-row")
def test_ten_callers_of_one_process_redeem_a_code_once(launch: Launch) -> None:
    check(launch(), codes=15)


@contract("D13.race", "D13.replay")
def test_of_two_calls_at_once_the_first_ones_token_ends_exactly_when_the_second_is_told_so(launch: Launch) -> None:
    """A call that began before the code was spent has lost a race; one that began afterwards is a replay."""
    server = launch()
    crowd = Crowd(server, ApplicationFactory(), callers=2)
    for _ in range(30):
        answers = crowd.redeem(CodeFactory(application=crowd.application).raw)
        won, lost = sorted(answers, key=lambda answer: answer.status_code)
        headers = {"Authorization": f"Bearer {won.json()['access_token']}"}
        status = requests.get(f"{server.base_url}/oauth/userinfo", headers=headers, timeout=10).status_code
        told = error_of(lost, 400, "invalid_grant")
        assert {200: "at the same moment", 401: "has been revoked"}[status] in told
