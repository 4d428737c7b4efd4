"""PostgreSQL's processes are stopped (SIGSTOP): connections stay open and nothing answers. D19; issue 20, 7."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.load import Answer, Caller
from tests.server import Server

# A statement or a connection is waited for 3 and 2 seconds. The rest is for a busy machine.
LONGEST_ANSWER_SECONDS = 3 + 4
STOPPED_SECONDS = 8
BACK_SECONDS = 10
Ask = Callable[[Caller], Answer]


class Callers:
    """Each sends its request again and again. `answers` holds the start, the answer and the seconds of each request."""

    def __init__(self, server: Server, asks: list[Ask]) -> None:
        self.server = server
        self.is_over = False
        self.answers: dict[int, list[tuple[float, Answer, float]]] = {number: [] for number in range(len(asks))}
        self.threads = [threading.Thread(target=self._call, args=each) for each in enumerate(asks)]

    def _call(self, number: int, ask: Ask) -> None:
        caller = Caller(self.server)
        while not self.is_over:
            began = time.monotonic()
            answer = ask(caller)
            self.answers[number].append((began, answer, time.monotonic() - began))
            time.sleep(0.05)

    @contextmanager
    def calling(self) -> Iterator[None]:
        for thread in self.threads:
            thread.start()
        try:
            yield
        finally:
            self.is_over = True
            for thread in self.threads:
                thread.join()


def is_back(server: Server, token: str) -> bool:
    caller, end = Caller(server), time.monotonic() + BACK_SECONDS
    while time.monotonic() < end:
        if caller.userinfo(token).status == 200:
            return True
        time.sleep(0.1)
    return False


def check_a_stop(server: Server, cluster: Cluster) -> None:
    alice, application = PersonFactory(), ApplicationFactory()
    token, code = TokenFactory(user=alice).raw, CodeFactory(application=application).raw
    authorize = f"/oauth/authorize?response_type=code&client_id={application.client_id}&redirect_uri=x"
    asks: list[Ask] = [
        lambda caller: caller.userinfo(token),
        lambda caller: caller.userinfo(token),
        lambda caller: caller.exchange(application, code),
        lambda caller: caller.call("GET", authorize),
        lambda caller: caller.call("GET", "/health/live"),
    ]
    warm = Caller(server)
    for _ in range(4):
        assert warm.userinfo(token).status == 200
    callers = Callers(server, asks)
    cluster.suspend()
    try:
        with callers.calling():
            time.sleep(STOPPED_SECONDS)
    finally:
        cluster.resume()
    assert is_back(server, token)
    assert Caller(server).exchange(application, code).status in (200, 400)  # an exchange without an answer may be done
    *stopped, live = callers.answers.values()
    for answers in stopped:
        assert {answer.status for _, answer, _ in answers} == {503}
        assert all(int(answer.headers["Retry-After"]) >= 1 for _, answer, _ in answers)
        assert max(seconds for _, _, seconds in answers) < LONGEST_ANSWER_SECONDS
    assert {answer.status for _, answer, _ in live} == {200}
    assert sorted(seconds for _, _, seconds in live)[len(live) // 2] < 0.1


@contract("D19/temporarily_unavailable")
def test_a_database_that_is_stopped_is_503_within_seconds_and_the_service_is_alive_and_comes_back(
    own_postgresql: Cluster, launch: Launch
) -> None:
    check_a_stop(launch(start_seconds=120), own_postgresql)


@contract("D19/temporarily_unavailable")
def test_so_it_is_behind_a_pooler(own_postgresql: Cluster, pooled: str, launch: Launch) -> None:
    check_a_stop(launch(DATABASE_URL=f"{pooled}?prepare_threshold=none", start_seconds=120), own_postgresql)
