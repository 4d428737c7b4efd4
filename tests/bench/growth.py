"""Growth: the same operations on an empty database and on full ones. `python -m tests.bench growth`.

All databases are in one PostgreSQL, each with a separate service, and are measured in turn, so that other load in a
round affects all. Pages outside PostgreSQL's buffers are read from the system's cache, which costs CPU time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.client import HTTPConnection
from statistics import median

from django.db import connection

from tests.bench import phases, report, rows, stack
from tests.bench.phases import Measured
from tests.bench.targets import Service

MUST = 1.2
SIGNED_IN = 500
PRIME = 7919  # steps of this size visit every row of a table, far apart
# Reads tokens of all people and times, not only recent ones. Compared with user info on the empty database.
ANY_TOKEN = "any token"
OPERATIONS = (*report.PHASES, ANY_TOKEN)


def measure(sizes: list[int], rounds: int, operations: int, shared_buffers: str, say: rows.Say) -> list[Measured]:
    """Sizes are rows of tokens and of codes, with a tenth as many people. Other sizes are compared with the first."""
    measured: list[Measured] = []
    with stack.stack(shared_buffers) as given, stack.floor(given) as floor, ExitStack() as served:
        services = [served.enter_context(stack.service(grown(given, size, say), str(size))) for size in sizes]
        for number in range(rounds + 1):
            say(f"Round {number} of {rounds} …" if number else "Warming up …")
            some = operations if number else max(8, operations // 5)
            first = number % len(services)
            of_round = list(
                itertools.chain.from_iterable(_of(each, number, some) for each in _rotated(services, first))
            )
            of_round.append(phases.of_floor(floor, number, some))
            measured += of_round if number else []
    return measured


def grown(given: stack.Stack, size: int, say: rows.Say) -> stack.Stack:
    """A copy of the database with so many rows, in which people from the whole table are signed in."""
    name = f"rows_{size}"
    stack.execute(given.postgresql_port, f"CREATE DATABASE {name} TEMPLATE service")
    stack.use(name)
    if not size:
        return given
    people = max(SIGNED_IN, size // 10)
    rows.fill(people, size, size, say=say)
    rows.settle()
    stack.execute(given.postgresql_port, "CHECKPOINT")  # writes that remain from loading are not measured
    cookies = stack.signed_in(1 + n * (people // SIGNED_IN) for n in range(SIGNED_IN))
    connection.close()
    return replace(given, cookies=cookies)


def _of(service: Service, number: int, operations: int) -> Iterator[Measured]:
    yield from phases.of_service(service, number, operations)
    if size := int(service.name):
        start = number * 2 * operations

        def ask(line: HTTPConnection, i: int) -> None:
            service.userinfo(line, rows.token(1 + (start + i) * PRIME % size))

        yield phases.drive(service, ANY_TOKEN, number, ask, 2 * operations)[0]


def _rotated(services: list[Service], first: int) -> list[Service]:
    return services[first:] + services[:first]


def ratios(measured: list[Measured], sizes: list[int], size: int, operation: str) -> list[float]:
    """Cost at this size divided by the cost at the first one, round by round."""
    compared = "userinfo" if operation == ANY_TOKEN else operation
    at_first = {each.round: each.cost for each in measured if (each.target, each.phase) == (str(sizes[0]), compared)}
    found = [each for each in measured if (each.target, each.phase) == (str(size), operation)]
    return [each.cost / (at_first[each.round] or float("nan")) for each in found]


def table(measured: list[Measured], sizes: list[int]) -> str:
    lines = [
        ("CPU", f"ms at {named(sizes[0])}", *(f"× at {named(size)}" for size in sizes[1:]), "must"),
        ("operation", "median", *("min / median / max" for _ in sizes[1:]), f"≤ {MUST}"),
    ]
    for operation in OPERATIONS:
        costs = [each.cost for each in measured if (each.target, each.phase) == (str(sizes[0]), operation)]
        found = [ratios(measured, sizes, size, operation) for size in sizes[1:]]
        told = [f"{min(each):.2f} / {median(each):.2f} / {max(each):.2f}" for each in found]
        verdict = "OVER" if any(median(each) > MUST for each in found) else "held"
        lines.append((operation, f"{median(costs):.2f}" if costs else "", *told, verdict))
    return report.aligned(lines)


def named(size: int) -> str:
    for unit, name in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and not size % unit:
            return f"{size // unit} {name}"
    return str(size) if size else "empty"
