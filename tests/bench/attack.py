"""`python -m tests.bench attack`: measure normal requests during attacks from one machine.

The service has its default settings, limits and four workers: once one unit directly, once one unit and once two units
behind the nginx of docs/operations.md. Normal requests are complete sign-ins and sign-in pages from separate addresses
at fixed times; each is timed from the moment it was due. The attacker has the lowest priority, because an attacker on
another machine takes no CPU time from the service. During each attack the mail server answers DATA late, as a tarpit
does.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from tests.bench.attackers import ATTACKS, Holders, Site, Tally
from tests.bench.stack import CALLBACK, Failed, Missing, Stack, Target, stack, success
from tests.factories import ApplicationFactory
from tests.faults.load import Caller
from tests.peers import OPERATIONS, PAGES, MailServer, nginx, program
from tests.server import Server, free_port

WORKERS = 4
CLIENTS = 8
SECONDS = 8
# Each client signs in once a second: below RATE_AUTHORIZE of its address and RATE_TOKEN of the application.
FLOW_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 20
MAIL_SECONDS = 9.0
# With two units: p99 beside an attack, as a multiple of that without.
MOST_RATIO = {"operations": 2.0, "pages": 3.0}
DIRECTLY, ONE_UNIT, TWO_UNITS = WAYS = ("directly", "one unit", "two units")
HEAD = """| attack | way | sent | operations: p99 ms, without / beside | ratio | pages: p99 ms | ratio | failed |
|---|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Way:
    """How clients reach the service."""

    name: str
    target: Target
    servers: list[Server]

    def workers(self) -> set[int]:
        return {worker for server in self.servers for worker in server.workers()}


@dataclass
class Experience:
    """The response times of pages and of operations, and the errors, of normal clients."""

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MOST_RATIO})
    failures: list[str] = field(default_factory=list)

    def p99(self, kind: str) -> float:
        ordered = sorted(self.milliseconds[kind])
        return ordered[math.ceil(len(ordered) * 0.99) - 1]


@dataclass(frozen=True)
class Row:
    attack: str
    way: str
    without: Experience
    beside: Experience
    ended_workers: int
    tally: Tally

    def ratio(self, kind: str) -> float:
        return self.beside.p99(kind) / self.without.p99(kind)

    @property
    def ratios(self) -> str:
        return ", ".join(f"{kind} × {self.ratio(kind):.1f}" for kind in MOST_RATIO)

    @property
    def is_slowed(self) -> bool:
        """p99 is the second slowest of 128 requests."""
        return self.way == TWO_UNITS and any(self.ratio(kind) > most for kind, most in MOST_RATIO.items())

    @property
    def has_failed(self) -> bool:
        """A worker ended, or a normal request failed with two units."""
        return bool(self.ended_workers or (self.way == TWO_UNITS and self.beside.failures))

    @property
    def cells(self) -> str:
        figures = ""
        for kind in MOST_RATIO:
            p99 = f"{self.without.p99(kind):.0f} / {self.beside.p99(kind):.0f}"
            figures += f"{p99} | {self.ratio(kind):.1f} | "
        failed = f"{len(self.beside.failures)} of {sum(map(len, self.beside.milliseconds.values()))}"
        ended = f", {self.ended_workers} workers ended" if self.ended_workers else ""
        return f"| {self.attack} | {self.way} | {self.tally.sent:,} | {figures}{failed}{ended} |"


def measure(say: Callable[[str], None], only: str, seconds: int, chosen: str) -> list[Row]:
    """Measure the attacks whose names contain `only`, in the way `chosen`, or in all."""
    found = []
    with stack() as given:
        mail_server = MailServer()
        mail_server.open()
        public = ApplicationFactory(redirect_uris=CALLBACK, client_type="public").client_id
        holders = Holders.create()
        for name in [chosen] if chosen else WAYS:
            with reached(name, given, mail_server) as way:
                normal(way, 3)  # warm-up
                for attack in (attack for attack in ATTACKS if only in attack):
                    site = Site(way.target.base_url, f"127.0.3.{len(found) + 1}", public, holders)
                    row = one(way, attack, site, mail_server, seconds)
                    answers = dict(row.tally.answers)
                    say(f"{name}: {attack}: {row.tally.sent:,} requests, answers {answers}, p99 of {row.ratios}")
                    found.append(row)
        mail_server.close()
    return found


@contextmanager
def reached(name: str, given: Stack, mail_server: MailServer) -> Iterator[Way]:
    """WORKERS workers in one unit or two."""
    ports, origin = [free_port() for _ in range(2 if name == TWO_UNITS else 1)], free_port()
    address = f"http://localhost:{ports[0] if name == DIRECTLY else origin}"
    variables = {"BASE_URL": address, "AUTH_URL": address, "EMAIL_URL": mail_server.url}
    variables |= {"TRUSTED_PROXIES": "127.0.0.1", "WEB_CONCURRENCY": str(WORKERS // len(ports))}
    with ExitStack() as opened:
        servers = [
            opened.enter_context(given.serve(f"{port}", BIND=f"127.0.0.1:{port}", port=port, **variables))
            for port in ports
        ]
        if name != DIRECTLY:
            if program() is None:
                raise Missing("nginx is not installed.")
            opened.enter_context(nginx(given.folder / "nginx", origin, {PAGES: ports[0], OPERATIONS: ports[-1]}))
        yield Way(name, given.target(address, servers[0].process.pid), servers)


def one(way: Way, name: str, site: Site, mail_server: MailServer, seconds: int) -> Row:
    """Raises RuntimeError: the attack ended early, or sent nothing."""
    without, workers = normal(way, seconds), way.workers()
    mail_server.data_seconds = MAIL_SECONDS
    end = time.monotonic() + seconds + 1

    def attacking() -> None:
        os.nice(19)
        ATTACKS[name](site, end)

    attacker = multiprocessing.get_context("fork").Process(target=attacking, daemon=True)
    attacker.start()
    time.sleep(1)
    beside = normal(way, seconds)
    attacker.join(PATIENCE_SECONDS)
    mail_server.data_seconds = 0.0
    if attacker.exitcode or not site.tally.sent:
        raise RuntimeError(f"{way.name}: the attack did not take place: {name}")
    attacker.kill()
    attacker.join()
    return Row(name, way.name, without, beside, len(workers - way.workers()), site.tally)


# Normal clients -------------------------------------------------------------------------------------------------------


def normal(way: Way, seconds: int) -> Experience:
    met = Experience()
    end = time.monotonic() + seconds
    clients = [threading.Thread(target=_client, args=(way.target, number, end, met)) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return met


def _client(target: Target, number: int, end: float, met: Experience) -> None:
    due = time.monotonic() + number * FLOW_EVERY_SECONDS / CLIENTS
    caller = Caller(target, address=f"127.0.2.{number + 1}")
    while due < end:
        for kind, step in _steps(target, caller, number):
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                step()
            except (Failed, OSError) as error:
                met.failures.append(f"{type(error).__name__}: {error}")
            met.milliseconds[kind].append((time.monotonic() - due) * 1000)
            due = max(due + FLOW_EVERY_SECONDS / 4, time.monotonic())


def _steps(target: Target, caller: Caller, number: int) -> Iterable[tuple[str, Callable[[], object]]]:
    held = {"code": "", "token": ""}
    yield "pages", lambda: success(caller.call("GET", "/accounts/sign-in"), "sign-in page")
    yield "pages", lambda: held.update(code=target.authorize(caller, number))
    yield "operations", lambda: held.update(token=target.token(caller, held["code"]))
    yield "operations", lambda: target.userinfo(caller, held["token"])
