"""The cheap password hasher with which tests run."""

from __future__ import annotations

from accounts.passwords.hashing import PasswordHasher


class QuickPasswordHasher(PasswordHasher):
    """The service's hasher with the cheapest parameters. Servers under test use the real one."""

    time_cost = 1
    memory_cost = 8  # in KiB
