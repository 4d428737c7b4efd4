"""Argon2id for passwords: how expensive a hash is, and how many may be made at once. D15.

A hash occupies a core and 19 MiB of memory for about twenty times as long as a user info request. So a process makes
one at a time, and rarely lets a second request wait for it: it holds a thread that could answer others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import Argon2PasswordHasher, make_password

from config.infrastructure import measures

# The longest wait of a request for the hash before its own.
WAIT_SECONDS = 0.5
# For this long after a wait, no other request may wait.
REST_SECONDS = 0.25
RETRY_AFTER_SECONDS = 3


class HashingBusy(Exception):
    """The password was not checked, because this process hashes another. Try again after RETRY_AFTER_SECONDS."""


class OneAtATime:
    """Runs one block at a time and lets one thread wait for it, at most once in REST_SECONDS."""

    def __init__(self) -> None:
        self._running = threading.Lock()
        self._waiting = threading.Lock()
        self._may_wait_from = 0.0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Raises HashingBusy: another block runs, and this thread may not wait or has waited for WAIT_SECONDS."""
        if not self._running.acquire(blocking=False) and not self._wait():
            raise HashingBusy
        try:
            yield
        finally:
            self._running.release()

    def raise_if_busy(self) -> None:
        """Raises HashingBusy: `turn` would raise it now.

        Call this before other work, so that a refusal costs little.
        """
        if self._running.locked() and not self._may_wait():
            raise HashingBusy

    def _may_wait(self) -> bool:
        return not self._waiting.locked() and time.monotonic() >= self._may_wait_from

    def _wait(self) -> bool:
        if not self._may_wait() or not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._running.acquire(timeout=WAIT_SECONDS)
        finally:
            self._may_wait_from = time.monotonic() + REST_SECONDS
            self._waiting.release()


hashes = OneAtATime()


@contextmanager
def _measured_turn() -> Iterator[None]:
    began = time.perf_counter()
    with hashes.turn():
        if measures.meter:
            measures.meter.password_waited(time.perf_counter() - began)
        yield


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with the second of OWASP's parameter sets. Passwords hashed with other parameters are still verified.

    Both methods raise HashingBusy.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # in KiB
    parallelism = 1  # more lanes make a hash no more expensive, and occupy more cores

    def encode(self, password: str, salt: str) -> str:
        with _measured_turn():
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        with _measured_turn():
            return super().verify(password, encoded)


def upgraded(password: str, encoded: str) -> str:
    """The password hashed with the present parameters and the salt of `encoded`. Raises HashingBusy."""
    return make_password(password, salt=PasswordHasher().decode(encoded)["salt"])


def salt_of(encoded: str) -> str:
    """The salt of a stored password. A new password has a new salt; an upgrade of the hash keeps it.

    For a hash of another algorithm or an unusable password, it is the whole column.
    """
    parts = encoded.split("$")
    return parts[-2] if parts[0] == PasswordHasher.algorithm else encoded
