"""Client secrets rotate under load: no exchange fails meanwhile, and a revoked secret is rejected everywhere.

Races of rotations: test_configuration_races.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
import requests
from django.db import connection

from oauth_bridge.models import AccessToken
from tests.conftest import run_here
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.load import Caller, codes_for
from tests.own_redis import OwnRedis
from tests.server import Server, serve

CALLERS = 6
EXCHANGES_AFTER = 30
ROTATIONS = 3


class Deployment:
    """An application with several instances, each with a connection and a configured secret."""

    def __init__(self, server: Server, application: Registered) -> None:
        self.server = server
        self.application = application
        self.secrets = [application.client_secret] * CALLERS
        self.answers: Counter[int] = Counter()
        self.refusals: list[str] = []
        self.is_over = threading.Event()
        self.moved = threading.Condition()
        self.person = PersonFactory()

    @contextmanager
    def running(self) -> Iterator[None]:
        with ThreadPoolExecutor(CALLERS) as pool:
            callers = [pool.submit(self._exchange_on, number) for number in range(CALLERS)]
            try:
                yield
            finally:
                self.is_over.set()
        for caller in callers:
            caller.result()

    def wait_for(self, exchanges: int) -> None:
        """Wait until so many more exchanges succeeded."""
        with self.moved:
            enough = self.answers.total() + exchanges
            assert self.moved.wait_for(lambda: self.answers.total() >= enough, timeout=120)

    def _codes(self) -> Iterator[str]:
        """Codes without end, stored by the hundred."""
        while True:
            yield from codes_for(self.application, 100, self.person)

    def _exchange_on(self, number: int) -> None:
        caller = Caller(self.server)
        try:
            for code in self._codes():
                if self.is_over.is_set():
                    return
                answer = caller.exchange(Registered(self.application.row, self.secrets[number]), code)
                with self.moved:
                    self.answers[answer.status] += 1
                    if answer.status != 200:
                        self.refusals.append(answer.body.decode())
                    self.moved.notify_all()
        finally:
            caller.hang_up()
            connection.close()


def rotate(application: Registered, *options: str) -> dict[str, Any]:
    result = run_here("application", "rotate-secret", application.client_id, *options, "--json")
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


@pytest.fixture(scope="module")
def server(shared_redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with four processes."""
    with serve(tmp_path_factory.mktemp("four"), REDIS_URL=shared_redis.url, WEB_CONCURRENCY="4") as server:
        yield server


@contract("O.application.rotate-secret")
def test_no_exchange_of_four_processes_fails_while_secrets_rotate(postgresql: None, server: Server) -> None:
    application = ApplicationFactory()
    deployment = Deployment(server, application)
    with deployment.running():
        deployment.wait_for(CALLERS)
        for rotation in range(ROTATIONS):
            new = rotate(application, "--overlap", "1h")["client_secret"]
            # Late: after all instances have used the old secret for a while. One instance never gets the new one.
            deployment.wait_for(EXCHANGES_AFTER)
            for number in range(1, CALLERS):
                if (rotation + number) % 2:
                    deployment.secrets[number] = new
            deployment.wait_for(EXCHANGES_AFTER)
    assert deployment.refusals == []
    assert set(deployment.answers) == {200}
    assert AccessToken.objects.filter(application=application.row).count() == deployment.answers.total()
    assert len(set(deployment.secrets)) > 2, "several secrets were in use at once"
    assert '"level":"error"' not in server.log


@contract("O.application.rotate-now")
def test_a_leaked_secret_works_in_none_of_four_processes_from_the_next_request_on(
    postgresql: None, server: Server
) -> None:
    """Many connections reach every worker; each worker accepted the old secret a moment before."""
    application, person = ApplicationFactory(), PersonFactory()
    instances = [OAuthDriver(server.base_url) for _ in range(24)]

    def exchange(instance: OAuthDriver, secret: str) -> requests.Response:
        code = CodeFactory(application=application, user=person).raw
        return instance.exchange(Registered(application.row, secret), code)

    for instance in instances:
        assert exchange(instance, application.client_secret).status_code == 200
    new = rotate(application, "--now")["client_secret"]
    for instance in instances:
        error_of(exchange(instance, application.client_secret), 401, "invalid_client")
        assert exchange(instance, new).status_code == 200
    assert server.logged("expired client secret used")
