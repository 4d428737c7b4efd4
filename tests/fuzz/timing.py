"""Compare response times so that noise neither looks like a difference nor hides one.

Every kind of request exists twice, as twins, and each round sends all once, in random order. The time of a kind is the
fastest twentieth of its requests, because other load only ever makes a request slower. The noise is measured by
comparing the twins of a kind, with the twins exchanged at random in each round (A/A).
"""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.server import Server

FASTEST = 0.05
FLIPS = 1000
CERTAINTY = 0.999
# The first letters of unknown client_ids, which have the same length and characters as others.
MARK = "feedfeed"
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)

Maker = Callable[[int], bytes]


class Comparison(NamedTuple):
    """In microseconds. The twins differ by less than `noise` in 99.9 % of the cases."""

    difference: float
    twins: float
    noise: float

    def __str__(self) -> str:
        return f"{self.difference:+7.1f} µs (A/A {self.twins:+5.1f}, noise {self.noise:4.1f})"


def post(server: Server, form: str, path: str = "/oauth/token", more: str = "") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: {urlsplit(server.base_url).netloc}\r\n{more}"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n{form}"
    ).encode()


def measured(
    server: Server, makers: Mapping[str, Maker], rounds: int, seed: int = 0, statuses: tuple[int, ...] = (400, 401)
) -> dict[str, list[float]]:
    """Microseconds until the complete response, for each round, by kind; the twin's name ends in `'`."""
    names = [name + twin for name in makers for twin in ("", "'")]
    taken: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(seed)
    netloc = urlsplit(server.base_url).netloc
    with socket.create_connection(("127.0.0.1", int(netloc.rpartition(":")[2])), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(rounds):
            order.shuffle(names)
            # All are made before one is sent: a request that is sent right after it was made takes 8 µs longer.
            for name, request in [(name, makers[name.rstrip("'")](number)) for name in names]:
                began = time.perf_counter_ns()
                connection.sendall(request)
                answer = connection.recv(65536)
                while not is_whole(answer):
                    answer += connection.recv(65536)
                taken[name].append((time.perf_counter_ns() - began) / 1000)
                assert int(answer[9:12]) in statuses, answer[:80]
    return taken


def is_whole(answer: bytes) -> bool:
    head, end, body = answer.partition(b"\r\n\r\n")
    length = LENGTH.search(head)
    return bool(end) and length is not None and len(body) >= int(length[1])


def compared(taken: Mapping[str, list[float]], one: str, other: str) -> Comparison:
    rounds = list(zip(taken[one], taken[f"{one}'"], taken[other], taken[f"{other}'"], strict=True))
    chance = random.Random(0)
    by_chance = sorted(abs(_twins(rounds, chance.getrandbits(2 * len(rounds)))) for _ in range(FLIPS))
    difference = speed(taken[one] + taken[f"{one}'"]) - speed(taken[other] + taken[f"{other}'"])
    return Comparison(difference, _twins(rounds, 0), by_chance[int(FLIPS * CERTAINTY)])


def speed(taken: list[float]) -> float:
    return sorted(taken)[int(len(taken) * FASTEST)]


def _twins(rounds: list[tuple[float, float, float, float]], swapped: int) -> float:
    """The first of each pair compared with the second; each bit of `swapped` exchanges one pair."""
    first, second = [], []
    for place, (a, aa, b, bb) in enumerate(rounds):
        first += [aa if swapped >> 2 * place & 1 else a, bb if swapped >> 2 * place & 2 else b]
        second += [a if swapped >> 2 * place & 1 else aa, b if swapped >> 2 * place & 2 else bb]
    return speed(first) - speed(second)
