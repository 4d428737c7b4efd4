"""Secrets and keys are replaced under load, at the same moment, or while another process has loaded them.

No exchange fails meanwhile, and what was revoked is rejected everywhere from the next request on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import jwt
import pytest
import requests
import time_machine
from django.db import connection
from django.utils import timezone

from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import AccessToken, ApplicationSecret, SigningKey
from oauth_bridge.openid import signing_keys
from tests.conftest import run_here
from tests.contract_coverage import contract
from tests.databases import OwnRedis
from tests.driver import OAuthDriver, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, digest_of
from tests.faults.load import Redemptions
from tests.faults.races import at_once
from tests.server import Server, serve


def rotate(application: Registered, *options: str) -> str:
    """The new secret."""
    result = run_here("application", "rotate-secret", application.client_id, *options, "--json")
    assert result.returncode == 0, result.stderr
    return str(json.loads(result.stdout)["client_secret"])


@pytest.fixture(scope="module")
def server(shared_redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One with four processes."""
    with serve(tmp_path_factory.mktemp("four"), REDIS_URL=shared_redis.url, WEB_CONCURRENCY="4") as server:
        yield server


@contract("O.application.rotate-secret")
def test_no_exchange_of_four_processes_fails_while_secrets_rotate(postgresql: None, server: Server) -> None:
    """Neither those with the old secret nor those with the new one."""
    application = ApplicationFactory()
    made: list[str] = []
    redemptions = Redemptions(server, application, 300)
    redemptions.run_during(lambda: made.append(rotate(application, "--overlap", "1h")))
    renewed = Redemptions(server, Registered(application.row, made[0]), 300)
    renewed.run_during(lambda: rotate(application, "--overlap", "1h"))
    for each in (redemptions, renewed):
        assert (each.trouble, each.refused, len(each.redeemed)) == ({}, 0, 300)
    assert AccessToken.objects.filter(application=application.row).count() == 600
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
    new = rotate(application, "--now")
    for instance in instances:
        error_of(exchange(instance, application.client_secret), 401, "invalid_client")
        assert exchange(instance, new).status_code == 200
    assert server.logged("expired client secret used")


def test_a_key_that_ends_in_one_worker_ends_in_the_other(postgresql: None, server: Server) -> None:
    """All workers have loaded the key. Whichever answers next signs with another."""
    application = ApplicationFactory(is_trusted=True)
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(PersonFactory().email, PASSWORD)

    def kid() -> str:
        code = driver.authorize(driver.authorization_url(application, scope="openid"), "", "").parameters["code"]
        header = jwt.get_unverified_header(driver.exchange(application, code).json()["id_token"])
        driver.backend.close()
        return str(header["kid"])

    old = {kid() for _ in range(12)}
    assert len(old) == 1
    signing_keys.revoke(*old)
    assert not old & {kid() for _ in range(12)}


# Races ----------------------------------------------------------------------------------------------------------------


@contract("O.application.rotate-now")
def test_of_two_rotations_at_the_same_moment_one_secret_is_left(committed: None) -> None:
    """A rotation that missed the secret of a concurrent one would leave that secret valid for ever."""
    application, both = ApplicationFactory(), threading.Barrier(2)

    def held(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        result = execute(sql, *more)
        if sql.startswith("SELECT") and ApplicationSecret._meta.db_table in sql:
            with suppress(threading.BrokenBarrierError):  # rotations that wait for each other never meet
                both.wait(1)
        return result

    def rotate() -> str:
        with connection.execute_wrapper(held):
            return secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret

    made = at_once(rotate, rotate)
    working = [bytes(row.digest) for row in application.row.secrets.all() if row.works]
    assert len(working) == 1
    assert working[0] in [digest_of(secret) for secret in made]
    assert application.row.secrets.count() == 3


def test_rotations_of_keys_at_once_leave_one_signer_after_another(postgresql: None) -> None:
    """Ten rotations wait for each other; none deadlocks, and from now on some key always signs."""
    signing_keys.signer("ES256")
    made = at_once(*[partial(signing_keys.rotate, "ES256")] * 10)
    assert len({row.kid for row in made}) == 10
    open_ended = SigningKey.objects.filter(algorithm="ES256", revoked_at=None, signs_until=None)
    assert open_ended.count() == 1
    with time_machine.travel(timezone.now() + signing_keys.PUBLISHED_BEFORE + timedelta(seconds=1), tick=False):
        assert signing_keys.signer("ES256").kid == open_ended.get().kid
