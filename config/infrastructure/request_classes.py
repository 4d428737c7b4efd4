"""The classes of requests: which threads answer them, and how long they may wait for one. Issue 20, 9.

The first to be refused is the first of the table: a page of a stranger before a sign-in, a sign-in before an
authorization, and user info last. `config.infrastructure.paths` has the class of each path.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto


class Pool(Enum):
    """The threads of a worker. Requests of one pool never occupy a thread of another."""

    PAGES = auto()
    PASSWORDS = auto()
    OPERATIONS = auto()
    PROBES = auto()
    REFUSALS = auto()


@dataclass(frozen=True, slots=True)
class RequestClass:
    """Refused is a request that finds `places` others waiting in its pool, or that has waited for `seconds`."""

    pool: Pool
    places: int
    seconds: float
    # The longest wait for one answer of the database. Longer than the time-out of a statement where that may be long.
    database_seconds: float = 3.0


STRANGER = RequestClass(Pool.PAGES, places=64, seconds=5)
ADMINISTRATION = RequestClass(Pool.PAGES, places=80, seconds=8, database_seconds=12)
SIGN_IN = RequestClass(Pool.PASSWORDS, places=128, seconds=15)
AUTHORIZE = RequestClass(Pool.PAGES, places=96, seconds=8)
TOKEN = RequestClass(Pool.OPERATIONS, places=128, seconds=4)
USERINFO = RequestClass(Pool.OPERATIONS, places=192, seconds=6)
PROBE = RequestClass(Pool.PROBES, places=32, seconds=10)

# Whether the request that this thread answers must be refused: it was one too many, or has waited for too long.
must_refuse: ContextVar[bool] = ContextVar("must_refuse", default=False)
RETRY_AFTER_SECONDS = "5"
