"""Databases that a test may kill: a PostgreSQL of its own, and a way to use another database for a while."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connections
from django.db.utils import load_backend

from config import environment
from tests.server import children_of, free_port

START_SECONDS = 30


@contextmanager
def in_use(url: str) -> Iterator[None]:
    """The models of this process, and servers that are launched meanwhile, use the database at `url`."""
    before = connections["default"]
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("DATABASE_URL", url)
        entry = environment.database("DATABASE_URL", Path())
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


def postgresql_programs() -> Path | None:
    """Debian's folder of the newest version that is installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class Cluster:
    """A PostgreSQL with a superuser `postgres` and a database of the plain role `service`. As delivered: with fsync."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder, self.port = programs, folder, free_port()
        # PostgreSQL refuses to be run by root.
        self.account = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        if self.account:
            subprocess.run(["chown", "postgres", folder], check=True)
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        self.start()
        self.administer("CREATE ROLE service LOGIN")
        self.administer("CREATE DATABASE service OWNER service")
        migrate(self.url)

    @property
    def url(self) -> str:
        return f"postgres://service@127.0.0.1:{self.port}/service"

    def start(self) -> None:
        """What is left of a postmaster that was killed may hold on for a moment: it is tried again until it starts."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            command = [self.programs / "postgres", "-D", self.folder, "-p", str(self.port), "-k", self.folder]
            command += ["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=60"]
            nowhere = subprocess.DEVNULL
            self.process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, **self.account)
            if self._is_ready():
                return
        raise AssertionError("PostgreSQL did not start")

    def stop(self) -> None:
        """As `pg_ctl stop -m fast`: sessions are ended, what they had not committed is rolled back."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(START_SECONDS)

    def kill(self) -> None:
        """Every process of it at once."""
        for pid in (self.process.pid, *children_of(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def revive(self) -> None:
        """As it was at first, whatever a test that failed has left of it."""
        if not self._is_ready():
            self.start()
        self.leave_sessions(-1)

    def kill_session(self) -> None:
        """The process of one session of the service: PostgreSQL then ends all others as well and recovers."""
        [(pid,)] = self.administer("SELECT pid FROM pg_stat_activity WHERE usename = 'service' LIMIT 1")
        os.kill(pid, signal.SIGKILL)

    def leave_sessions(self, count: int) -> None:
        """The service gets so many connections, -1 for any number, and loses those it has."""
        self.administer(f"ALTER ROLE service CONNECTION LIMIT {count}")
        if count >= 0:
            self.administer("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = 'service'")
            connections["default"].close()

    def administer(self, sql: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        with psycopg.connect(self._as("postgres"), dbname=database, autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def _as(self, role: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={role} dbname=postgres connect_timeout=5"

    def _is_ready(self) -> bool:
        """Waits until it answers or has ended."""
        end = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            with suppress(psycopg.OperationalError), psycopg.connect(self._as("postgres")):
                return True
            time.sleep(0.02)
        return False

    def _run(self, program: str, *arguments: str) -> None:
        command = [self.programs / program, "-D", self.folder, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **self.account)
