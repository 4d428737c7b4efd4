"""A closed database connection is replaced before a request fails, without a query to test it each time."""

from __future__ import annotations

import subprocess
import sys

import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from config.infrastructure.postgresql.timeouts import STATEMENT_TIMEOUT_SECONDS
from config.infrastructure.sql import fetch_all
from tests.factories import CodeFactory
from tests.server import ROOT, environment


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


WORKER = """
import django, gc
django.setup()
from unittest.mock import Mock
from django.db import connection
import config.gunicorn, config.wsgi

def shown():
    print(connection.cursor().execute("SHOW statement_timeout").fetchone()[0])

shown()
connection.close()
config.gunicorn.post_worker_init(Mock(wsgi=config.wsgi.application))
shown()
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
