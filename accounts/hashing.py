"""Argon2id for passwords: how expensive a hash is, and how many may be made at once. D15.

A hash keeps one core and 19 MiB of memory for about twenty times as long as user info takes. So a process makes one at
a time, and rarely lets a second request wait for it: that one would hold the thread which answers everybody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.hashers import Argon2PasswordHasher, make_password

# The longest that a request waits for the hash before its own.
WAIT_SECONDS = 0.5
# After a wait, others that come while a hash is made are refused for so long.
REST_SECONDS = 0.25
RETRY_AFTER_SECONDS = 3


class HashingBusy(Exception):
    """The password was not looked at, because this process hashes others. Try again after RETRY_AFTER_SECONDS."""


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
        """Raises HashingBusy: `turn` would refuse at this moment. Asked first, so that a refusal costs little."""
        if self._running.locked() and (self._waiting.locked() or time.monotonic() < self._may_wait_from):
            raise HashingBusy

    def _wait(self) -> bool:
        if time.monotonic() < self._may_wait_from or not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._running.acquire(timeout=WAIT_SECONDS)
        finally:
            self._may_wait_from = time.monotonic() + REST_SECONDS
            self._waiting.release()


hashes = OneAtATime()


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with the second of OWASP's parameters. Passwords hashed with others are still verified.

    Both methods raise HashingBusy.
    """

    time_cost = 2
    memory_cost = 19 * 1024  # in KiB
    parallelism = 1  # more lanes make a hash no more expensive, they take the other cores from everybody else

    def encode(self, password: str, salt: str) -> str:
        with hashes.turn():
            return super().encode(password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        with hashes.turn():
            return super().verify(password, encoded)


def upgraded(password: str, encoded: str) -> str:
    """The password hashed with the parameters of today and the salt of `encoded`. Raises HashingBusy."""
    return make_password(password, salt=PasswordHasher().decode(encoded)["salt"])


def salt_of(encoded: str) -> str:
    """What differs between any two passwords that are set, and stays when a hash is upgraded.

    Where nobody can sign in with a password, the whole column.
    """
    parts = encoded.split("$")
    return parts[-2] if parts[0] == PasswordHasher.algorithm else encoded
