"""A finding of `manage.py check-deployment`, and the time limit of a check."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from django.db import connections

logger = logging.getLogger(__name__)

# The longest wait for one answer. A check that waits for several answers may take a multiple of this time.
WAIT_SECONDS = 5


class Finding(NamedTuple):
    """The result of a check. `message` and `fix` are sentences; `fix` is empty if nothing is wrong."""

    name: str
    status: Literal["ok", "warning", "failed", "skipped"]
    message: str
    fix: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name, "ok", message)


def warning(name: str, message: str, fix: str) -> Finding:
    return Finding(name, "warning", message, fix)


def failed(name: str, message: str, fix: str) -> Finding:
    return Finding(name, "failed", message, fix)


def skipped(name: str, message: str) -> Finding:
    return Finding(name, "skipped", message)


def bounded(name: str, check: Callable[[], list[Finding]], waits: int = 1) -> list[Finding]:
    """Run the check. Return a failure if it raises an error or takes longer than `waits` times WAIT_SECONDS.

    The check runs in a daemon thread, because a DNS lookup cannot be cancelled.
    """
    found: list[list[Finding]] = []

    def run() -> None:
        try:
            found.append(check())
        except Exception as error:
            logger.exception("check failed", extra={"check": name})
            fix = "Its line in the log says where; report it if the log does not explain it."
            found.append([failed(name, f"The check ended with the error {type(error).__name__}.", fix)])
        finally:
            connections.close_all()

    thread = threading.Thread(target=run, name=f"check {name}", daemon=True)
    thread.start()
    thread.join(waits * WAIT_SECONDS)
    if found:
        return found[0]
    message = f"There was no answer within {waits * WAIT_SECONDS} seconds."
    return [failed(name, message, "Is a machine or a firewall on the way silent, or the server stopped?")]


def of_clock(name: str, whose: str, seconds_ahead: float) -> Finding:
    """Return the finding about a clock that is `seconds_ahead` seconds ahead of the clock of this machine."""
    if abs(seconds_ahead) <= 1:
        return ok(name, f"The clocks of {whose} and this machine agree.")
    direction = "ahead of" if seconds_ahead > 0 else "behind"
    message = f"The clock of {whose} is {abs(seconds_ahead):.0f} seconds {direction} that of this machine."
    fix = "Let both machines keep time by NTP (Debian: systemd-timesyncd or chrony)."
    return failed(name, message, fix) if abs(seconds_ahead) > 10 else warning(name, message, fix)
