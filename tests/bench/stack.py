"""Temporary PostgreSQL, Redis, floor and service, which end with the block."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import django
import psycopg
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.core.management import call_command
from django.db import connection
from redis import Redis, RedisError

from tests.bench import rows
from tests.bench.targets import CALLBACK, Floor, Service
from tests.server import OURS, ROOT, free_port, serve

FLOOR_TOKENS = 10_000
PEOPLE = 32
START_SECONDS = 180  # under valgrind
SHIPPED_BUFFERS = "128MB"
# Limits are on but are never reached, so that the cost of counting is measured.
RATES = dict.fromkeys(
    ("RATE_TOKEN", "RATE_TOKEN_FAILURES", "RATE_USERINFO", "RATE_USERINFO_FAILURES", "RATE_AUTHORIZE"), "1000000/m"
)
FLOOR_ROWS = f"""
    CREATE TABLE person (
        id bigint PRIMARY KEY, sub text NOT NULL, nickname text NOT NULL, email text NOT NULL, avatar text NOT NULL);
    CREATE TABLE token (digest bytea PRIMARY KEY, person_id bigint NOT NULL, expires_at timestamptz NOT NULL);
    INSERT INTO person SELECT n, 'u' || n, 'Bench ' || n, 'bench' || n || '@bench.invalid',
        'https://img.bench.invalid/' || n || '.png' FROM generate_series(1, {FLOOR_TOKENS}) n;
    INSERT INTO token SELECT sha256(convert_to('floor-token-' || n, 'UTF8')), n, now() + interval '1 year'
        FROM generate_series(1, {FLOOR_TOKENS}) n;
    ANALYZE;
"""


class Missing(Exception):
    """A program that the benchmark needs is not installed."""


@dataclass(frozen=True)
class Stack:
    """The servers, the service's database (that of `connection`), and the people who can sign in."""

    folder: Path
    postgresql: subprocess.Popen[bytes]
    postgresql_port: int
    redis: subprocess.Popen[bytes]
    client_id: str
    client_secret: str = field(repr=False)
    cookies: list[str] = field(repr=False)

    def roots(self, server: int) -> dict[str, int]:
        return {"server": server, "postgresql": self.postgresql.pid, "redis": self.redis.pid}


def dsn(port: int, database: str) -> str:
    return f"postgres://postgres@127.0.0.1:{port}/{database}"


def execute(port: int, sql: str, *, database: str = "postgres") -> None:
    with psycopg.connect(dsn(port, database), autocommit=True) as maintenance:
        maintenance.execute(sql)


@contextmanager
def stack(shared_buffers: str = SHIPPED_BUFFERS) -> Iterator[Stack]:
    """PostgreSQL with default settings and a migrated database of one trusted application and PEOPLE; and Redis.

    Raises Missing: there is no PostgreSQL or no Redis to start.
    """
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        folder.chmod(0o755)
        postgresql_port, redis_port = free_port(), free_port()
        postgresql = opened.enter_context(_postgresql(folder, postgresql_port, shared_buffers))
        redis = opened.enter_context(_redis(folder, redis_port))
        _configure(folder, dsn(postgresql_port, "service"), f"redis://127.0.0.1:{redis_port}/0")
        execute(postgresql_port, "CREATE DATABASE service")
        client_id, client_secret, cookies = _seed()
        yield Stack(folder, postgresql, postgresql_port, redis, client_id, client_secret, cookies)


def use(database: str) -> None:
    """Use another database in this process and in services that it starts."""
    connection.close()
    connection.settings_dict["NAME"] = database


def secret_key() -> str:
    """The SECRET_KEY that signed the cookies of the stack."""
    return os.environ["SECRET_KEY"]


@contextmanager
def service(given: Stack, name: str = "service", under: Sequence[str] = (), **changes: str) -> Iterator[Service]:
    """The service with default settings and two workers, on the database of `connection`."""
    folder = given.folder / f"served-{name}"
    folder.mkdir()
    changes = {"RATE_LIMITS": "on", "WEB_CONCURRENCY": "2", "SECRET_KEY": secret_key(), **RATES, **changes}
    with serve(folder, under=under, start_seconds=START_SECONDS, **changes) as server:
        port = int(server.base_url.rpartition(":")[2])
        roots = given.roots(server.process.pid)
        yield Service(name, port, roots, given.client_id, given.client_secret, given.cookies)


