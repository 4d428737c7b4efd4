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
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from django.apps import apps
from django.db import connection
from django.utils import timezone

from accounts.models import Session
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.bench.attackers import ATTACKS, Holders, Site, Tally, lowest_priority, pictures, upload
from tests.bench.stack import CALLBACK, Failed, Missing, Stack, Target, stack, success
from tests.factories import ApplicationFactory, PersonFactory, picture
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
UPLOAD_ATTEMPTS, UPLOAD_PAUSE_SECONDS = 3, 3.0
DIRECTLY, ONE_UNIT, TWO_UNITS = WAYS = ("directly", "one unit", "two units")
# What one address may make the service store while it attacks: docs/operations.md, "What one sender can use up". The
# limits count by the minute, so the bound is for an attack that lasts less, and two minutes may be touched.
MOST_ROWS = 400
LASTING = "sessions of nobody for more than an hour"


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
    memory_mb: float  # of the largest worker at the end of the attack
    tally: Tally
    stored: Counter[str]  # rows, by table

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
        """A worker ended, the attack filled a table, or a normal request failed with two units."""
        is_full = self.stored[LASTING] or self.stored.total() > MOST_ROWS
        return bool(self.ended_workers or is_full or (self.way == TWO_UNITS and self.beside.failures))

    @property
    def cells(self) -> str:
        figures = ""
        for kind in MOST_RATIO:
            p99 = f"{self.without.p99(kind):.0f} / {self.beside.p99(kind):.0f}"
            figures += f"{p99} | {self.ratio(kind):.1f} | "
        failed = f"{len(self.beside.failures)} of {sum(map(len, self.beside.milliseconds.values()))}"
        ended = f", {self.ended_workers} workers ended" if self.ended_workers else ""
        stored = ", ".join(f"{count:,} {table}" for table, count in sorted(self.stored.items())) or "none"
        head = f"| {self.attack} | {self.way} | {self.tally.sent:,} | {figures}"
        return f"{head}{failed}{ended} | {stored} | {self.memory_mb:.0f} |"


HEAD = """| attack | way | sent | operations: p99 ms, without / beside | ratio | pages: p99 ms | ratio | failed | \
rows stored | memory MB |
|---|---|---|---|---|---|---|---|---|---|"""


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
    attack = ATTACKS[name]
    without = normal(way, seconds)
    before, workers = stored(), way.workers()
    mail_server.data_seconds = MAIL_SECONDS
    end = time.monotonic() + seconds + 1

    def attacking() -> None:
        lowest_priority()
        attack(site, end)

    attacker = multiprocessing.get_context("fork").Process(target=attacking, daemon=True)
    attacker.start()
    time.sleep(1)
    beside = normal(way, seconds, _upload if attack is pictures else None)
    memory = max(map(resident_mb, way.workers()))
    attacker.join(PATIENCE_SECONDS)
    mail_server.data_seconds = 0.0
    if attacker.exitcode or not site.tally.sent:
        raise RuntimeError(f"{way.name}: the attack did not take place: {name}")
    attacker.kill()
    attacker.join()
    ended = len(workers - way.workers())
    return Row(name, way.name, without, beside, ended, memory, site.tally, stored() - before)


def stored() -> Counter[str]:
    """Rows by table, without those that the normal clients add."""
    connection.close()  # it was forked, and the server may have ended it meanwhile
    models = [model for model in apps.get_models() if model not in (AuthorizationCode, AccessToken)]
    counted = Counter({model._meta.db_table: model._default_manager.count() for model in models})
    lasting = timezone.now() + timedelta(hours=1, seconds=1)
    counted[LASTING] = Session.objects.filter(user=None, expire_date__gt=lasting).count()
    connection.close()
    return counted


def resident_mb(pid: int) -> float:
    with suppress(OSError, IndexError):  # it has just ended
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024
    return 0.0


# Normal clients -------------------------------------------------------------------------------------------------------


def normal(way: Way, seconds: int, besides: Callable[[Way, Experience], None] | None = None) -> Experience:
    met = Experience()
    end = time.monotonic() + seconds
    clients = [threading.Thread(target=_client, args=(way.target, number, end, met)) for number in range(CLIENTS)]
    if besides:
        clients.append(threading.Thread(target=besides, args=(way, met)))
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


def _upload(way: Way, met: Experience) -> None:
    """A person chooses a picture. Asked to wait, they choose it again."""
    driver = Site(way.target.base_url, "", "", None).driver(PersonFactory())  # type: ignore[arg-type]
    for _ in range(UPLOAD_ATTEMPTS):
        if driver.browser.send(upload(driver, picture()), allow_redirects=False).status_code == 302:
            return
        time.sleep(UPLOAD_PAUSE_SECONDS)
    met.failures.append("Failed: a person's picture was not taken")
