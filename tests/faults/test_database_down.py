"""PostgreSQL is killed, read-only or full: 503 with Retry-After, and all goes on afterwards. D19.

One that is silent: `make drill`.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.test.utils import CaptureQueriesContext

from config.infrastructure.sql import fetch_all
from config.infrastructure.sql.base import STATEMENT_TIMEOUT_SECONDS
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis
from tests.driver import OAuthDriver, Page, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.grants import redeem
from tests.server import ROOT, Server, environment, wait_until

# The whole server -----------------------------------------------------------------------------------------------------


class Visitor:
    """Somebody who is signed in, and an application with a code and a token of theirs."""

    def __init__(self, server: Server) -> None:
        self.person, self.application = PersonFactory(), ApplicationFactory()
        self.driver = OAuthDriver(server.base_url, server.auth_url).signed_in(self.person.email, PASSWORD)
        self.token = TokenFactory(user=self.person).raw
        self.code = CodeFactory(application=self.application, user=self.person).raw

    def check_excuses(self) -> None:
        """503 with Retry-After, as JSON for programs and as a page for browsers, which may choose its language."""
        away_of(self.driver.userinfo(self.token))
        away_of(self.driver.exchange(self.application, self.code))
        page = self.driver.get(self.driver.authorization_url(self.application))
        away_page_of(page)
        form = next(form for form in Page(page).forms if form.action.endswith("/accounts/language"))
        chosen = self.driver.submit(form, button=("language", "de"))
        assert chosen.status_code == 503
        assert "Gleich wieder da" in chosen.text
        self.driver.submit(form, button=("language", "en"))

    def check_that_all_goes_on(self) -> None:
        assert self.driver.userinfo(self.token).status_code == 200
        assert self.driver.exchange(self.application, self.code).status_code == 200
        assert Page(self.driver.open(self.driver.authorization_url(self.application))).consent
        wait_until(lambda: self.driver.call("GET", "/health/ready").status_code == 200)  # a thread tries to write


@contract("D19/temporarily_unavailable", "D19.page")
def test_without_the_database_or_a_free_connection_503_is_said_and_afterwards_all_goes_on(
    own_postgresql: Cluster, redis_server: OwnRedis, launch: Launch
) -> None:
    server = launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="2")
    visitor, another = Visitor(server), Visitor(server)
    own_postgresql.kill()
    for _ in range(2):
        visitor.check_excuses()
    assert visitor.driver.call("GET", "/health/live").status_code == 200
    assert visitor.driver.call("GET", "/health/ready").status_code == 503
    own_postgresql.start()
    visitor.check_that_all_goes_on()

    own_postgresql.permit_writing(False)
    wait_until(lambda: visitor.driver.call("GET", "/health/ready").status_code == 503)
    assert visitor.driver.call("GET", "/health/live").status_code == 200
    own_postgresql.permit_writing(True)
    wait_until(lambda: visitor.driver.call("GET", "/health/ready").status_code == 200)

    own_postgresql.leave_sessions(0)
    another.check_excuses()
    own_postgresql.leave_sessions(-1)
    another.check_that_all_goes_on()


# One connection -------------------------------------------------------------------------------------------------------

READ_ONLY = {"postgresql": "SET default_transaction_read_only = on", "sqlite": "PRAGMA query_only = on"}


@contract("D19/temporarily_unavailable")
def test_a_connection_that_may_only_read_is_given_up_for_another(
    application: Registered, caplog: pytest.LogCaptureFixture
) -> None:
    """For example to a PostgreSQL that became a standby, or to an SQLite file that was read-only when it was opened."""
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
    """A connection between two requests, and the process id of its PostgreSQL backend."""
    own = connection.copy()
    own.ensure_connection()
    with own.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        process_id = cursor.fetchone()[0]
    yield own, process_id
    own.close()


def test_a_quiet_connection_is_usable_without_a_statement(idle):
    """Also one to which the server has sent a notice."""
    own, _ = idle
    with own.cursor() as cursor:
        cursor.execute("LISTEN news")
    with CaptureQueriesContext(own) as captured:
        assert own.is_usable()
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT pg_notify('news', 'something')")
        assert own.is_usable()
    assert captured.captured_queries == []


def test_a_connection_that_the_server_or_we_ended_is_not_usable(idle):
    own, process_id = idle
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [process_id])
    assert not own.is_usable()
    own.close()
    own.ensure_connection()
    own.connection.close()
    assert not own.is_usable()


def test_nobody_waits_for_long_for_a_row_that_somebody_holds(idle, committed):
    code = CodeFactory()
    own, _ = idle
    with transaction.atomic(), connections["default"].cursor() as holder:
        holder.execute("SELECT 1 FROM oauth_bridge_authorizationcode WHERE id = %s FOR UPDATE", [code.row.pk])
        with pytest.raises(OperationalError, match="lock timeout"), own.cursor() as cursor:
            cursor.execute("UPDATE oauth_bridge_authorizationcode SET scope = scope WHERE id = %s", [code.row.pk])


SHOW = 'print(connection.cursor().execute("SHOW statement_timeout").fetchone()[0])'
WORKER = f"""
import django, gc
django.setup()
from unittest.mock import Mock
from django.db import connection
import config.gunicorn, config.wsgi
{SHOW}
connection.close()
config.gunicorn.post_worker_init(Mock(wsgi=config.wsgi.application))
{SHOW}
print(gc.get_freeze_count())
"""


def test_a_statement_of_a_worker_is_cut_off_and_one_of_a_command_is_not(postgresql, tmp_path):
    """And a full garbage collection of a worker skips what exists when it is ready."""
    env = {**environment(tmp_path), "DJANGO_SETTINGS_MODULE": "config.settings"}
    command = [sys.executable, "-c", WORKER]
    shown = subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout
    of_a_command, of_a_worker, frozen = shown.split()
    assert (of_a_command, of_a_worker) == ("0", f"{STATEMENT_TIMEOUT_SECONDS}s")
    assert int(frozen) > 50_000


def test_no_frequent_statement_runs_in_a_transaction_that_will_be_rolled_back(postgresql):
    """Otherwise a token could be handed out whose row is not stored."""
    fetch_all("SELECT 1")  # its cursor is kept from now on
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(TransactionManagementError):
            fetch_all("SELECT 1")
    assert fetch_all("SELECT 1") == [(1,)]
