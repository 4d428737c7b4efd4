"""Phases: four concurrent clients repeat the same operation; the CPU time of the servers is measured."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from tests.bench.cpu import Snapshot
from tests.bench.targets import Failed, Floor, Service, Target

CLIENTS = 4
RACERS = 10
PHASE_SECONDS = 120
ENDING = (signal.SIGINT, signal.SIGTERM)

Operation = Callable[[HTTPConnection, int], Any]
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Measured:
    """One phase of one round. CPU is in milliseconds for one operation."""

    target: str
    phase: str
    round: int
    asked: int
    done: int
    failures: dict[str, int]
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu: dict[str, float]
    other: float  # the share of the machine that other processes used

    @property
    def cost(self) -> float:
        """Server and PostgreSQL, without Redis, which is listed separately."""
        return self.cpu["server"] + self.cpu["postgresql"]


@dataclass
class Share:
    """The results of one client."""

    milliseconds: list[float] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    began: float = 0.0
    ended: float = 0.0


def drive(target: Target, phase: str, number: int, operation: Operation, count: int) -> tuple[Measured, list[Any]]:
    """Run the operation `count` times, or for PHASE_SECONDS. Returns its cost and its results."""
    before = Snapshot.of(target.roots)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # Python loses exceptions of these threads during a fork
    try:
        counter = _fork.Value("q", 0)
        clients = [_started(target, operation, counter, count) for _ in range(CLIENTS)]
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    shares = [_received(pipe) for _, pipe in clients]
    for process, _ in clients:
        process.join(10)
    used, other = Snapshot.of(target.roots).since(before)
    times = sorted(itertools.chain.from_iterable(share.milliseconds for share in shares))
    results = list(itertools.chain.from_iterable(share.results for share in shares))
    seconds = max(share.ended for share in shares) - min(share.began for share in shares)
    done = len(times)
    measured = Measured(
        target=target.name,
        phase=phase,
        round=number,
        asked=count,
        done=done,
        failures=dict(sum((share.failures for share in shares), Counter())),
        per_second=done / seconds,
        p50_ms=percentile(times, 50),
        p99_ms=percentile(times, 99),
        cpu={name: value / max(1, done) for name, value in used.items()},
        other=other,
    )
    return measured, results


def of_service(service: Service, number: int, operations: int) -> Iterable[Measured]:
    """Authorize, token, user info and complete flows: each code is redeemed, and the tokens are used in turn."""
    measured, codes = drive(service, "authorize", number, service.authorize, operations)
    yield measured
    measured, tokens = drive(service, "token", number, lambda line, i: service.token(line, codes[i]), len(codes))
    yield measured
    for issued in (codes, tokens):
        assert len(set(issued)) == len(issued), "issued twice"
    if tokens:
        ask: Operation = lambda line, i: service.userinfo(line, tokens[i % len(tokens)])  # noqa: E731
        yield drive(service, "userinfo", number, ask, 2 * operations)[0]
    yield drive(service, "flow", number, service.flow, math.ceil(operations / 2))[0]


def of_floor(floor: Floor, number: int, operations: int) -> Measured:
    return drive(floor, "select", number, floor.select, 2 * operations)[0]


def race(service: Service, codes: int) -> Counter[int]:
    """The number of codes by the number of winners when RACERS redeem each code at once. It must be one winner."""
    winners: Counter[int] = Counter()
    lines = [service.line() for _ in range(RACERS)]
    for number in range(codes):
        code = service.authorize(lines[0], number)
        for line in lines:
            service.redeem(line, code)
        winners[[_status(line) for line in lines].count(200)] += 1
    for line in lines:
        line.close()
    return winners


def _status(line: HTTPConnection) -> int:
    with line.getresponse() as answer:
        answer.read()
        return answer.status


def percentile(ordered: list[float], percent: float) -> float:
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)] if ordered else math.nan


def _started(target: Target, operation: Operation, counter: Any, count: int) -> tuple[BaseProcess, Connection]:
    here, there = _fork.Pipe(duplex=False)
    process = _fork.Process(target=_client, args=(target, operation, counter, count, there), daemon=True)
    process.start()
    there.close()
    return process, here


def _client(target: Target, operation: Operation, counter: Any, count: int, answer: Connection) -> None:
    """A separate process. All clients take numbers from one counter, so that none is idle at the end."""
    for name in ENDING:
        signal.signal(name, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    share, line = Share(began=time.monotonic()), target.line()
    while time.monotonic() < share.began + PHASE_SECONDS:
        with counter.get_lock():
            number, counter.value = counter.value, counter.value + 1
        if number >= count:
            break
        started = time.perf_counter()
        try:
            result = operation(line, number)
        except (Failed, OSError, HTTPException) as error:
            share.failures[str(error) if isinstance(error, Failed) else type(error).__name__] += 1
            line.close()
            continue
        share.milliseconds.append((time.perf_counter() - started) * 1000)
        if result is not None:
            share.results.append(result)
    share.ended = time.monotonic()
    answer.send(share)


def _received(pipe: Connection) -> Share:
    """Raises RuntimeError: the client ended without a result, or does not end."""
    if pipe.poll(PHASE_SECONDS + 90):
        try:
            share: Share = pipe.recv()
        except EOFError:
            raise RuntimeError("A client of the benchmark died.") from None
        return share
    raise RuntimeError("A client of the benchmark does not end.")
