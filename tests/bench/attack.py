"""`python -m tests.bench attack`: measure normal requests during attacks from one machine.

The service has its default settings, limits and four workers, in one unit and in two, behind the nginx of
docs/operations.md. Normal requests are complete sign-ins and sign-in pages from separate addresses, each timed from the
moment it was due. The attacker has the lowest priority, because an attacker on another machine takes no CPU time from
the service. During each attack the mail server answers DATA late, as a tarpit does.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from urllib3.exceptions import HTTPError

from tests.bench.attackers import ATTACKS, Holders, Site, attack
from tests.bench.stack import CALLBACK, Failed, Stack, Target, say, stack, success
from tests.factories import ApplicationFactory
from tests.faults.load import Caller
from tests.peers import OPERATIONS, PAGES, MailServer, nginx
from tests.server import Server, free_port

WORKERS = 4
CLIENTS = 8
SECONDS = 8  # of each measurement
# Each client signs in once a second: below RATE_AUTHORIZE of its address and RATE_TOKEN of the application.
FLOW_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 20
MAIL_SECONDS = 9.0
KINDS = ("operations", "pages")
WAYS = {"one unit": 1, "two units": 2}
HEAD = """| attack | way | sent | operations: p99 ms, without / beside | ratio | pages: p99 ms | ratio | failed |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Way:
    name: str
    target: Target
    servers: list[Server]

    def workers(self) -> set[int]:
        return {worker for server in self.servers for worker in server.workers()}


@dataclass
class Experience:
    """The response times of pages and of operations, and the errors, of normal clients."""

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    failures: Counter[str] = field(default_factory=Counter)

    def p99(self, kind: str) -> float:
        ordered = sorted(self.milliseconds[kind])
        return ordered[math.ceil(len(ordered) * 0.99) - 1]


def measure(only: str, chosen: str, seconds: int) -> bool:
    """Whether a worker ended, or a normal request failed with two units. Attacks whose names contain `only`."""
    rows, has_failed = [HEAD], False
    with stack() as given:
        mail_server = MailServer()
        mail_server.open()
        public = ApplicationFactory(redirect_uris=CALLBACK, client_type="public").client_id
        holders = Holders.create()
        for name in [chosen] if chosen else WAYS:
            with reached(name, given, mail_server) as way:
                normal(way.target, 3)  # warm-up
                for attacking in (each for each in ATTACKS if only in each):
                    site = Site(way.target.base_url, f"127.0.3.{len(rows)}", public, holders)
                    row, is_bad = one(way, attacking, site, mail_server, seconds)
                    rows.append(row)
                    has_failed |= is_bad
        mail_server.close()
    print("\n".join(rows))  # noqa: T201
    return has_failed


@contextmanager
def reached(name: str, given: Stack, mail_server: MailServer) -> Iterator[Way]:
    ports, origin = [free_port() for _ in range(WAYS[name])], free_port()
    address = f"http://localhost:{origin}"
    variables = {"BASE_URL": address, "AUTH_URL": address, "EMAIL_URL": mail_server.url}
    variables |= {"TRUSTED_PROXIES": "127.0.0.1", "WEB_CONCURRENCY": str(WORKERS // len(ports))}
    with ExitStack() as opened:
        servers = [opened.enter_context(given.serve(str(port), port=port, **variables)) for port in ports]
        opened.enter_context(nginx(given.folder / "nginx", origin, {PAGES: ports[0], OPERATIONS: ports[-1]}))
        yield Way(name, given.target(address, servers[0].process.pid), servers)


def one(way: Way, name: str, site: Site, mail_server: MailServer, seconds: int) -> tuple[str, bool]:
    """A row, and whether the attack did harm. Raises RuntimeError: it ended early, or sent nothing."""
    without, workers = normal(way.target, seconds), way.workers()
    mail_server.data_seconds = MAIL_SECONDS
    end = time.monotonic() + seconds + 1

    def attacking() -> None:
        os.nice(19)
        attack(name, site, end)

    attacker = multiprocessing.get_context("fork").Process(target=attacking, daemon=True)
    attacker.start()
    time.sleep(1)
    beside = normal(way.target, seconds)
    attacker.join(PATIENCE_SECONDS)
    mail_server.data_seconds = 0.0
    if attacker.exitcode or not site.counts[0]:
        raise RuntimeError(f"{way.name}: the attack did not take place: {name}")
    attacker.kill()
    attacker.join()

    ended = len(workers - way.workers())
    say(f"{way.name}: {name}: answers {site.answers}, failed {dict(beside.failures)}")
    p99 = [(without.p99(kind), beside.p99(kind)) for kind in KINDS]
    figures = [f"{before:.0f} / {after:.0f} | {after / before:.1f}" for before, after in p99]
    failed = f"{beside.failures.total()} of {sum(map(len, beside.milliseconds.values()))}"
    failed += f", {ended} workers ended" if ended else ""
    row = f"| {name} | {way.name} | {site.counts[0]:,} | {' | '.join(figures)} | {failed} |"
    return row, bool(ended or (way.name == "two units" and beside.failures))


# Normal clients -------------------------------------------------------------------------------------------------------


def normal(target: Target, seconds: int) -> Experience:
    met, end = Experience(), time.monotonic() + seconds
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda number: _client(target, number, end, met), range(CLIENTS)))  # raises what a client raised
    return met


def _client(target: Target, number: int, end: float, met: Experience) -> None:
    due = time.monotonic() + number * FLOW_EVERY_SECONDS / CLIENTS
    caller = Caller(target, address=f"127.0.2.{number + 1}")
    while due < end:
        for kind, step in _steps(target, caller, number):
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                step()
            except (Failed, HTTPError) as error:
                met.failures[f"{type(error).__name__}: {error}"] += 1
            met.milliseconds[kind].append((time.monotonic() - due) * 1000)
            due = max(due + FLOW_EVERY_SECONDS / 4, time.monotonic())


def _steps(target: Target, caller: Caller, number: int) -> Iterable[tuple[str, Callable[[], object]]]:
    held = {"code": "", "token": ""}
    yield "pages", lambda: success(caller.call("GET", "/accounts/sign-in"), "sign-in page")
    yield "pages", lambda: held.update(code=target.authorize(caller, number))
    yield "operations", lambda: held.update(token=target.token(caller, held["code"]))
    yield "operations", lambda: target.userinfo(caller, held["token"])
