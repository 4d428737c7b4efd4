"""What docs/ tells an operator to run: backups and their restoration, `check-deployment`."""

from __future__ import annotations

import os
import secrets
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from redis import Redis

from accounts.models import User
from tests import documented
from tests.conftest import Launch
from tests.databases import Cluster, OwnRedis, in_use, migrate
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.server import ROOT, free_port, stop

deployment_checks = import_module("config.management.commands.check-deployment")

# What needs root or systemd does nothing else here: the programs run as this process does.
AROUND = """
systemctl() { :; }
runuser() { shift 3; "$@"; }
install() { command install "${@:3}"; }
"""


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    found = {path: tmp_path / path.rpartition("/")[2] for path in ("/var/lib/sign-in", "/var/backups")}
    for folder in found.values():
        folder.mkdir()
    return found | {"/srv/sign-in": ROOT, "/etc/sign-in.env": tmp_path / "sign-in.env"}


def back_up_and_restore(kind: str, url: str, launch: Launch, folders: dict[str, Path], **programs: str) -> None:
    port, key = free_port(), secrets.token_urlsafe(50)
    variables = {"DATABASE_URL": url, "SECRET_KEY": key, "BASE_URL": f"http://localhost:{port}"}

    def run(*headings: str) -> None:
        folders["/etc/sign-in.env"].write_text("".join(f"{name}='{value}'\n" for name, value in variables.items()))
        commands = "\n".join(block for heading in headings for block in documented.commands(heading, "operations.md"))
        for path, own in (*folders.items(), (".venv/bin/python", sys.executable)):
            commands = commands.replace(path, shlex.quote(str(own)))
        env = {**os.environ, **variables, **programs}
        done = subprocess.run(["bash", "-euc", AROUND + commands], capture_output=True, text=True, env=env, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    person, application = PersonFactory(nickname="before"), ApplicationFactory()
    server = launch(**variables, port=port)
    browser = OAuthDriver(server.base_url)
    token = browser.token(application, person.email, PASSWORD)
    run(f"Back up {kind}")
    User.objects.update(nickname="after")
    connection.close()
    stop(server.process)
    run("Stop the service", f"Restore {kind}", "Start the service")

    launch(**variables, port=port)
    assert browser.get("/accounts/profile").status_code == 302
    assert browser.userinfo(token).status_code == 401
    token = browser.token(application, person.email, PASSWORD)
    assert browser.userinfo(token).json()["nickname"] == "before"


def test_postgresql_is_saved_and_restored(own_postgresql: Cluster, launch: Launch, folders: dict[str, Path]) -> None:
    own_postgresql.administer('CREATE ROLE "sign-in" LOGIN')
    own_postgresql.administer('CREATE DATABASE "sign-in" OWNER "sign-in"')
    url = own_postgresql.url_of("sign-in", "sign-in")
    migrate(url)
    programs = {"PGHOST": "127.0.0.1", "PGPORT": str(own_postgresql.port), "PGUSER": "postgres"}
    path = f"{own_postgresql.programs}:{os.environ['PATH']}"
    with in_use(url):
        back_up_and_restore("PostgreSQL", url, launch, folders, **programs, PATH=path)
    assert own_postgresql.administer("SELECT 1 FROM pg_database WHERE datname = 'sign-in-before'") == [(1,)]


def test_sqlite_is_saved_and_restored(sqlite_template: Path, launch: Launch, folders: dict[str, Path]) -> None:
    path = folders["/var/lib/sign-in"] / "db.sqlite3"
    path.write_bytes(sqlite_template.read_bytes())
    with in_use(f"sqlite:///{path}"):
        back_up_and_restore("SQLite", f"sqlite:///{path}", launch, folders)
    assert (path.parent / "before" / "db.sqlite3").exists()


def statuses(check: Any) -> dict[str, str]:
    return {each.name: each.status for each in check()}


def test_redis_in_each_state(redis_server: OwnRedis, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url
    with Redis(port=redis_server.port) as client:
        assert statuses(deployment_checks.redis) == {"redis": "ok", "clock_redis": "ok"}
        for change, status in (
            (lambda: client.config_set("maxmemory-policy", "allkeys-lru"), "warning"),
            (lambda: client.config_set("maxmemory-policy", "noeviction"), "ok"),
            (lambda: client.config_set("maxmemory", "1"), "failed"),
            (lambda: client.config_set("maxmemory", "0"), "ok"),
            (lambda: client.replicaof("127.0.0.1", "1"), "failed"),
            (redis_server.kill, "failed"),
        ):
            change()
            assert statuses(deployment_checks.redis)["redis"] == status
    settings.REDIS_URL = ""
    assert statuses(deployment_checks.redis) == {"redis": "skipped"}


def test_postgresql_in_each_state(own_postgresql: Cluster, manage: Any) -> None:
    found = statuses(deployment_checks.database)
    assert found.pop("purge") in ("warning", "ok")
    assert found == dict.fromkeys(("database", "database_encoding", "migrations", "clock_database"), "ok")

    own_postgresql.administer("CREATE DATABASE latin OWNER service ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = own_postgresql.url_of("latin")
    with in_use(latin):
        found = statuses(deployment_checks.database)
    assert (found["database_encoding"], found["migrations"]) == ("failed", "failed")
    refused = manage("migrate", DATABASE_URL=latin)
    assert (refused.returncode, "config.E009" in refused.stderr, "Traceback" in refused.stderr) == (1, True, False)

    with in_use(f"{own_postgresql.url}?options=-c%20default_transaction_read_only=on"):
        assert statuses(deployment_checks.database)["database"] == "failed"
    connection.close()
    own_postgresql.suspend()
    assert statuses(deployment_checks.database) == {"database": "failed"}
    own_postgresql.resume()
    with in_use(f"postgres://service:hidden@127.0.0.1:{free_port()}/service"):
        [away] = deployment_checks.database()
    assert (away.name, away.status, "hidden" in away.message) == ("database", "failed", False)


def test_a_role_that_may_create_no_table_is_told_what_to_do(own_postgresql: Cluster, manage: Any) -> None:
    own_postgresql.administer("CREATE DATABASE strange")
    own_postgresql.administer("REVOKE CREATE ON SCHEMA public FROM PUBLIC", "strange")
    done = manage("migrate", DATABASE_URL=own_postgresql.url_of("strange"))
    assert done.returncode == 1
    assert done.stderr.startswith("The database can't be used: permission denied for schema public. Let the role of")
    assert done.stderr.count("\n") == 1
