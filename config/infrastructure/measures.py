"""The interface through which modules pass counts to `config.metrics`. Without METRICS_BIND, and in commands, counts
are dropped.
"""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Each method counts the event that its name describes. All text arguments come from fixed tables of the code."""

    def request_began(self) -> None: ...

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None: ...

    def request_ended(self) -> None: ...

    def request_refused(self, route: str, error: str, code: str) -> None: ...

    def event_written(self, event: str) -> None: ...

    def password_waited(self, seconds: float) -> None: ...

    def redis_is_away(self, is_away: bool) -> None: ...


meter: Meter | None = None
