"""Temporary PostgreSQL, Redis, floor and service, which end with the block."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.core.management import call_command
from django.db import connection

from tests.bench import rows
from tests.bench.targets import CALLBACK, Floor, Service
from tests.databases import Cluster, OwnRedis, in_use, postgresql_programs
from tests.peers import wait_until
from tests.server import OURS, ROOT, free_port, is_open, serve

FLOOR_TOKENS = 10_000
PEOPLE = 32
SETTINGS = {"DJANGO_SETTINGS_MODULE": "config.settings"}  # those of tests hash passwords cheaply
START_SECONDS = 180  # under valgrind
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
    postgresql: Cluster
    redis: OwnRedis
    client_id: str
    client_secret: str = field(repr=False)
    cookies: list[str] = field(repr=False)

    def roots(self, server: int) -> dict[str, int]:
        return {"server": server, "postgresql": self.postgresql.process.pid, "redis": self.redis.process.pid}


@contextmanager
def stack() -> Iterator[Stack]:
    """PostgreSQL with default settings and a migrated database of one trusted application and PEOPLE; and Redis.

    Raises Missing: there is no PostgreSQL or no Redis to start.
    """
    programs, redis_server = postgresql_programs(), shutil.which("redis-server")
    if programs is None or redis_server is None:
        raise Missing(f"{'Redis' if programs else 'PostgreSQL'} is not installed.")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        folder.chmod(0o755)
        redis = OwnRedis(redis_server, folder)
        opened.callback(redis.kill)
        _configure(folder, redis.url)
        (folder / "postgresql").mkdir()
        postgresql = Cluster(programs, folder / "postgresql")
        opened.callback(postgresql.kill)
        opened.enter_context(in_use(postgresql.url))
        yield Stack(folder, postgresql, redis, *_seed())


def secret_key() -> str:
    """The SECRET_KEY that signed the cookies of the stack."""
    return os.environ["SECRET_KEY"]


@contextmanager
def service(given: Stack, under: Sequence[str] = (), **changes: str) -> Iterator[Service]:
    """The service with default settings and two workers, on the database of `connection`."""
    folder = given.folder / "served"
    folder.mkdir()
    changes = {"RATE_LIMITS": "on", "WEB_CONCURRENCY": "2", "SECRET_KEY": secret_key(), **SETTINGS, **RATES, **changes}
    with serve(folder, under=under, start_seconds=START_SECONDS, **changes) as server:
        port = int(server.base_url.rpartition(":")[2])
        roots = given.roots(server.process.pid)
        yield Service("service", port, roots, given.client_id, given.client_secret, given.cookies)


@contextmanager
def floor(given: Stack, under: Sequence[str] = (), workers: int = 2, **changes: str) -> Iterator[Floor]:
    given.postgresql.administer("CREATE DATABASE floor")
    given.postgresql.administer(FLOOR_ROWS, "floor")
    port = free_port()
    gunicorn = ["gunicorn", f"--workers={workers}", f"--bind=127.0.0.1:{port}", "tests.bench.floor"]
    command = [*under, sys.executable, "-m", *gunicorn]
    dsn = f"postgres://postgres@127.0.0.1:{given.postgresql.port}/floor"
    env = {**os.environ, "FLOOR_DSN": dsn, **changes}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    with (
        (given.folder / "floor.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=env) as process,
    ):
        try:
            wait_until(lambda: is_open(port), START_SECONDS)
            yield Floor("floor", port, given.roots(process.pid), FLOOR_TOKENS)
        finally:
            process.terminate()


def _configure(folder: Path, redis_url: str) -> None:
    """Configure Django in this process, without the environment variables of the machine."""
    for name in [name for name in os.environ if name in OURS or name.startswith("RATE_")]:
        del os.environ[name]
    os.environ |= {"DATABASE_URL": "postgres://127.0.0.1/service", "REDIS_URL": redis_url}
    os.environ |= {"EMAIL_URL": f"filemail://{folder}", "SECRET_KEY": secrets.token_urlsafe(50)}
    os.environ["DJANGO_SETTINGS_MODULE"] = "config.settings"
    django.setup()


def _seed() -> tuple[str, str, list[str]]:
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
