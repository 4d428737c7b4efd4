"""A PostgreSQL, a PgBouncer and a Redis that a test may stop or kill; a way to use another database in a block."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections
from django.db.utils import load_backend
from redis import Redis
from redis.exceptions import ConnectionError

from config import environment
from tests.server import children_of, free_port, program, started, wait_until


@contextmanager
def in_use(url: str) -> Iterator[None]:
    """In this block, the models of this process and the servers that are started use the database at `url`."""
    before = connections["default"]
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("DATABASE_URL", url)
        entry = environment.database("DATABASE_URL", "")
        entry = connections.configure_settings({"default": entry})["default"]
        connections["default"] = load_backend(entry["ENGINE"]).DatabaseWrapper(entry, "default")
        try:
            yield
        finally:
            connections["default"].close()
            connections["default"] = before


def migrate(url: str) -> None:
    with in_use(url):
        call_command("migrate", verbosity=0)


def answers(place: str) -> bool:
    with suppress(psycopg.OperationalError), psycopg.connect(place, connect_timeout=5):
        return True
    return False


def postgresql_programs() -> Path | None:
    """Debian's folder with the programs of the newest installed version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Cluster:
    """A PostgreSQL server with a superuser `postgres` and a database of the role `service`. It uses fsync.

    With a `primary` it is a standby, which replicates that until it is promoted. The folder must be empty.
    """

    def __init__(self, programs: Path, folder: Path, primary: Cluster | None = None) -> None:
        self.programs, self.folder, self.port = programs, folder, free_port()
        # PostgreSQL refuses to be run by root.
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if self.account:
            subprocess.run(["chown", "postgres", folder], check=True)
        if primary:
            source = f"--host=127.0.0.1 --port={primary.port} --username=postgres --checkpoint=fast --no-sync"
            self.run(f"pg_basebackup --write-recovery-conf {source}")
            self.start()
            return
        self.run("initdb --username=postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 --no-sync")
        self.start()
        self.administer("CREATE ROLE service LOGIN")
        self.administer("CREATE DATABASE service OWNER service")
        migrate(self.url)

    @property
    def url(self) -> str:
        return self.url_of("service")

    def url_of(self, database: str, role: str = "service") -> str:
        return f"postgres://{role}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        """Tries until it starts: processes of a server that was killed may use its files for a moment."""
        command = [self.programs / "postgres", "-D", self.folder, "-p", str(self.port), "-k", self.folder]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60"]
        nowhere = subprocess.DEVNULL

        def is_started() -> bool:
            self.process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, **self.account)
            return self._is_ready()

        wait_until(is_started)

    def kill(self) -> None:
        self._signal_all(signal.SIGKILL)
        self.process.wait()

    def suspend(self) -> None:
        """Stops all its processes without ending them: connections stay open, and nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        for pid in (self.process.pid, *children_of(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def revive(self) -> None:
        """Undoes what an earlier test did: starts the server and lifts the limit of connections."""
        if not self._is_ready():
            self.start()
        self.leave_sessions(-1)

    def leave_sessions(self, count: int) -> None:
        """Limit the service to `count` connections (-1: any number), and end its present ones."""
        self.administer(f"ALTER ROLE service CONNECTION LIMIT {count}")
        if count >= 0:
            self.administer("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'service'")
            connections["default"].close()

    def administer(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url_of(database, "postgres"), connect_timeout=5, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def _is_ready(self) -> bool:
        """Waits until the server answers or has ended. Returns whether it answers."""
        place = self.url_of("postgres", "postgres")
        wait_until(lambda: self.process.poll() is not None or answers(place))
        return self.process.poll() is None

    def run(self, command: str) -> None:
        program, *arguments = command.split()
        line = [self.programs / program, "-D", self.folder, *arguments]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL, **self.account)


SETTINGS = """
[databases]
* = host={HOST} port={PORT}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/accounts
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = options
"""


@contextmanager
def pooler() -> Iterator[str]:
    database, port = connection.settings_dict, free_port()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        settings = Path(folder, "settings")
        settings.write_text(SETTINGS.format(**database, port=port, folder=folder), encoding="utf-8")
        Path(folder, "accounts").write_text('"{USER}" "{PASSWORD}"\n'.format(**database), encoding="utf-8")
        if is_root := os.geteuid() == 0:  # PgBouncer refuses to run as root
            subprocess.run(["chown", "-R", "postgres", folder], check=True)
        command, user = [program("pgbouncer"), "--quiet", settings], "postgres" if is_root else None
        place = f"postgres://{database['USER']}@127.0.0.1:{port}/{database['NAME']}"
        with started(command, lambda: answers(place), Path(folder, "log"), user=user):
            yield place


class OwnRedis:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.command = [
            program("redis-server"),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            str(folder),
        ]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        wait_until(self._is_up)

    def _is_up(self) -> bool:
        with suppress(ConnectionError), Redis(port=self.port) as client:
            return bool(client.ping())
        return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)
