"""Temporary PostgreSQL, Redis, floor and service, which end with the block; and the operations that are measured."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from django.db import connection
from urllib3 import BaseHTTPResponse

from tests.databases import Cluster, OwnRedis, in_use, postgresql_programs
from tests.factories import ApplicationFactory, PersonFactory, Registered
from tests.faults.load import Caller
from tests.pages import with_session
from tests.server import ROOT, WIDE_RATES, Server, free_port, is_open, serve, started

CALLBACK = "http://127.0.0.1:9999/callback"
FLOOR_TOKENS = 10_000
PEOPLE = 32
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


class Failed(Exception):
    """An operation failed. The message contains no credential."""


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def success(answer: BaseHTTPResponse, operation: str, status: int = 200) -> BaseHTTPResponse:
    if answer.status != status:
        raise Failed(f"{operation}: {answer.status}")
    return answer


@dataclass(frozen=True)
class Target:
    """The service or the floor. `roots` are the process ids of the server, PostgreSQL and Redis, by name."""

    base_url: str
    roots: dict[str, int]
    application: Registered
    cookies: list[str] = field(repr=False)

    def select(self, caller: Caller, number: int) -> None:
        self.userinfo(caller, f"floor-token-{1 + number % FLOOR_TOKENS}")

    def authorize(self, caller: Caller, number: int, scope: str = "") -> str:
        state, client_id = secrets.token_hex(12), self.application.client_id
        query = {"response_type": "code", "client_id": client_id, "redirect_uri": CALLBACK, "state": state}
        query |= {"scope": scope} if scope else {}
        cookie = {"Cookie": self.cookies[number % len(self.cookies)]}
        answer = success(caller.call("GET", f"/oauth/authorize?{urlencode(query)}", headers=cookie), "authorize", 302)
        address, _, given = answer.headers["Location"].partition("?")
        members = parse_qs(given)
        if address != CALLBACK or members.get("state") != [state] or "code" not in members:
            raise Failed("authorize: another address or state, or no code")
        return members["code"][0]

    def token(self, caller: Caller, code: str) -> str:
        return str(success(caller.exchange(self.application, code), "token").json()["access_token"])

    def userinfo(self, caller: Caller, token: str) -> None:
        if not success(caller.userinfo(token), "user info").json().keys() >= {"sub", "nickname", "email", "avatar"}:
            raise Failed("user info: a member is missing")

    def flow(self, caller: Caller, number: int) -> None:
        self.userinfo(caller, self.token(caller, self.authorize(caller, number)))


@dataclass(frozen=True)
class Stack:
    """The servers, the service's database (that of `connection`), and the people who are signed in."""

    folder: Path
    postgresql: Cluster
    redis: OwnRedis
    application: Registered
    cookies: list[str] = field(repr=False)

    def target(self, base_url: str, server: int) -> Target:
        roots = {"server": server, "postgresql": self.postgresql.process.pid, "redis": self.redis.process.pid}
        return Target(base_url, roots, self.application, self.cookies)

    def serve(self, name: str, **changes: Any) -> AbstractContextManager[Server]:
        folder = self.folder / f"served-{name}"
        folder.mkdir()
        variables = {"RATE_LIMITS": "on", "SECRET_KEY": os.environ["SECRET_KEY"], "REDIS_URL": self.redis.url}
        variables |= {"DJANGO_SETTINGS_MODULE": "config.settings"}  # tests.settings hashes cheaply
        return serve(folder, **variables, **changes)

    @contextmanager
    def service(self, under: Sequence[str] = (), **changes: str) -> Iterator[Target]:
        with self.serve("measured", under=under, **{"WEB_CONCURRENCY": "2", **WIDE_RATES, **changes}) as server:
            yield self.target(server.base_url, server.process.pid)

    @contextmanager
    def floor(self, under: Sequence[str] = (), workers: int = 2, **changes: str) -> Iterator[Target]:
        self.postgresql.administer("CREATE DATABASE floor")
        self.postgresql.administer(FLOOR_ROWS, "floor")
        port = free_port()
        command = [*under, sys.executable, "-m", "gunicorn", f"--workers={workers}", f"--bind=127.0.0.1:{port}"]
        env = {**os.environ, "FLOOR_DSN": self.postgresql.url_of("floor", "postgres"), **changes}
        del env["DJANGO_SETTINGS_MODULE"]
        command, log = [*command, "tests.wsgi.floor"], self.folder / "floor.log"
        with started(command, lambda: is_open(port), log, cwd=ROOT, env=env) as pid:
            yield self.target(f"http://localhost:{port}", pid)


@contextmanager
def stack() -> Iterator[Stack]:
    """PostgreSQL with default settings and a migrated database of one trusted application and PEOPLE; and Redis."""
    if (programs := postgresql_programs()) is None or not shutil.which("redis-server"):
        sys.exit(f"{'Redis' if programs else 'PostgreSQL'} is not installed.")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        folder.chmod(0o755)
        redis = OwnRedis(folder)
        opened.callback(redis.kill)
        (folder / "postgresql").mkdir()
        postgresql = Cluster(programs, folder / "postgresql")
        opened.callback(postgresql.kill)
        opened.enter_context(in_use(postgresql.url))
        application = ApplicationFactory(redirect_uris=CALLBACK, is_trusted=True)
        browsers = [with_session(person) for person in PersonFactory.create_batch(PEOPLE)]
        connection.close()
        cookies = ["; ".join(f"{name}={each.value}" for name, each in browser.cookies.items()) for browser in browsers]
        yield Stack(folder, postgresql, redis, application, cookies)
