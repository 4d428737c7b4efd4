"""Traces of a sign-in, at a real collector: what they contain and what they never contain; a collector that is away."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from django.conf import settings

from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory
from tests.server import Server
from tests.trace_collector import PATH, Collector, values

KEY = "hidden-key-of-the-collector"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED, NOT_SAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"
SECONDS = 8  # the collector would be given 60
REQUEST_ATTRIBUTES = {
    *("http.request.method", "http.response.status_code", "http.route", "delegated.reference", "delegated.code"),
}
PART_ATTRIBUTES = {"db.system.name", "db.operation.name", "db.collection.name", "error.type"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector().listening() as listening:
        yield listening


def traced(launch: Launch, collector: Collector, **changes: Any) -> Server:
    """A server that sends its spans ten times a second."""
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={KEY}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    return launch(**{**variables, **changes})


def lines(server: Server, **members: object) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in server.log.splitlines()]
    return [line for line in found if all(line.get(name) == value for name, value in members.items())]


def test_a_sign_in_is_four_traces_without_a_credential_an_address_or_a_person(
    launch: Launch, collector: Collector, redis_server: Any, alice: Any
) -> None:
    server = traced(launch, collector, REDIS_URL=redis_server.url, RATE_LIMITS="on", OTEL_SERVICE_NAME="sign-in")
    application, driver = ApplicationFactory(), OAuthDriver(server.base_url, server.auth_url)
    state = "a-state-of-the-application"
    callback = driver.authorize(driver.authorization_url(application, state=state), alice.email, PASSWORD)
    code = callback.parameters["code"]
    token = driver.exchange(application, code).json()["access_token"]
    answer = driver.userinfo(token)
    assert answer.json()["sub"] == str(alice.pk)
    assert driver.exchange(application, code).status_code == 400
    requests.get(f"{server.base_url}/no-such-path-{state}", params={"code": state}, timeout=20)
    refused = collector.wait_for("POST /oauth/token", lambda span: values(span.attributes).get("delegated.code"))
    missing = collector.wait_for("GET")

    path, headers, _body = collector.requests[0]
    assert (path, headers["x-key"]) == (PATH, KEY)
    assert collector.resource.items() >= {"service.name": "sign-in", "service.version": settings.VERSION}.items()

    userinfo = collector.wait_for("GET /oauth/userinfo")
    assert values(userinfo.attributes) == {
        "http.request.method": "GET",
        "http.route": "/oauth/userinfo",
        "http.response.status_code": 200,
        "delegated.reference": answer.headers["X-Reference"],
    }
    assert userinfo.parent_span_id == b""
    parts = {span.name: values(span.attributes) for span in collector.children_of(userinfo)}
    assert parts["SELECT oauth_bridge_accesstoken"]["db.collection.name"] == "oauth_bridge_accesstoken"
    assert parts["redis"] == {}
    (line,) = lines(server, reference=answer.headers["X-Reference"], message="request")
    assert line["trace_id"] == userinfo.trace_id.hex()

    exchange = collector.wait_for("POST /oauth/token", lambda span: span.span_id != refused.span_id)
    assert {span.name for span in collector.children_of(exchange)} > {"SELECT oauth_bridge_application", "redis"}
    sign_in = collector.wait_for("POST /accounts/sign-in")
    assert any(span.name.startswith("INSERT accounts_session") for span in collector.children_of(sign_in))
    assert {"GET /oauth/authorize", "POST /oauth/authorize"} <= {span.name for span in collector.spans()}
    described = values(refused.attributes)
    (event,) = lines(server, event="refused", reference=described["delegated.reference"])
    assert described["delegated.code"] == event["code"]
    assert values(missing.attributes)["delegated.code"] == "not_found"
    assert not [span for span in collector.spans() if "health" in span.name]

    for span in collector.spans():
        assert set(values(span.attributes)) <= REQUEST_ATTRIBUTES | PART_ATTRIBUTES
        assert not span.events
        assert not span.status.message
    raw, netloc = collector.raw, server.base_url.partition("://")[2]
    sent = [code, token, state, PASSWORD, application.secret, application.client_id, application.redirect_uri]
    about = [alice.email, alice.nickname, str(alice.pk), alice.pk.hex, "127.0.0.1", netloc, "python-requests"]
    cookies = [str(cookie.value) for cookie in driver.browser.cookies]
    assert cookies
    assert [text for text in (*sent, *about, *cookies) if text.encode() in raw] == []
    assert KEY not in server.log


def test_the_parent_is_that_of_a_trusted_proxy_alone(launch: Launch, collector: Collector) -> None:
    behind = traced(launch, collector, TRUSTED_PROXIES="127.0.0.1")
    open_to_all = traced(launch, collector)
    for server, sent in ((behind, NOT_SAMPLED), (behind, SAMPLED), (open_to_all, SAMPLED)):
        requests.get(f"{server.base_url}/oauth/jwks", headers={"traceparent": sent}, timeout=20)
    child = collector.wait_for("GET /oauth/jwks", lambda span: span.parent_span_id)
    root = collector.wait_for("GET /oauth/jwks", lambda span: not span.parent_span_id)
    assert (child.trace_id.hex(), child.parent_span_id.hex()) == (TRACE, PARENT)
    assert root.trace_id.hex() != TRACE
    assert len(collector.named("GET /oauth/jwks")) == 2, "what the proxy does not record is not sent"
    assert len(lines(behind, trace_id=TRACE, parent_id=PARENT)) == 2
    assert open_to_all.logged(root.trace_id.hex())
    assert TRACE not in open_to_all.log


@pytest.mark.parametrize("is_listening", [True, False], ids=["hangs", "is away"])
def test_no_request_reload_or_stop_waits_for_the_collector(launch: Launch, is_listening: bool) -> None:
    collector = Collector(status=0)
    if not is_listening:
        serve_with(launch, collector)
        return
    with collector.listening():
        serve_with(launch, collector)
        assert collector.requests


def serve_with(launch: Launch, collector: Collector) -> None:
    """Fill the queue of spans, reload and stop."""
    small = {"OTEL_BSP_MAX_QUEUE_SIZE": "20", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10"}
    server = traced(launch, collector, **small, OTEL_EXPORTER_OTLP_TIMEOUT="60")
    slowest = 0.0
    for _ in range(60):
        began = time.monotonic()
        assert requests.get(f"{server.base_url}/oauth/jwks", timeout=20).status_code == 200
        slowest = max(slowest, time.monotonic() - began)
    assert slowest < SECONDS
    before = server.workers()
    server.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 90
    while server.workers() & before and time.monotonic() < end:
        assert requests.get(f"{server.base_url}/oauth/jwks", timeout=20).status_code == 200
    assert not server.workers() & before
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert time.monotonic() - began < SECONDS
    of_traces = [line for line in lines(server) if line["logger"].startswith(("opentelemetry", "config.http.tracing"))]
    assert len(of_traces) <= 6, of_traces
    assert KEY not in server.log
