"""An operator upgrades from the last release, as docs/operations.md says, while people and applications use it."""

from __future__ import annotations

import json
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests import releases
from tests.conftest import Launch
from tests.databases import Cluster
from tests.server import environment, free_port, socket_unit
from tests.smtp import BUSY, TAKES, MailServer
from tests.upgrading import HOLDINGS, SEED, Client, Load, Site

DATABASE = "upgraded"
START_SECONDS = 120  # beside the load


@pytest.fixture
def port() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", free_port()), backlog=128) as listener:
        yield listener


@pytest.fixture
def database(own_postgresql: Cluster) -> str:
    own_postgresql.administer(f"CREATE DATABASE {DATABASE} OWNER service")
    return own_postgresql.url.removesuffix("service") + DATABASE


def run(root: Path, variables: dict[str, str], *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command, cwd=root, env=variables, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send_what_waits(database: str, mail_server: MailServer) -> None:
    mail_server.mode = TAKES
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE accounts_outgoingmail SET due_at = now()")


def test_an_upgrade_fails_no_request_and_takes_nothing_from_anybody(
    database: str, launch: Launch, redis_server: Any, mail_server: MailServer, port: socket.socket, tmp_path: Path
) -> None:
    release = releases.last()
    old, new, current = (tmp_path / name for name in ("old", "new", "current"))
    releases.unpack(release, old)
    current.symlink_to(old)
    mail_server.mode = BUSY
    changes = {
        "DATABASE_URL": database,
        "REDIS_URL": redis_server.url,
        "EMAIL_URL": mail_server.url,
        "SECRET_KEY": secrets.token_urlsafe(50),
        "MEDIA_ROOT": str(tmp_path / "media"),
        "SIGN_UP": "open",
        "STAFF_SECOND_FACTOR": "off",
    }
    variables = environment(tmp_path, **changes)
    service: dict[str, Any] = {"root": current, "start_seconds": START_SECONDS, **socket_unit(port), **changes}

    run(old, variables, "migrate", "--verbosity=0")
    made = json.loads(run(old, variables, "shell", "--verbosity=0", stdin=SEED))
    clients = {name: Client(each["client_id"], each["client_secret"]) for name, each in made.items()}
    server = launch(**service)
    site = Site(server.base_url, mail_server, **clients)
    held = {holding.__name__: holding(site) for holding in HOLDINGS}
    for each in held.values():
        next(each)
    with Load(server, site) as load:
        load.go_on("before")
        releases.copy_checkout(new)
        load.phase = "migrate"
        run(new, variables, "migrate")
        load.go_on("migrated")
        load.phase = "restart"
        current.unlink()
        current.symlink_to(new)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(40) == 0
        launch(**service)
        load.go_on("restarted")
    send_what_waits(database, mail_server)
    failed = dict(load.failed)
    for name, each in held.items():
        try:
            next(each, None)
        except Exception as error:  # told with all others
            failed[name] = f"{type(error).__name__}: {error}"
    assert failed.keys() == release.fails.keys(), failed
