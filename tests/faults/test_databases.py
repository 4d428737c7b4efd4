"""PostgreSQL is killed, full, promoted or behind a pooler; a full disk; the move from SQLite. Silent: `make drill`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests
from django.core.management import call_command
from django.db import OperationalError, connection, connections, transaction
from django.db.transaction import TransactionManagementError
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import AuditEntry, StoredPicture
from config.infrastructure.sql import fetch_all
from config.infrastructure.sql.base import STATEMENT_TIMEOUT_SECONDS
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import Cluster, OwnRedis, in_use, migrate, pooler
from tests.driver import OAuthDriver, Page, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, TokenFactory
from tests.faults.load import Redemptions
from tests.grants import redeem
from tests.server import ROOT, environment, eventually, wait_until


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
def test_a_connection_that_may_only_read_is_given_up(application: Any, caplog: pytest.LogCaptureFixture) -> None:
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


def test_the_service_goes_on_with_a_standby_once_it_is_promoted(own_postgresql: Cluster, launch: Launch) -> None:
    with tempfile.TemporaryDirectory(prefix="standby-") as folder, ExitStack() as stack:
        standby = Cluster(own_postgresql.programs, Path(folder), own_postgresql)
        stack.callback(standby.kill)
        hosts = f"127.0.0.1:{own_postgresql.port},127.0.0.1:{standby.port}"
        server = launch(DATABASE_URL=f"postgres://service@{hosts}/service?target_session_attrs=read-write")
        person, application = PersonFactory(), ApplicationFactory()
        browser = OAuthDriver(server.base_url)
        code = browser.authorize(browser.authorization_url(application), person.email, PASSWORD).parameters["code"]
        token = browser.exchange(application, code).json()["access_token"]
        [(written,)] = own_postgresql.administer("SELECT pg_current_wal_lsn()")
        has_it = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        wait_until(lambda: standby.administer(has_it) == [(True,)])

        own_postgresql.kill()
        assert browser.userinfo(token).status_code == 503
        standby.run("pg_ctl promote")
        wait_until(lambda: browser.userinfo(token).status_code == 200)
        assert browser.get("/accounts/profile").status_code == 200
        assert browser.exchange(application, code).status_code == 400


def test_a_pooler_without_prepared_statements_is_supported(postgresql: None, redis_server: Any, launch: Launch) -> None:
    with pooler() as url:
        server = launch(DATABASE_URL=f"{url}?prepare_threshold=none", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
        OAuthDriver(server.base_url).signed_in(PersonFactory().email, PASSWORD)
        redemptions = Redemptions(server, ApplicationFactory())
        redemptions.run_during(lambda: None)
        redemptions.check_that_none_failed()


@contract("D19/temporarily_unavailable", "D19.page")
def test_a_full_disk_takes_no_write_and_then_all_goes_on(sqlite_template: Path, tmp_path: Path, launch: Launch) -> None:
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", tmp_path]
    if (mounted := subprocess.run(command, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.strip()}")
    with ExitStack() as stack:
        stack.callback(subprocess.run, ["umount", "--lazy", tmp_path], check=True)
        stack.enter_context(in_use(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"))
        alice, application = PersonFactory(), ApplicationFactory(is_trusted=True)
        driver = OAuthDriver(launch(REDIS_URL="").base_url).signed_in(alice.email, PASSWORD)
        code, token = CodeFactory(application=application, user=alice).raw, TokenFactory(user=alice).raw
        with (tmp_path / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        away_of(driver.exchange(application, code))
        away_page_of(driver.get(driver.authorization_url(application)))
        assert driver.userinfo(token).status_code == 200

        (tmp_path / "filler").unlink()
        redirect = driver.get(driver.authorization_url(application))
        for each in (code, driver.callback(redirect).parameters["code"]):
            assert driver.exchange(application, each).status_code == 200
        assert AccessToken.objects.filter(application=application.row).count() == 2


def dumped(path: Path) -> list[str]:
    call_command("dumpdata", use_base_manager=True, format="jsonl", output=str(path), verbosity=0)
    return sorted(path.read_text().replace(".000Z", "Z").splitlines())  # Django may omit milliseconds


@pytest.mark.django_db(transaction=True)
def test_the_documented_commands_copy_all_and_new_rows_get_new_numbers(own_postgresql: Cluster, tmp_path: Path) -> None:
    name = f"moved_{uuid4().hex}"
    own_postgresql.administer(f"CREATE DATABASE {name} OWNER service")
    target, source = own_postgresql.url_of(name), f"sqlite:///{tmp_path / 'service.sqlite3'}"
    migrate(source)
    with in_use(source):
        alice, application = PersonFactory(), ApplicationFactory()
        alice.groups.create(name="Editors")
        for factory in (CodeFactory, ConsentFactory):
            factory(user=alice, application=application.row)
        token = TokenFactory(user=alice, application=application.row)
        AuditEntry.objects.create(action="registered", kind="application", changes={"name": ["", "ä"]})
        StoredPicture.objects.create(name="avatars/a.png", content=b"\x89PNG of a test")
        before = dumped(tmp_path / "everything.jsonl")
    migrate(target)
    with in_use(target):
        connection.cursor().execute("TRUNCATE django_content_type CASCADE")
        call_command("loaddata", tmp_path / "everything.jsonl", verbosity=0)
        assert dumped(tmp_path / "again.jsonl") == before
        claims = Client().get("/oauth/userinfo", headers={"authorization": f"Bearer {token.raw}"}).json()
        assert claims["sub"] == str(alice.pk)
        TokenFactory(user=alice, application=ApplicationFactory().row)
        AuditEntry.objects.create(action="changed", kind="application")
