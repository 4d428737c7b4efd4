"""The classes of requests: the threads that answer them, and the longest wait for a thread.

Under load, the classes are refused in the order of the table: pages of strangers first, user info last.
`config.infrastructure.paths` has the class of each path.
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
    """A class of requests. A request is refused if `places` others wait in its pool, or after a wait of `seconds`."""

    pool: Pool
    places: int
    seconds: float
    # The longest wait for one answer of the database; longer for classes whose statements may take long.
    database_seconds: float = 3.0


STRANGER = RequestClass(Pool.PAGES, places=64, seconds=5)
ADMINISTRATION = RequestClass(Pool.PAGES, places=80, seconds=8, database_seconds=12)
SIGN_IN = RequestClass(Pool.PASSWORDS, places=128, seconds=15)
AUTHORIZE = RequestClass(Pool.PAGES, places=96, seconds=8)
TOKEN = RequestClass(Pool.OPERATIONS, places=128, seconds=4)
USERINFO = RequestClass(Pool.OPERATIONS, places=192, seconds=6)
PROBE = RequestClass(Pool.PROBES, places=32, seconds=10)

# Whether the request of this thread must be refused: its class was full, or its wait was too long.
must_refuse: ContextVar[bool] = ContextVar("must_refuse", default=False)
RETRY_AFTER_SECONDS = "5"
