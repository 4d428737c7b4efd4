"""Hash passwords with Argon2id, one at a time in each process: a second hashing thread would keep another 19 MiB."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher, make_password

from config.infrastructure import events

T = TypeVar("T")

RETRY_AFTER_SECONDS = 3

# At most half of the threads of requests wait for a hash, so that other requests have threads.
places = threading.BoundedSemaphore(max(settings.WEB_THREADS // 2, 1))
_thread = ThreadPoolExecutor(1, "hashing")


class HashingBusy(Exception):
    """The password was not hashed, because half of the request threads already wait for a hash."""


def in_turn(function: Callable[[str, str], T], *values: str) -> T:
    """Call the function in the single hashing thread, and return its result. Raises HashingBusy."""
    began = time.perf_counter()

    def run() -> T:
        events.PASSWORD_WAIT.observe(time.perf_counter() - began)
        return function(*values)

    if not places.acquire(blocking=False):
        raise HashingBusy
    try:
        return _thread.submit(run).result()
    finally:
        places.release()


class PasswordHasher(Argon2PasswordHasher):
    """Argon2id with the second of OWASP's parameter sets. `encode` and `verify` can raise HashingBusy."""

    time_cost = 2
    memory_cost = 19 * 1024  # in KiB
    parallelism = 1  # more lanes use more cores, but do not make guessing more expensive

    def encode(self, password: str, salt: str) -> str:
        return in_turn(super().encode, password, salt)

    def verify(self, password: str, encoded: str) -> bool:
        return in_turn(super().verify, password, encoded)


def upgraded(password: str, encoded: str) -> str:
    """Return a hash of `password` with the current parameters and the salt of `encoded`. Raises HashingBusy."""
    return make_password(password, salt=PasswordHasher().decode(encoded)["salt"])


def salt_of(encoded: str) -> str:
    """Return the salt of `encoded`, which `upgraded` keeps. If `encoded` is no Argon2id hash, return `encoded`."""
    parts = encoded.split("$")
    return parts[-2] if parts[0] == PasswordHasher.algorithm else encoded