@contextmanager
def floor(given: Stack, under: Sequence[str] = (), workers: int = 2, **changes: str) -> Iterator[Floor]:
    execute(given.postgresql_port, "CREATE DATABASE floor")
    execute(given.postgresql_port, FLOOR_ROWS, database="floor")
    port = free_port()
    gunicorn = ["gunicorn", f"--workers={workers}", f"--bind=127.0.0.1:{port}", "tests.bench.floor"]
    command = [*under, sys.executable, "-m", *gunicorn]
    env = {**os.environ, "FLOOR_DSN": dsn(given.postgresql_port, "floor"), **changes}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    with _started("floor", command, given.folder, lambda: _is_open(port), env=env) as process:
        yield Floor("floor", port, given.roots(process.pid), FLOOR_TOKENS)


def _configure(folder: Path, database_url: str, redis_url: str) -> None:
    """Configure Django in this process, without the environment variables of the machine."""
    for name in [name for name in os.environ if name in OURS or name.startswith("RATE_")]:
        del os.environ[name]
    os.environ |= {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "SECRET_KEY": secrets.token_urlsafe(50)}
    os.environ |= {"EMAIL_URL": f"filemail://{folder}"}
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()


def _seed() -> tuple[str, str, list[str]]:
    call_command("migrate", verbosity=0)
    output = io.StringIO()
    call_command("application", "create", "Bench", f"--redirect-uri={CALLBACK}", "--trusted", "--json", stdout=output)
    application = json.loads(output.getvalue())
    rows.fill(people=PEOPLE)
    cookies = signed_in(range(1, PEOPLE + 1))
    connection.close()
    return application["client_id"], application["client_secret"], cookies


def signed_in(numbers: Iterable[int]) -> list[str]:
    """The cookies of new browsers in which the people with these numbers are signed in."""
    return sign_in(get_user_model().objects.get(pk=rows.person_id(number)) for number in numbers)


def sign_in(people: Iterable[Any]) -> list[str]:
    """The cookies of new browsers, one for each of the people."""
    store = import_module(settings.SESSION_ENGINE).SessionStore
    cookies = []
    for person in people:
        session = store()
        session[SESSION_KEY] = str(person.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        session.create()
        cookies.append(f"{settings.SESSION_COOKIE_NAME}={session.session_key}")
    return cookies


@contextmanager
def _postgresql(folder: Path, port: int, shared_buffers: str) -> Iterator[subprocess.Popen[bytes]]:
    """PostgreSQL with default settings: every commit is written to disk."""
    installed = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].partition(".")[0])
    )
    postgres = str(installed[-1]) if installed else shutil.which("postgres")
    if postgres is None:
        raise Missing("PostgreSQL is not installed: no `postgres` in /usr/lib/postgresql/*/bin or on the PATH.")
    home = folder / "postgresql"
    home.mkdir()
    owner: list[str] = []
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        shutil.chown(home, "postgres", "postgres")
        owner = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    initdb = [*owner, str(Path(postgres).with_name("initdb")), f"--pgdata={home / 'data'}", *options]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=home, timeout=START_SECONDS)
    listen = [
        "-p",
        str(port),
        "-c",
        "listen_addresses=127.0.0.1",
        "-c",
        "unix_socket_directories=",
        "-c",
        f"shared_buffers={shared_buffers}",
    ]

    def is_ready() -> bool:
        try:
            execute(port, "SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    command = [*owner, postgres, "-D", str(home / "data"), *listen]
    with _started("PostgreSQL", command, folder, is_ready, cwd=home) as process:
        yield process


@contextmanager
def _redis(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which("redis-server")
    if program is None:
        raise Missing("Redis is not installed: no `redis-server` on the PATH.")

    def is_ready() -> bool:
        try:
            with Redis(port=port) as client:
                return bool(client.ping())
        except RedisError:
            return False

    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with _started("Redis", command, folder, is_ready) as process:
        yield process


@contextmanager
def _started(
    name: str, command: list[str], folder: Path, is_ready: Callable[[], bool], **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that accepts connections, in a separate session so that only this process receives Ctrl-C."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, start_new_session=True, **{"cwd": ROOT, **options}
        )
    try:
        end = time.monotonic() + START_SECONDS
        while not is_ready():
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.05)
        yield process
    finally:
        process.send_signal(signal.SIGINT)  # for PostgreSQL: close all connections, then end
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
