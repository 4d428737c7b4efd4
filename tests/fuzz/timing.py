"""How long the token operation takes to refuse, compared so that noise can't be taken for a difference, nor hide one.

Every kind of request is there twice. A round sends each once, in random order. The kinds are compared by the median
over the rounds of (A + A') - (B + B'), halved; the same rounds regrouped, (A + B) - (A' + B'), compare a kind with
itself and show what noise alone makes of the same requests: the A/A control.
"""

from __future__ import annotations

import random
import socket
import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.server import Server

FLIPS = 2000
QUANTILE = 0.999
# The first letters of the names of unknown clients, which are as long and of the same kind as others.
MARK = "feedfeed"

Maker = Callable[[int], bytes]


class Comparison(NamedTuple):
    """In microseconds. `noise` is what the control stays below in 99.9 % of the cases."""

    difference: float
    control: float
    noise: float

    def __str__(self) -> str:
        return f"{self.difference:+7.1f} µs (A/A {self.control:+6.1f}, noise {self.noise:5.1f})"


def exchange(server: Server, form: str) -> bytes:
    return (
        f"POST /oauth/token HTTP/1.1\r\nHost: {urlsplit(server.base_url).netloc}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(form)}\r\n\r\n{form}"
    ).encode()


def measured(server: Server, makers: Mapping[str, Maker], rounds: int, seed: int = 0) -> dict[str, list[float]]:
    """Microseconds until a JSON body has come, of each round, by kind and `'` for its twin."""
    names = [name + twin for name in makers for twin in ("", "'")]
    taken: dict[str, list[float]] = {name: [] for name in names}
    order = random.Random(seed)
    netloc = urlsplit(server.base_url).netloc
    with socket.create_connection(("127.0.0.1", int(netloc.rpartition(":")[2])), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for number in range(rounds):
            order.shuffle(names)
            for name in names:
                request = makers[name.rstrip("'")](number)
                began = time.perf_counter_ns()
                connection.sendall(request)
                answer = connection.recv(65536)
                while not answer.endswith(b"}"):
                    answer += connection.recv(65536)
                taken[name].append((time.perf_counter_ns() - began) / 1000)
                assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ")), answer[:80]
    return taken


def compared(taken: Mapping[str, list[float]], one: str, other: str) -> Comparison:
    rows = list(zip(taken[one], taken[f"{one}'"], taken[other], taken[f"{other}'"], strict=True))
    effect = [(a + aa - b - bb) / 2 for a, aa, b, bb in rows]
    control = [(a + b - aa - bb) / 2 for a, aa, b, bb in rows]
    return Comparison(statistics.median(effect), statistics.median(control), noise_of(control))


def noise_of(differences: list[float]) -> float:
    """How far from nothing the median may be when every difference is as likely in the other direction."""
    flips = random.Random(0)
    medians = sorted(abs(statistics.median(flipped(differences, flips))) for _ in range(FLIPS))
    return medians[int(FLIPS * QUANTILE)]


def flipped(differences: list[float], flips: random.Random) -> list[float]:
    bits = flips.getrandbits(len(differences))
    return [-each if bits >> place & 1 else each for place, each in enumerate(differences)]
