"""Client secrets rotate under load: no exchange fails meanwhile, and a revoked secret is rejected everywhere.

Races of rotations: test_configuration_races.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from oauth_bridge.models import AccessToken
from tests.conftest import run_here
from tests.contract_coverage import contract
from tests.databases import OwnRedis
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.faults.load import Redemptions
from tests.server import Server, serve


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
    """Neither those with the old secret nor those with the new one."""
    application = ApplicationFactory()
    made: list[str] = []
    redemptions = Redemptions(server, application, 300)
    redemptions.run_during(lambda: made.append(rotate(application, "--overlap", "1h")["client_secret"]))
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
    new = rotate(application, "--now")["client_secret"]
    for instance in instances:
        error_of(exchange(instance, application.client_secret), 401, "invalid_client")
        assert exchange(instance, new).status_code == 200
    assert server.logged("expired client secret used")
