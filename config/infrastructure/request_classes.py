"""The classes of requests. A class has a pool of threads that answer its requests, and a maximum wait for a thread.

Under load, the service refuses the classes in the order in which this file defines them: pages of strangers first, user
info last. `config.infrastructure.paths` has the class of each path.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto


class Pool(Enum):
    """A part of a worker's threads. Requests of one pool never occupy a thread of another pool."""

    PAGES = auto()
    PASSWORDS = auto()
    OPERATIONS = auto()
    PROBES = auto()
    REFUSALS = auto()


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A class of requests. A request is refused if `places` others wait in its pool, or after a wait of `seconds`."""

    pool: Pool
    places: int
    seconds: float


STRANGER = RequestClass(Pool.PAGES, places=64, seconds=5)
ADMINISTRATION = RequestClass(Pool.PAGES, places=80, seconds=8)
SIGN_IN = RequestClass(Pool.PASSWORDS, places=128, seconds=15)
AUTHORIZE = RequestClass(Pool.PAGES, places=96, seconds=8)
TOKEN = RequestClass(Pool.OPERATIONS, places=128, seconds=4)
USERINFO = RequestClass(Pool.OPERATIONS, places=192, seconds=6)
PROBE = RequestClass(Pool.PROBES, places=32, seconds=10)

# True if the request of this thread must be refused, because its class was full or its wait was too long.
must_refuse: ContextVar[bool] = ContextVar("must_refuse", default=False)
RETRY_AFTER_SECONDS = "5"
