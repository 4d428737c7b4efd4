"""The password hasher of tests.settings."""

from __future__ import annotations

from accounts.passwords.hashing import PasswordHasher


class QuickPasswordHasher(PasswordHasher):
    time_cost = 1
    memory_cost = 8  # in KiB
