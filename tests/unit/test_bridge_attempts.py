"""The number of an attempt: unique, and in the order of time."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import time_machine

from oauth_bridge.consent.request import new_attempt


def test_attempts_are_unique_and_in_the_order_of_time() -> None:
    with time_machine.travel("2026-11-21T12:00:00Z", tick=False) as clock:
        first, second = new_attempt(), new_attempt()
        assert first != second
        clock.shift(0.001)
        later = new_attempt()
    assert later > max(first, second)
    for attempt in (first, second, later):
        assert (UUID(attempt).version, UUID(attempt).variant) == (7, RFC_4122)
    assert int(first[:12], 16) == 1795262400000
