"""The metrics that the workers count. No label contains a person, an application, an address or free text.

Import this module after PROMETHEUS_MULTIPROC_DIR and `values.ValueClass` are set: see `worker`.
"""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from config.infrastructure.events import Event

# In seconds. User info takes about one millisecond, and hashing a password takes twenty to thirty.
LATENCY_BUCKETS = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
METHODS = ("GET", "POST")
# The metrics are served from the files of all workers instead of this registry.
registry = CollectorRegistry()

ANSWERS = Histogram(
    "delegated_http_request_duration_seconds",
    "Time to answer.",
    ["method", "route", "status"],
    registry=registry,
    buckets=LATENCY_BUCKETS,
)
IN_FLIGHT = Gauge(
    "delegated_http_requests_in_flight",
    "Requests that are answered now. Each occupies a thread.",
    registry=registry,
    multiprocess_mode="livesum",
)
THREADS = Gauge("delegated_threads", "Threads that answer requests.", registry=registry, multiprocess_mode="livesum")
REFUSALS = Counter("delegated_refusals", "Answers that are errors.", ["route", "error", "code"], registry=registry)
EVENTS = Counter("delegated_events", "Security events.", ["event"], registry=registry)
PASSWORD_WAIT = Histogram(
    "delegated_password_wait_seconds",
    "Wait for the turn to hash a password.",
    registry=registry,
    buckets=WAIT_BUCKETS,
)
REDIS_AWAY = Gauge(
    "delegated_redis_away_workers",
    "Workers that go on without Redis, because it does not answer.",
    registry=registry,
    multiprocess_mode="livesum",
)


class PrometheusMeter:
    """Implements `config.infrastructure.measures.Meter`.

    The metrics of used labels are kept in memory, because looking up a metric costs more than counting.
    """

    def __init__(self, threads: int) -> None:
        THREADS.set(threads)
        for event in Event:  # Prometheus's `rate` includes the first event only if the count was 0 before
            EVENTS.labels(event.name.lower())
        self._answers: dict[tuple[str, str, int], Histogram] = {}
        self._busy: set[int] = set()  # the ids of the threads that answer a request; each answers one at a time

    def request_began(self) -> None:
        self._busy.add(threading.get_ident())

    def request_answered(self, method: str, route: str, status: int, seconds: float) -> None:
        kept = self._answers.get((method, route, status))
        if kept is None:
            kept = ANSWERS.labels(method if method in METHODS else "other", route, f"{status // 100}xx")
            self._answers[method, route, status] = kept
        kept.observe(seconds)

    def request_ended(self) -> None:
        self._busy.discard(threading.get_ident())

    def publish(self) -> None:
        """Store the number of busy threads for the worker that serves the metrics.

        This method does not run at each request, because it would double the cost of counting.
        """
        IN_FLIGHT.set(len(self._busy))

    def request_refused(self, route: str, error: str, code: str) -> None:
        REFUSALS.labels(route, error, code).inc()

    def event_written(self, event: str) -> None:
        EVENTS.labels(event).inc()

    def password_waited(self, seconds: float) -> None:
        PASSWORD_WAIT.observe(seconds)

    def redis_is_away(self, is_away: bool) -> None:
        REDIS_AWAY.set(is_away)
