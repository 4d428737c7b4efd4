"""What `manage.py check-deployment` finds in each state of PostgreSQL and of Redis."""

from __future__ import annotations

import subprocess
from typing import Any

from django.db import connection

from config import deployment
from tests.databases import Cluster, OwnRedis, in_use
from tests.server import free_port


def statuses(check: Any) -> dict[str, str]:
    return {each.name: each.status for each in check()}


def test_redis_in_each_state(redis_server: OwnRedis, settings: Any) -> None:
    settings.REDIS_URL = redis_server.url

    def found(*command: str) -> dict[str, str]:
        if command:
            subprocess.run(["redis-cli", "-p", str(redis_server.port), *command], check=True, capture_output=True)
        return statuses(deployment.redis)

    assert found() == {"redis": "ok", "clock_redis": "ok"}
    assert found("config", "set", "maxmemory-policy", "allkeys-lru")["redis"] == "warning"
    assert found("config", "set", "maxmemory-policy", "noeviction")["redis"] == "ok"
    assert found("config", "set", "maxmemory", "1") == {"redis": "failed"}
    assert found("config", "set", "maxmemory", "0")["redis"] == "ok"
    assert found("replicaof", "127.0.0.1", "1") == {"redis": "failed"}
    redis_server.pause()
    assert found() == {"redis": "failed"}
    redis_server.go_on()
    redis_server.kill()
    assert found() == {"redis": "failed"}
    settings.REDIS_URL = ""
    assert found() == {"redis": "skipped"}


def test_postgresql_in_each_state(own_postgresql: Cluster, manage: Any) -> None:
    found = statuses(deployment.database)
    assert found.pop("purge") in ("warning", "ok")
    assert found == dict.fromkeys(("database", "database_encoding", "migrations", "clock_database"), "ok")

    own_postgresql.administer("CREATE DATABASE latin OWNER service ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    latin = own_postgresql.url.removesuffix("service") + "latin"
    with in_use(latin):
        found = statuses(deployment.database)
    assert (found["database_encoding"], found["migrations"]) == ("failed", "failed")
    refused = manage("migrate", DATABASE_URL=latin)
    assert (refused.returncode, "config.E009" in refused.stderr, "Traceback" in refused.stderr) == (1, True, False)

    with in_use(f"{own_postgresql.url}?options=-c%20default_transaction_read_only=on"):
        assert statuses(deployment.database)["database"] == "failed"
    connection.close()
    own_postgresql.suspend()
    assert statuses(deployment.database) == {"database": "failed"}
    own_postgresql.resume()
    with in_use(f"postgres://service:hidden@127.0.0.1:{free_port()}/service"):
        [away] = deployment.database()
    assert (away.name, away.status, "hidden" in away.message) == ("database", "failed", False)


def test_a_role_that_may_create_no_table_is_told_what_to_do(own_postgresql: Cluster, manage: Any) -> None:
    own_postgresql.administer("CREATE DATABASE strange")
    own_postgresql.administer("REVOKE CREATE ON SCHEMA public FROM PUBLIC", "strange")
    done = manage("migrate", DATABASE_URL=own_postgresql.url.removesuffix("service") + "strange")
    assert done.returncode == 1
    assert done.stderr.startswith("The database can't be used: permission denied for schema public. Let the role of")
    assert done.stderr.count("\n") == 1
