"""Client secrets rotate under load: no exchange fails meanwhile, and a revoked secret is rejected everywhere."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import requests
from django.db import connection, transaction

from oauth_bridge.models import AccessToken, ApplicationSecret
from oauth_bridge.protocol import token_exchange
from oauth_bridge.storage import client_secrets, secret_rotation
from tests.conftest import Launch, run_here
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, digest_of
from tests.load import Caller, codes_for
from tests.server import Server

SECRETS = ApplicationSecret._meta.db_table
CALLERS = 6
EXCHANGES_AFTER = 60


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
            assert self.moved.wait_for(lambda: self.answers.total() >= enough, timeout=60)

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


def check(server: Server, *, rotations: int) -> None:
    application = ApplicationFactory()
    deployment = Deployment(server, application)
    with deployment.running():
        deployment.wait_for(CALLERS)
        for rotation in range(rotations):
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


@contract("O.application.rotate-secret")
def test_no_exchange_of_four_processes_fails_while_secrets_rotate(
    postgresql: None, redis_server: Any, launch: Launch
) -> None:
    check(launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="4"), rotations=5)


@contract("O.application.rotate-secret")
def test_no_exchange_of_one_process_fails_while_secrets_rotate(launch: Launch) -> None:
    check(launch(), rotations=2)


def check_now(server: Server) -> None:
    """Use many connections, to reach every worker; each worker accepted the old secret a moment before."""
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


@contract("O.application.rotate-now")
def test_a_leaked_secret_works_in_none_of_four_processes_from_the_next_request_on(
    postgresql: None, redis_server: Any, launch: Launch
) -> None:
    check_now(launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="4"))


@contract("O.application.rotate-now")
def test_a_leaked_secret_works_nowhere_from_the_next_request_on(launch: Launch) -> None:
    check_now(launch())


@contract("O.application.rotate-now")
def test_of_two_leaks_at_the_same_moment_one_secret_is_left(committed: None) -> None:
    """A rotation that missed the secret of a concurrent one would leave that secret valid for ever."""
    application = ApplicationFactory()
    both = threading.Barrier(2)

    def held(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        result = execute(sql, *more)
        if sql.startswith("SELECT") and SECRETS in sql:
            with suppress(threading.BrokenBarrierError):  # rotations that wait for each other never meet
                both.wait(1)
        return result

    def rotate_here(_: int) -> str:
        try:
            with connection.execute_wrapper(held):
                return secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(rotate_here, range(2)))
    working = [bytes(row.digest) for row in application.row.secrets.all() if row.works]
    assert len(working) == 1
    assert working[0] in [digest_of(secret) for secret in made]
    assert application.row.secrets.count() == 3


@contract("O.application.secrets")
def test_ten_uses_at_the_same_moment_are_noted_by_one_write(committed: None) -> None:
    application = ApplicationFactory()
    barrier, written = threading.Barrier(10), []

    def counted(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        if "SET last_used_at" not in sql:
            found = execute(sql, params, many, context)
            barrier.wait(30)  # all read the row before any of them writes it
            return found
        result = execute(sql, params, many, context)
        written.append(context["cursor"].rowcount)
        return result

    def use(_: int) -> client_secrets.Client:
        form = {"client_id": application.client_id, "client_secret": application.client_secret}
        try:
            with connection.execute_wrapper(counted):
                return token_exchange.authenticated_client(form, "192.0.2.1")
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        assert {client.pk for client in pool.map(use, range(10))} == {application.row.pk}
    assert sorted(written) == [0] * 9 + [1]
    assert application.row.secrets.get().last_used_at is not None


@contract("O.application.secrets")
def test_a_rotation_that_is_stuck_in_the_middle_keeps_no_exchange_waiting(postgresql: None, launch: Launch) -> None:
    """As when its machine died: the row of the old secret stays locked, and its last use is due to be stored."""
    application = ApplicationFactory()
    driver = OAuthDriver(launch().base_url)
    codes = [CodeFactory(application=application).raw for _ in range(2)]
    with transaction.atomic():
        secret_rotation.rotate(application.row)
        assert driver.exchange(application, codes[0]).status_code == 200
        transaction.set_rollback(True)
    assert application.row.secrets.get().last_used_at is None
    assert driver.exchange(application, codes[1]).status_code == 200
    assert application.row.secrets.get().last_used_at is not None
