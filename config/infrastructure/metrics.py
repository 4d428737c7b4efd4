"""The metrics, which docs/operations.md explains. No label contains a person, an application, an address or free text.

With METRICS_BIND, each worker counts in files (`config/gunicorn.py`). Otherwise the counts stay in memory.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ANSWERS = Histogram(
    "delegated_http_request_duration_seconds",
    "Time to answer.",
    ["method", "route", "status"],
    # User info takes about one millisecond, and hashing a password takes twenty to thirty.
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
REFUSALS = Counter("delegated_refusals", "Answers that are errors.", ["route", "error", "code"])
EVENTS = Counter("delegated_events", "Security events.", ["event"])
PASSWORD_WAIT = Histogram(
    "delegated_password_wait_seconds",
    "Wait for the turn to hash a password.",
    buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)


def _sum(name: str, text: str) -> Gauge:
    """Return a gauge of each living worker. Prometheus gets the sum."""
    return Gauge(f"delegated_{name}", text, multiprocess_mode="livesum")


def _newest(name: str, text: str, *labels: str) -> Gauge:
    """Return a gauge that all workers set to the same. Prometheus gets the newest value, and none before the first."""
    return Gauge(f"delegated_{name}", text, labels, multiprocess_mode="livemostrecent")


IN_FLIGHT = _sum("http_requests_in_flight", "Requests that are answered now. Each occupies a thread.")
THREADS = _sum("threads", "Threads that answer requests.")
REDIS_AWAY = _sum("redis_away_workers", "Workers that go on without Redis, because it does not answer.")
BUILD_INFO = _newest("build_info", "1. The labels are the versions.", "version", "python")
DATABASE_UP = _newest("database_up", "1 while the database answers, else 0.")
QUEUE_WAITING = _newest("queue_waiting", "Rows that wait.", "queue")
QUEUE_RETRIED = _newest("queue_retried", "Rows that wait after an attempt has failed.", "queue")
QUEUE_OVERDUE = _newest("queue_overdue_seconds", "How long the oldest row that is due waits.", "queue")
PURGE_AGE = _newest("purge_age_seconds", "Time since the last complete purge.")
SIGNING_KEY_AGE = _newest("signing_key_age_seconds", "Age of the newest key of ID tokens.", "algorithm")
