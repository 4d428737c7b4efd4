"""The counts and spans that lower layers pass to `config.metrics` and `config.http.tracing`.

In commands, and without METRICS_BIND or a collector of traces, they are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Meter(Protocol):
    """Each method counts the event in its name. All texts are from closed tables of the code."""

    def request_began(self) -> None: ...

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None: ...

    def request_ended(self) -> None: ...

    def request_refused(self, route: str, error: str, code: str) -> None: ...

    def event_written(self, event: str) -> None: ...

    def password_waited(self, seconds: float) -> None: ...

    def redis_is_away(self, is_away: bool) -> None: ...


meter: Meter | None = None
# `with span("redis"):` is a part of the present request in its trace. The name is from the code.
span: Callable[[str], AbstractContextManager[object]] = nullcontext
