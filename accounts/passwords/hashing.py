"""Hash passwords with Argon2id, one at a time in each process. D15.

A hash takes about twenty times as long as a user info request, and occupies a core and 19 MiB of memory. So a process
computes one hash at a time. Posts of password forms have a separate thread (`config.infrastructure.request_classes`).
Other requests that hash a password, such as those of administrators, wait in `OneAtATime.turn`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import Argon2PasswordHasher, make_password

from config.infrastructure import measures
from config.infrastructure.request_classes import must_refuse

# The longest time in seconds that a thread waits for its turn to hash.
WAIT_SECONDS = 3
RETRY_AFTER_SECONDS = 3


class HashingBusy(Exception):
    """The password was not hashed, because too many requests wait. Try again after RETRY_AFTER_SECONDS."""


class OneAtATime:
    """Lets only one thread at a time run a block."""

    def __init__(self) -> None:
        self._running = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises HashingBusy: `must_refuse` is set, or another thread was still hashing after WAIT_SECONDS."""
        self.raise_if_busy()
        if not self._running.acquire(timeout=WAIT_SECONDS):
            raise HashingBusy
        try:
            yield
        finally:
            self._running.release()

    def raise_if_busy(self) -> None:
        """Raise HashingBusy if no thread was free for the request in time (`must_refuse`).

        Call this before other work, so that a refused request takes little time.
        """
        if must_refuse.get():
            raise HashingBusy


hashes = OneAtATime()


@contextmanager
def _measured_turn() -> Iterator[None]:
    began = time.perf_counter()
    with hashes.turn():
        if measures.meter:
            measures.meter.password_waited(time.perf_counter() - began)
        yield


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with the second of OWASP's parameter sets. Passwords hashed with other parameters stay valid.

    `encode` and `verify` can raise HashingBusy.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # in KiB
    parallelism = 1  # more lanes use more cores, but do not make guessing more expensive

    def encode(self, password: str, salt: str) -> str:
        with _measured_turn():
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        with _measured_turn():
            return super().verify(password, encoded)


def upgraded(password: str, encoded: str) -> str:
    """Hash the password with the current parameters and the salt of `encoded`. Can raise HashingBusy."""
    return make_password(password, salt=PasswordHasher().decode(encoded)["salt"])


def salt_of(encoded: str) -> str:
    """Return the salt of a stored password. A new password has a new salt; an upgrade of the hash keeps the salt.

    If the password is unusable, or if another algorithm made the hash, return `encoded` itself.
    """
    parts = encoded.split("$")
    return parts[-2] if parts[0] == PasswordHasher.algorithm else encoded
