"""The interface through which modules pass counts to `config.metrics` and spans to `config.http.tracing`.

Without METRICS_BIND, counts are dropped. Without a collector of traces, spans are dropped. Commands drop counts and
spans.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
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
# `with span("redis"):` adds a span to the trace of the present request. The name of the span is always a literal.
span: Callable[[str], AbstractContextManager[object]] = nullcontext
