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
ALL = {"request_id": "a1-B2", "trace_id": TRACE, "parent_id": PARENT}


@pytest.fixture(autouse=True)
def proxy(settings: Any) -> None:
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]


def found(rf: RequestFactory, **sent: str) -> dict[str, str]:
    return trace_context.of(rf.get("/", **sent))  # type: ignore[arg-type]


@pytest.mark.django_db
def test_the_line_of_the_request_has_the_ids_of_the_proxy(client: Client, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "config.access")
    client.get("/health/live", headers={"X-Request-ID": "a1-B2", "traceparent": TRACEPARENT})
    (line,) = [record for record in caplog.records if record.name == "config.access"]
    assert {name: vars(line)[name] for name in ALL} == ALL


def test_nobody_else_is_believed(rf: RequestFactory, settings: Any) -> None:
    sent = {"HTTP_X_REQUEST_ID": "a1-B2", "HTTP_TRACEPARENT": TRACEPARENT}
    assert found(rf, **sent) == ALL
    assert found(rf, REMOTE_ADDR="203.0.113.7", HTTP_X_FORWARDED_FOR="127.0.0.1", **sent) == {}
    assert found(rf, REMOTE_ADDR="", **sent) == {}
    settings.TRUSTED_PROXIES = []
    assert found(rf, **sent) == {}


@pytest.mark.parametrize(
    ("name", "malformed"),
    [
        ("HTTP_X_REQUEST_ID", ("", "x" * 65, "a b", 'a"b', "a\nb", "ä", "a;b")),
        (
            "HTTP_TRACEPARENT",
            (
                *("", "00", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", f"00-{TRACE}-{'0' * 16}-01"),
                *(TRACEPARENT.upper(), f"00-{TRACE}-{PARENT}-0", f"00-{TRACE}{PARENT}-01"),
            ),
        ),
    ],
)
def test_what_is_malformed_is_ignored(rf: RequestFactory, name: str, malformed: tuple[str, ...]) -> None:
    assert [text for text in malformed if found(rf, **{name: text})] == []


def test_a_later_version_of_traceparent_is_read_as_far_as_it_is_known(rf: RequestFactory) -> None:
    assert found(rf, HTTP_TRACEPARENT=f"01-{TRACE}-{PARENT}-01-more")["trace_id"] == TRACE
