"""The variables of traces, the spans of statements, and what it costs to have none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.http import HttpResponse
from django.test import RequestFactory
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from config.http import tracing
from config.infrastructure.errors import RequestError, SiteFault
from tests.trace_collector import PATH, Collector
from tests.unit.test_config_environment import settings_with

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OF_TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
MIDDLEWARE = "config.http.tracing.TracingMiddleware"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """What has been recorded."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(tracing, "tracer", provider.get_tracer("test"))
    return exporter


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, ""),
        ({ENDPOINT: "http://127.0.0.1:4318"}, "http://127.0.0.1:4318/v1/traces"),
        ({ENDPOINT: " https://otel.example.com/base/ "}, "https://otel.example.com/base/v1/traces"),
        ({OF_TRACES: "http://otel_collector:4318/own"}, "http://otel_collector:4318/own"),
        ({ENDPOINT: "http://127.0.0.1:4318", OF_TRACES: "http://[::1]:1/own"}, "http://[::1]:1/own"),
    ],
)
def test_an_endpoint_turns_traces_on(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str) -> None:
    made: Any = settings_with(monkeypatch, **variables)
    assert made["TRACES_ENDPOINT"] == endpoint
    assert (made["MIDDLEWARE"][0] == MIDDLEWARE) == bool(variables)


def test_without_its_packages_an_endpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("config.collector.distribution", missing)
    assert settings_with(monkeypatch)["TRACES_ENDPOINT"] == ""
    sentence = rf"^{ENDPOINT} needs the packages of config/requirements/tracing\.txt\.$"
    with pytest.raises(ImproperlyConfigured, match=sentence):
        settings_with(monkeypatch, **{ENDPOINT: "http://127.0.0.1:4318"})


@pytest.mark.parametrize(
    ("sql", "named"),
    [
        ('SELECT "accounts_user"."id" FROM "accounts_user" WHERE "id" = %s', ("SELECT", "accounts_user")),
        ("WITH a AS (UPDATE oauth_bridge_code SET x = 1) SELECT 1 FROM a", ("UPDATE", "oauth_bridge_code")),
        ("SELECT 1 FROM (SELECT 1) AS always LEFT JOIN accounts_user ON true", ("SELECT", "accounts_user")),
        ("SAVEPOINT s1", ("SAVEPOINT", "")),
        ("BEGIN IMMEDIATE", ("BEGIN", "")),
        ("PRAGMA foreign_keys", ("OTHER", "")),
    ],
)
def test_a_statement_is_named_by_operation_and_table(sql: str, named: tuple[str, str]) -> None:
    assert tracing._named(sql) == named


@pytest.mark.django_db
def test_a_failed_statement_is_named_and_not_quoted(spans: InMemorySpanExporter) -> None:
    wrapped = connection.execute_wrapper(tracing._statement)
    with tracing.tracer.start_as_current_span("request"), wrapped, connection.cursor() as cursor:
        cursor.execute("SELECT 1 WHERE %s = 'hidden'", ["hidden"])
        with pytest.raises(Exception, match="hidden"):
            cursor.execute("SELECT hidden FROM hidden WHERE 'hidden' = %s", ["hidden"])
    right, wrong, _request = spans.get_finished_spans()
    assert (right.name, right.status.is_ok) == ("SELECT", True)
    assert wrong.attributes is not None
    assert wrong.attributes["error.type"] in ("OperationalError", "ProgrammingError")
    assert (wrong.status.is_ok, wrong.status.description, wrong.events) == (False, None, ())


def traced(rf: RequestFactory, path: str, response: HttpResponse) -> None:
    request = rf.get(path)
    request.reference, request.reported = "REFERENC", [RequestError(SiteFault.AWAY)]  # type: ignore[attr-defined]
    tracing.TracingMiddleware(lambda _request: response)(request)


def test_an_error_of_the_service_is_an_error_of_the_span(rf: RequestFactory, spans: InMemorySpanExporter) -> None:
    traced(rf, "/hidden", HttpResponse(status=503))
    traced(rf, "/hidden", HttpResponse(status=404))
    ours, theirs = spans.get_finished_spans()
    assert (ours.status.status_code, theirs.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    assert ours.name == "GET"
    assert ours.attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 503,
        "delegated.reference": "REFERENC",
        "delegated.code": "away",
    }


def test_an_exception_is_not_quoted(rf: RequestFactory, spans: InMemorySpanExporter) -> None:
    def fail(_request: object) -> HttpResponse:
        raise ValueError("hidden")

    with pytest.raises(ValueError, match="hidden"):
        tracing.TracingMiddleware(fail)(rf.get("/"))
    (span,) = spans.get_finished_spans()
    assert "hidden" not in span.to_json()


def test_probes_and_what_happens_outside_of_a_request_have_no_trace(
    rf: RequestFactory, spans: InMemorySpanExporter
) -> None:
    with tracing._part("redis"):
        traced(rf, "/health/live", HttpResponse())
    traced(rf, "/health/ready", HttpResponse(status=503))
    assert spans.get_finished_spans() == ()


@pytest.fixture
def log() -> Iterator[list[logging.LogRecord]]:
    """What reaches the handlers of the root."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    yield records
    logging.getLogger().removeHandler(handler)


def test_the_log_tells_when_the_collector_refuses_and_when_it_takes_spans_again(
    settings: Any, log: list[logging.LogRecord]
) -> None:
    with Collector().listening() as collector:
        settings.TRACES_ENDPOINT, settings.TRACES_HEADERS = f"{collector.url}{PATH}", {"x-key": "hidden"}
        exporter = tracing.Exporter()
        for collector.status in (200, 401, 401, 200, 200):
            exporter.export([])
        exporter.shutdown()
    assert [(line.levelname, line.getMessage(), getattr(line, "cause", "")) for line in log] == [
        ("WARNING", "The collector does not take traces.", "401"),
        ("INFO", "The collector takes traces again.", ""),
    ]


def test_no_header_of_the_collector_is_logged(
    monkeypatch: pytest.MonkeyPatch, settings: Any, log: list[logging.LogRecord]
) -> None:
    """The library quotes a malformed header of its environment, and what it could not send."""
    monkeypatch.setenv(HEADERS, 'hidden"')
    settings.TRACES_ENDPOINT, settings.TRACES_HEADERS = "http://127.0.0.1:1/v1/traces", {"x-key": "hidden\n"}
    exporter = tracing.Exporter()
    exporter.export([])
    exporter.shutdown()
    assert [(line.getMessage(), vars(line)["cause"]) for line in log] == [
        ("The collector does not take traces.", "InvalidHeader")
    ]
