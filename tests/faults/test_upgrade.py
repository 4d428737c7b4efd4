"""An operator upgrades from the last release and goes back, as docs/operations.md says, while the service is used.

`make drill` prints for how long nobody was answered.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import Launch
from tests.databases import Cluster
from tests.faults import releases
from tests.faults.gaps import Gaps
from tests.faults.upgrading import HELD_BY_THE_NEW, HOLDINGS, SEED, Client, Holding, Load, Site
from tests.peers import BUSY, TAKES, MailServer, wait_until
from tests.server import Server, environment, free_port, socket_unit

DATABASE = "upgraded"
KILLED = "killed"


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
        command, cwd=root, env=variables, input=stdin, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def send_what_waits(database: str, mail_server: MailServer) -> None:
    mail_server.mode = TAKES
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE accounts_outgoingmail SET due_at = now()")


class Operator:
    """Changes the version as docs/operations.md says: the port of systemd stays open while the server restarts."""

    def __init__(self, launch: Launch, current: Path, **service: Any) -> None:
        self.launch, self.current, self.service = launch, current, service

    def start(self) -> Server:
        return self.launch(**self.service)

    def switch(self, version: Path, running: Server) -> Server:
        self.link(version)
        stop(running)
        return self.start()

    def link(self, version: Path) -> None:
        self.current.unlink(missing_ok=True)
        self.current.symlink_to(version)


def stop(server: Server) -> None:
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(120) == 0


def kill_a_worker(server: Server) -> None:
    """Until another one has taken its place."""
    before = server.workers()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(server.workers()) == len(before) and min(before) not in server.workers())


def test_an_upgrade_and_the_way_back_fail_no_request_and_take_nothing_from_anybody(
    database: str, launch: Launch, redis_server: Any, mail_server: MailServer, port: socket.socket, tmp_path: Path
) -> None:
    """A worker that is killed after the switch of the folder breaks what it was answering."""
    old, new, current = (tmp_path / name for name in ("old", "new", "current"))
    releases.unpack(old)
    mail_server.mode = BUSY
    changes = {
        "DATABASE_URL": database,
        "REDIS_URL": redis_server.url,
        "EMAIL_URL": mail_server.url,
        "SECRET_KEY": secrets.token_urlsafe(50),
        "SIGN_UP": "open",
        "STAFF_SECOND_FACTOR": "off",
        "WEB_CONCURRENCY": "2",
    }
    variables = environment(tmp_path, **changes)
    operator = Operator(launch, current, root=current, **socket_unit(port), **changes)

    run(old, variables, "migrate", "--verbosity=0")
    made = json.loads(run(old, variables, "shell", "--verbosity=0", stdin=SEED))
    clients = {name: Client(each["client_id"], each["client_secret"]) for name, each in made.items()}
    operator.link(old)
    server = operator.start()
    site = Site(server.base_url, mail_server, **clients)
    held = begun(HOLDINGS, site)
    with Load(server, site) as load:
        load.go_on("before")
        releases.copy_checkout(new)
        operator.link(new)
        load.phase = KILLED
        kill_a_worker(server)
        load.go_on(KILLED, rounds=0)  # a client may learn of the broken connection after the new worker started
        load.go_on("switched")
        load.phase = "migrate"
        with Gaps(server) as gaps:
            run(new, variables, "migrate")
            load.go_on("migrated")
        failed = told("migrate", gaps)
        load.phase = "upgrade"
        server, gaps = switched(operator, new, server)
        load.go_on("upgraded")
        send_what_waits(database, mail_server)
        failed |= fails(held) | told("upgrade", gaps)

        held = begun(HELD_BY_THE_NEW, site)
        load.phase = "the way back"
        server, gaps = switched(operator, old, server)
        load.go_on("back")
        failed |= fails(held) | told("the way back", gaps)
    failed = {what: why for what, why in (load.failed | failed).items() if not is_broken_by_the_kill(what, why)}
    assert failed == {}


def begun(holdings: Iterable[Holding], site: Site) -> dict[str, Iterator[None]]:
    held = {holding.__name__: holding(site) for holding in holdings}
    for each in held.values():
        next(each)
    return held


def switched(operator: Operator, version: Path, server: Server) -> tuple[Server, Gaps]:
    with Gaps(server) as gaps:
        server = operator.switch(version, server)
    return server, gaps


def told(change: str, gaps: Gaps) -> dict[str, str]:
    print(f"{change}: longest gap {gaps.longest_seconds:.2f} s")  # noqa: T201 - shown by `make drill`
    return {f"{change}, {what}": str(count) for what, count in gaps.failed.items()}


def fails(held: dict[str, Iterator[None]]) -> dict[str, str]:
    found = {}
    for name, each in held.items():
        try:
            next(each, None)
        except Exception as error:  # told with all others
            found[name] = f"{type(error).__name__}: {error}"
    return found


def is_broken_by_the_kill(what: str, why: str) -> bool:
    """Before, in, or after the headers of the answer."""
    return what.endswith(f", {KILLED}") and why.startswith(("Unanswered", "ConnectionError", "ChunkedEncodingError"))
