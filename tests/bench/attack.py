"""`python -m tests.bench attack`: measure normal requests during attacks from one machine.

The service has its default settings, limits and four workers: once one unit directly, once one unit and once two units
behind the nginx of docs/operations.md. Normal requests are complete sign-ins and sign-in pages from separate addresses
at fixed times; each is timed from the moment it was due. The attacker has the lowest priority, because an attacker on
another machine takes no CPU time from the service. During each attack the mail server answers DATA late, as a tarpit
does.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from django.apps import apps

from tests.bench import holders, rows, stack
from tests.bench.account_attackers import BY_HOLDERS, pictures
from tests.bench.attackers import BY_STRANGERS, CSRF, Attack, Site, Tally, lowest_priority
from tests.bench.phases import percentile
from tests.bench.stored import Stored
from tests.bench.targets import CALLBACK, Failed, Service
from tests.peers import OPERATIONS, PAGES, MailServer, nginx, program
from tests.server import Server, free_port, serve

WORKERS = 4
CLIENTS = 8
SECONDS = 8.0
# Each client signs in once a second: below RATE_AUTHORIZE of its address and RATE_TOKEN of the application.
FLOW_EVERY_SECONDS = 1.0
PATIENCE_SECONDS = 20
MAIL_SECONDS = 9.0
# With two units: p99 beside an attack, as a multiple of that without.
MOST_RATIO = {"operations": 2.0, "pages": 3.0}
UPLOAD_ATTEMPTS, UPLOAD_PAUSE_SECONDS = 3, 3.0
MULTIPART = "multipart/form-data; boundary=b"
CROP = {"zoom": "100", "across": "50", "down": "50"}  # percent
# The smallest picture: one transparent pixel.
GIF = "GIF89a\x01\0\x01\0\0\0\0!\xf9\x04\x01\n\0\x01\0,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;"
ATTACKS = {**BY_STRANGERS, **BY_HOLDERS}
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Way:
    """How clients reach the service."""

    name: str
    service: Service
    servers: tuple[Server, ...]

    def workers(self) -> set[int]:
        return {worker for server in self.servers for worker in server.workers()}


@dataclass
class Experience:
    """The response times of pages and of operations, and the errors, of normal clients."""

    milliseconds: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in MOST_RATIO})
    failures: list[str] = field(default_factory=list)

    def percentile(self, kind: str, percent: int) -> float:
        return percentile(sorted(self.milliseconds[kind]), percent)


@dataclass(frozen=True)
class Row:
    attack: str
    way: str
    without: Experience
    beside: Experience
    ended_workers: int
    memory_mb: float  # of the largest worker, the highest during the attack
    tally: Tally
    stored: Stored  # by the attack

    def ratio(self, kind: str) -> float:
        return self.beside.percentile(kind, 99) / self.without.percentile(kind, 99)

    @property
    def ratios(self) -> str:
        return ", ".join(f"{kind} × {self.ratio(kind):.1f}" for kind in MOST_RATIO)


def measure(say: Callable[[str], None], only: str = "", seconds: float = SECONDS, ways: str = "") -> list[Row]:
    """Measure the attacks whose names contain `only`, in the ways whose names contain `ways`."""
    found = []
    with stack.stack() as given, _mail_server() as mail_server:
        application = apps.get_model("oauth_bridge", "Application")
        public = application.objects.create(name="Public", redirect_uris=CALLBACK, client_type="public")
        people = tuple(f"person-{number}@{rows.DOMAIN}" for number in range(1, stack.PEOPLE + 1))
        owned = holders.create(rows.DOMAIN, people)
        for name, open_way in WAYS.items():
            if ways not in name:
                continue
            with open_way(given, mail_server) as way:
                normal(way, 3)  # warm-up
                for attack in (attack for attack in ATTACKS if only in attack):
                    site = Site(way.service.port, f"127.0.3.{len(found) + 1}", public.client_id, owned)
                    row = one(way, attack, site, mail_server, seconds)
                    answers = dict(row.tally.answers)
                    say(f"{way.name}: {attack}: {row.tally.sent:,} requests, answers {answers}, p99 of {row.ratios}")
                    found.append(row)
    return found


@contextmanager
def _mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.open()
    try:
        yield server
    finally:
        server.close()


@contextmanager
def directly(given: stack.Stack, mail_server: MailServer) -> Iterator[Way]:
    with _served(given, "directly", free_port(), EMAIL_URL=mail_server.url) as server:
        yield _way("directly", given, server)


def behind_nginx(name: str, units: int) -> Callable[[stack.Stack, MailServer], AbstractContextManager[Way]]:
    """Behind nginx, so many units share WORKERS workers."""

    @contextmanager
    def open_way(given: stack.Stack, mail_server: MailServer) -> Iterator[Way]:
        if program() is None:
            raise stack.Missing("nginx is not installed.")
        port, ports = free_port(), [free_port() for _ in range(units)]
        address, folder = f"http://localhost:{port}", given.folder / f"nginx-{units}"
        variables = {"BASE_URL": address, "AUTH_URL": address, "EMAIL_URL": mail_server.url}
        variables["WEB_CONCURRENCY"] = str(WORKERS // units)
        with ExitStack() as opened:
            served = [opened.enter_context(_served(given, f"{units}-{each}", each, **variables)) for each in ports]
            opened.enter_context(nginx(folder, port, {PAGES: ports[0], OPERATIONS: ports[-1]}))
            yield _way(name, given, *served)

    return open_way


@contextmanager
def _served(given: stack.Stack, name: str, port: int, **changes: str) -> Iterator[Server]:
    folder = given.folder / f"served-{name}"
    folder.mkdir()
    variables = {"RATE_LIMITS": "on", "WEB_CONCURRENCY": str(WORKERS), "TRUSTED_PROXIES": "127.0.0.1"}
    variables |= {"SECRET_KEY": stack.secret_key(), **stack.SETTINGS, **changes}
    with serve(folder, port=port, **variables) as server:
        yield server


def _way(name: str, given: stack.Stack, *servers: Server) -> Way:
    port = int(servers[0].base_url.rpartition(":")[2])
    roots = given.roots(servers[0].process.pid)
    return Way(name, Service(name, port, roots, given.client_id, given.client_secret, given.cookies), servers)


TWO_UNITS = "two units"
WAYS = {"directly": directly, "one unit": behind_nginx("one unit", 1), TWO_UNITS: behind_nginx(TWO_UNITS, 2)}


def one(way: Way, name: str, site: Site, mail_server: MailServer, seconds: float) -> Row:
    """Raises RuntimeError: the attack ended early, or sent nothing."""
    attack = ATTACKS[name]
    without = normal(way, seconds)
    before, workers = Stored.now(), way.workers()
    mail_server.data_seconds = MAIL_SECONDS
    attacker = _fork.Process(target=_attack, args=(attack, site, time.monotonic() + seconds + 1), daemon=True)
    attacker.start()
    time.sleep(1)
    memory = _Memory(way)
    with memory:
        beside = normal(way, seconds, _upload if attack is pictures else None)
    attacker.join(PATIENCE_SECONDS)
    mail_server.data_seconds = 0.0
    if attacker.exitcode or not site.tally.sent:
        raise RuntimeError(f"{way.name}: the attack did not take place: {name}")
    attacker.kill()
    attacker.join()
    ended = len(workers - way.workers())
    return Row(name, way.name, without, beside, ended, memory.most_mb, site.tally, Stored.now() - before)


def _attack(attack: Attack, site: Site, until: float) -> None:
    lowest_priority()
    attack(site, until)


def normal(way: Way, seconds: float, besides: Callable[[Service, Experience], None] | None = None) -> Experience:
    met = Experience()
    end = time.monotonic() + seconds
    clients = [threading.Thread(target=_client, args=(way.service, number, end, met)) for number in range(CLIENTS)]
    if besides:
        clients.append(threading.Thread(target=besides, args=(way.service, met)))
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return met


def _client(service: Service, number: int, end: float, met: Experience) -> None:
    due = time.monotonic() + number * FLOW_EVERY_SECONDS / CLIENTS
    line = _line(service.port, number)
    while due < end:
        for kind, step in _steps(service, line, number):
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                step()
            except (Failed, OSError, HTTPException) as error:
                met.failures.append(
                    f"{type(error).__name__}: {error}" if isinstance(error, Failed) else type(error).__name__
                )
                line.close()
            met.milliseconds[kind].append((time.monotonic() - due) * 1000)
            due = max(due + FLOW_EVERY_SECONDS / 4, time.monotonic())
    line.close()


def _line(port: int, number: int) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS, source_address=(f"127.0.2.{number + 1}", 0))


def _steps(service: Service, line: HTTPConnection, number: int) -> Iterable[tuple[str, Callable[[], None]]]:
    held: dict[str, str] = {}

    def authorize() -> None:
        held["code"] = service.authorize(line, number)

    def exchange() -> None:
        held["token"] = service.token(line, held.get("code", ""))

    def userinfo() -> None:
        service.userinfo(line, held.get("token", ""))

    def page() -> None:
        service.send(line, "GET", "/accounts/sign-in", {})
        answer = line.getresponse()
        answer.read()
        if answer.status != 200:
            raise Failed(f"sign-in page: {answer.status}")

    return ("pages", page), ("pages", authorize), ("operations", exchange), ("operations", userinfo)


def _upload(service: Service, met: Experience) -> None:
    """A person chooses a picture. Asked to wait, they choose it again."""
    line, cookie = _line(service.port, CLIENTS), {"Cookie": service.cookies[CLIENTS]}
    for _ in range(UPLOAD_ATTEMPTS):
        service.send(line, "GET", "/accounts/profile", cookie)
        answer = line.getresponse()
        found, token = answer.headers.get("Set-Cookie", ""), CSRF.search(answer.read())
        headers = {"Cookie": f"{cookie['Cookie']}; {found.partition(';')[0]}", "Content-Type": MULTIPART}
        fields = {"csrfmiddlewaretoken": token[1].decode() if token else "", "nickname": "Alice", **CROP}
        body = "".join(
            f'--b\r\nContent-Disposition: form-data; name="{each}"\r\n\r\n{fields[each]}\r\n' for each in fields
        )
        body += f'--b\r\nContent-Disposition: form-data; name="picture"; filename="a.gif"\r\n\r\n{GIF}\r\n--b--\r\n'
        service.send(line, "POST", "/accounts/profile", headers, body)
        answer = line.getresponse()
        answer.read()
        if answer.status == 302:
            return
        line.close()
        time.sleep(UPLOAD_PAUSE_SECONDS)
    met.failures.append("Failed: a person's picture was not taken")


class _Memory:
    """Records the resident memory of the workers during the block."""

    def __init__(self, way: Way) -> None:
        self.way, self.most_mb, self._is_over = way, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.5):
            self.most_mb = max([self.most_mb, *(resident_mb(pid) for pid in self.way.workers())])


def resident_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:  # it has just ended
        return 0.0
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in status else 0.0


def table(rows: list[Row]) -> str:
    lines = [
        "| attack | way | sent | operations: p99 ms, without / beside | ratio | pages: p99 ms, without / beside "
        "| ratio | failed | rows stored | memory MB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        figures = " | ".join(
            f"{row.without.percentile(kind, 99):.0f} / {row.beside.percentile(kind, 99):.0f} | {row.ratio(kind):.1f}"
            for kind in MOST_RATIO
        )
        failed = f"{len(row.beside.failures)} of {sum(map(len, row.beside.milliseconds.values()))}"
        ended = f", {row.ended_workers} workers ended" if row.ended_workers else ""
        lines.append(
            f"| {row.attack} | {row.way} | {row.tally.sent:,} | {figures} | {failed}{ended} | {row.stored} "
            f"| {row.memory_mb:.0f} |"
        )
    return "\n".join(lines)


def slowed(rows: list[Row]) -> list[Row]:
    """With two units: the rows in which p99 grew by more than MOST_RATIO. It is the second slowest of 128 requests."""
    return [
        row for row in rows if row.way == TWO_UNITS and any(row.ratio(kind) > MOST_RATIO[kind] for kind in MOST_RATIO)
    ]


def has_failed(rows: list[Row]) -> bool:
    """A worker ended, an attack filled a table, or a normal request failed with two units."""
    return any(
        row.ended_workers or not row.stored.is_bounded or (row.way == TWO_UNITS and row.beside.failures) for row in rows
    )
