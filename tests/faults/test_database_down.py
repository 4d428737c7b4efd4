"""PostgreSQL is killed or full: 503 with Retry-After, and all goes on afterwards. D19. Silent: `make drill`."""

from __future__ import annotations

import subprocess
import sys

import pytest
import requests
from django.db import OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.test.utils import CaptureQueriesContext

from config.infrastructure.sql import fetch_all
from config.infrastructure.sql.base import STATEMENT_TIMEOUT_SECONDS
from oauth_bridge.models import AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.driver import OAuthDriver, Page, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.grants import redeem
from tests.server import ROOT, environment, eventually


@contract("D19/temporarily_unavailable", "D19.page")
def test_without_the_database_or_a_free_connection_503_is_said_and_afterwards_all_goes_on(
    own_postgresql: Cluster, redis_server: OwnRedis, launch: Launch
) -> None:
    server, application = launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="2"), ApplicationFactory()

    def ready() -> int:
        return requests.get(f"{server.base_url}/health/ready", timeout=60).status_code

    for take_away, give_back in (
        (own_postgresql.kill, own_postgresql.start),
        (lambda: own_postgresql.leave_sessions(0), lambda: own_postgresql.leave_sessions(-1)),
    ):
        person = PersonFactory()
        driver = OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, PASSWORD)
        token = TokenFactory(user=person).raw
        code = CodeFactory(application=application, user=person).raw
        take_away()
        away_of(driver.userinfo(token))
        away_of(driver.exchange(application, code))
        away_page_of(driver.get(driver.authorization_url(application)))
        assert driver.call("GET", "/health/live").status_code == 200
        eventually(503, ready)

        give_back()
        connection.close()  # it has ended, too
        assert driver.userinfo(token).status_code == 200
        assert driver.exchange(application, code).status_code == 200
        assert Page(driver.open(driver.authorization_url(application))).consent
        eventually(200, ready)  # a thread tries to write


READ_ONLY = {"postgresql": "SET default_transaction_read_only = on", "sqlite": "PRAGMA query_only = on"}


@contract("D19/temporarily_unavailable")
def test_a_connection_that_may_only_read_is_given_up(application: Registered, caplog: pytest.LogCaptureFixture) -> None:
    code, browser = CodeFactory(application=application), Client(raise_request_exception=False)
    with connection.cursor() as cursor:
        cursor.execute(READ_ONLY[connection.vendor])
    answers = [redeem(application, code, browser).status_code for _ in range(2)]
    connection.close()  # also after a failure, because other tests write
    assert answers == [503, 200]
    [logged] = [record for record in caplog.records if record.message == "database away"]
    assert logged.code in ("25006", "SQLITE_READONLY")  # type: ignore[attr-defined]


@pytest.fixture
def idle(postgresql):
    own = connection.copy()
    own.ensure_connection()
    yield own
    own.close()


def test_a_connection_is_usable_without_a_statement_until_the_server_ends_it(idle):
    process_id = idle.connection.info.backend_pid
    with CaptureQueriesContext(idle) as captured, connections["default"].cursor() as cursor:
        assert idle.is_usable()
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [process_id])
        assert not idle.is_usable()
    assert captured.captured_queries == []


def test_nobody_waits_for_long_for_a_row_that_somebody_holds(idle, committed):
    code = CodeFactory()
    with transaction.atomic():
        AuthorizationCode.objects.select_for_update().get(pk=code.row.pk)
        with pytest.raises(OperationalError, match="lock timeout"), idle.cursor() as cursor:
            cursor.execute("UPDATE oauth_bridge_authorizationcode SET scope = scope WHERE id = %s", [code.row.pk])


WORKER = """
import django
django.setup()
from django.db import connection
import config.gunicorn
for _ in range(2):
    print(connection.cursor().execute("SHOW statement_timeout").fetchone()[0])
    connection.close()
    config.gunicorn.post_worker_init(None)
"""


def test_a_statement_of_a_worker_is_cut_off_and_one_of_a_command_is_not(postgresql, tmp_path):
    env = {**environment(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    shown = subprocess.check_output([sys.executable, "-c", WORKER], cwd=ROOT, env=env, text=True)
    assert shown.split() == ["0", f"{STATEMENT_TIMEOUT_SECONDS}s"]


def test_no_frequent_statement_runs_in_a_transaction_that_will_be_rolled_back(postgresql):
    fetch_all("SELECT 1")  # its cursor is kept from now on
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            fetch_all("SELECT 1")
    assert fetch_all("SELECT 1") == [(1,)]
