"""The ids of a request that a proxy sends are in its line of the log; a stranger's are not."""

from __future__ import annotations

import logging
from ipaddress import ip_network
from typing import Any

import pytest
from django.test import Client, RequestFactory

from config.http import trace_context

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
SENT = {"HTTP_X_REQUEST_ID": "a1-B2", "HTTP_TRACEPARENT": TRACEPARENT}
NAMES = {"request_id", "trace_id", "parent_id"}
MALFORMED = {
    "HTTP_X_REQUEST_ID": ("", "x" * 65, "a b", 'a"b', "a\nb", "ä", "a;b"),
    "HTTP_TRACEPARENT": (
        *("", "00", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"),
        *(TRACEPARENT.upper(), f"00-{TRACE}-{PARENT}-0", f"00-{TRACE}{PARENT}-01"),
    ),
}


@pytest.mark.django_db
def test_the_line_of_the_request_has_the_ids_of_a_trusted_proxy_and_of_nobody_else(
    client: Client, settings: Any, caplog: Any
) -> None:
    def logged(**more: str) -> dict[str, str]:
        caplog.clear()
        client.get("/health/live", **SENT, **more)
        (line,) = [record for record in caplog.records if record.name == "config.access"]
        return {name: value for name, value in vars(line).items() if name in NAMES}

    caplog.set_level(logging.INFO, "config.access")
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]
    assert logged() == {"request_id": "a1-B2", "trace_id": TRACE, "parent_id": PARENT}
    assert logged(REMOTE_ADDR="203.0.113.7", HTTP_X_FORWARDED_FOR="127.0.0.1") == {}
    assert logged(REMOTE_ADDR="") == {}
    settings.TRUSTED_PROXIES = []
    assert logged() == {}


def test_what_is_malformed_is_ignored_and_a_later_version_of_traceparent_is_read_as_far_as_it_is_known(
    rf: RequestFactory, settings: Any
) -> None:
    def found(name: str, text: str) -> dict[str, str]:
        return trace_context.of(rf.get("/", **{name: text}))  # type: ignore[arg-type]

    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]
    assert [(name, text) for name, texts in MALFORMED.items() for text in texts if found(name, text)] == []
    assert found("HTTP_TRACEPARENT", f"01-{TRACE}-{PARENT}-01-more")["trace_id"] == TRACE
