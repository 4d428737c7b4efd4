"""`manage.py check-deployment` of databases, Redis, mail servers that are right, and broken in each way."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from config import environment as env
from config.deployment import database, mails, redis_state
from config.deployment.findings import bounded
from config.infrastructure.postgresql import timeouts
from tests.checks import by_name
from tests.databases import Cluster, in_use
from tests.own_redis import OwnRedis
from tests.smtp import DRIPS, HANGS, MailServer


def test_redis_in_each_state(redis_server: OwnRedis, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url

    def statuses(*command: str) -> dict[str, str]:
        if command:
            subprocess.run(["redis-cli", "-p", str(redis_server.port), *command], check=True, capture_output=True)
        return {name: each.status for name, each in by_name(bounded("redis", redis_state.findings, 2)).items()}

    assert statuses() == {"redis": "ok", "redis_memory": "ok", "clock_redis": "ok"}
    statuses("config", "set", "maxmemory", "100mb")
    assert statuses("config", "set", "maxmemory-policy", "allkeys-lru")["redis_memory"] == "warning"
    assert statuses("config", "set", "maxmemory-policy", "noeviction")["redis_memory"] == "ok"
    assert statuses("config", "set", "maxmemory", "1") == {"redis": "failed"}
    assert statuses("config", "set", "maxmemory", "0")["redis"] == "ok"
    assert statuses("replicaof", "127.0.0.1", "1") == {"redis": "failed"}
    redis_server.pause()
    assert statuses() == {"redis": "failed"}
    redis_server.go_on()
    redis_server.kill()
    assert statuses() == {"redis": "failed"}
    redis_server.start()


def test_without_redis_there_is_nothing_to_check(settings: Any) -> None:
    settings.REDIS_URL = ""
    assert [each.status for each in redis_state.findings()] == ["skipped"]


def use_mail(settings: Any, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("EMAIL_URL", url)
    for name, value in env.email("EMAIL_URL", Path("/")).items():
        setattr(settings, name, value)


@pytest.mark.parametrize(
    ("url", "mode", "status"),
    [
        ("smtp://127.0.0.1:{port}", "takes", "ok"),
        ("smtp://user:hidden@127.0.0.1:{port}", "takes", "failed"),  # it takes no login
        ("smtp+tls://127.0.0.1:{port}", "takes", "failed"),
        ("smtp+ssl://127.0.0.1:{port}", "takes", "failed"),
        ("smtp://127.0.0.1:{port}", HANGS, "failed"),
        ("smtp://127.0.0.1:{port}", DRIPS, "failed"),
        ("smtp://nowhere.invalid", "takes", "failed"),
        ("filemail:///var/mail", "takes", "failed"),
        ("consolemail://", "takes", "failed"),
    ],
)
def test_mail_servers(
    url: str, mode: str, status: str, mail_server: MailServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_mail(settings, monkeypatch, url.format(port=mail_server.port))
    settings.IS_HTTPS, mail_server.mode = True, mode
    assert by_name(bounded("mail", mails.findings, 2))["mail"].status == status
    assert mail_server.mails == []


def test_a_mail_that_is_asked_for(mail_server: MailServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    use_mail(settings, monkeypatch, mail_server.url)
    mail_server.mode = "refuses"
    assert [each.status for each in mails.findings("nobody@example.com")] == ["ok", "failed"]
    mail_server.close()
    assert [each.status for each in mails.findings("nobody@example.com")] == ["failed", "skipped"]


# PostgreSQL -----------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def time_outs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check limits the statements of its process; the others of this process have no limit again afterwards."""
    monkeypatch.setattr(timeouts, "limit_statements", lambda: None)
    monkeypatch.setitem(timeouts.session_timeouts, "statement_timeout", 10)


def of_database() -> dict[str, str]:
    return {name: each.status for name, each in by_name(database.findings()).items()}


def test_a_postgresql_that_is_right(own_postgresql: Cluster, settings: Any) -> None:
    found = of_database()
    assert found.pop("purge") in ("warning", "ok")
    assert set(found.values()) == {"ok"}
    assert {"database", "database_encoding", "database_time_outs", "database_connections", "clock_database"} < set(
        found
    )
    settings.WEB_CONCURRENCY = 64
    assert of_database()["database_connections"] == "warning"


def test_a_postgresql_that_may_only_be_read_or_forgets_time_outs(own_postgresql: Cluster) -> None:
    own_postgresql.administer("ALTER ROLE service SET default_transaction_read_only = on")
    try:
        with in_use(own_postgresql.url):
            assert of_database()["database"] == "failed"
        with in_use(f"{own_postgresql.url}?options=-c%20lock_timeout=0"):
            assert of_database()["database_time_outs"] == "warning"
    finally:
        own_postgresql.administer("ALTER ROLE service RESET default_transaction_read_only")


def test_a_new_postgresql_in_another_encoding(own_postgresql: Cluster) -> None:
    create = "CREATE DATABASE latin OWNER service ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
    own_postgresql.administer(create)
    with in_use(own_postgresql.url.removesuffix("service") + "latin"):
        found = of_database()
    assert (found["database_encoding"], found["migrations"], found["purge"]) == ("failed", "failed", "skipped")


def test_a_postgresql_that_is_stopped_or_away(own_postgresql: Cluster) -> None:
    connection.close()
    own_postgresql.process.send_signal(signal.SIGSTOP)
    found = of_database()
    own_postgresql.process.send_signal(signal.SIGCONT)
    assert found["database"] == "failed"
    own_postgresql.kill()
    without_database = of_database()
    own_postgresql.start()
    assert without_database == {
        "database": "failed",
        "migrations": "skipped",
        "purge": "skipped",
        "signing_keys": "skipped",
    }


def test_a_pooler_needs_statements_that_are_not_prepared(pooled: str) -> None:
    with in_use(pooled):
        assert of_database()["database_pooler"] == "failed"
    with in_use(f"{pooled}?prepare_threshold=none"):
        found = of_database()
    assert (found["database_pooler"], found["database_connections"]) == ("ok", "skipped")
    assert found["database_time_outs"] == "warning"  # the pooler leaves out `options`
