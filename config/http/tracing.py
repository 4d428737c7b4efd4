"""Make OpenTelemetry traces. The span of a request contains a span for each statement and each call of Redis.

This module is imported only if the endpoint of a collector is set. A span contains names from the code (routes, tables,
faults) and the reference of the request. It contains no path, query, header, address, person, application or value of a
statement.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from typing import Any

import requests
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from config.http import trace_context
from config.http.middleware import GetResponse, known_method
from config.infrastructure import measures, paths

STOP_SECONDS = 2.0
PROBES = (paths.LIVENESS, paths.READINESS)
# Match the first operation and the first table in a statement that this service or Django wrote.
_OPERATION = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|BEGIN|SAVEPOINT|RELEASE|ROLLBACK|SET)\b")
_TABLE = re.compile(r'\b(?:FROM|JOIN|INTO|UPDATE)\s+"?([a-z_]+)\b')

logger = logging.getLogger(__name__)
tracer = trace.get_tracer(__name__)
_propagator = TraceContextTextMapPropagator()
_provider: TracerProvider | None = None


class TracingMiddleware:
    """Makes the span of a request, except for probes. The parent is the span that a proxy in `TRUSTED_PROXIES` sent."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if paths.kind_of(request.path_info) in PROBES:
            return self.get_response(request)
        parent = _propagator.extract({"traceparent": trace_context.traceparent(request)})
        method = known_method(request)
        with tracer.start_as_current_span(
            method, parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:
            context = span.get_span_context()
            if context.is_valid:
                request.trace_id = trace.format_trace_id(context.trace_id)  # type: ignore[attr-defined]
            with connection.execute_wrapper(_statement) if span.is_recording() else nullcontext():
                response = self.get_response(request)
            if span.is_recording():
                _describe(span, request, method, response)
        return response


def _describe(span: Span, request: HttpRequest, method: str, response: HttpResponseBase) -> None:
    span.set_attribute("http.request.method", method)
    span.set_attribute("http.response.status_code", response.status_code)
    if match := request.resolver_match:
        span.update_name(f"{method} /{match.route}")
        span.set_attribute("http.route", f"/{match.route}")
    span.set_attribute("delegated.reference", request.reference)  # type: ignore[attr-defined]
    if reported := request.reported:  # type: ignore[attr-defined]
        span.set_attribute("delegated.code", reported[0].fault.name.lower())
    if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.set_status(StatusCode.ERROR)


def _statement(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Run the statement in a span. Django does not call this function when a transaction begins or ends."""
    operation, table = _named(sql)
    attributes = {"db.system.name": context["connection"].vendor, "db.operation.name": operation}
    if table:
        attributes["db.collection.name"] = table
    with _part(f"{operation} {table}".strip(), attributes):
        return execute(sql, params, many, context)


@functools.lru_cache(maxsize=512)
def _named(sql: str) -> tuple[str, str]:
    """Return the first operation and the first table that the statement names, such as SELECT and accounts_user."""
    operation, table = _OPERATION.search(sql), _TABLE.search(sql)
    return operation[1] if operation else "OTHER", table[1] if table else ""


@contextmanager
def _part(name: str, attributes: dict[str, str] | None = None) -> Iterator[None]:
    """Make a span within the request's span. Without a request's span, as in a probe or the mail thread, do nothing."""
    if not trace.get_current_span().is_recording():
        yield
        return
    span = tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes)
    try:
        yield
    except Exception as error:
        # The text of the error is left out, because it may quote values.
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(StatusCode.ERROR)
        raise
    finally:
        span.end()


class _Session(requests.Session):
    """Keeps the result of the last request to the collector in `ended`: the status, or the name of the exception."""

    ended = ""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        try:
            response = super().request(*args, **kwargs)
        except Exception as error:
            self.ended = type(error).__name__
            raise
        self.ended = str(response.status_code)
        return response


class Exporter(SpanExporter):
    """Sends spans. Logs when the collector no longer accepts spans, and when it accepts them again.

    `config.logs` silences the library's own lines, because the library writes several lines for each attempt, and a
    line may quote a header.
    """

    def __init__(self) -> None:
        self._session = _Session()
        self._sender = OTLPSpanExporter(
            endpoint=settings.TRACES_ENDPOINT, headers=settings.TRACES_HEADERS, session=self._session
        )
        self._is_taking = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._sender.export(spans)
        is_taking = result is SpanExportResult.SUCCESS
        if is_taking is not self._is_taking:
            self._is_taking = is_taking
            if is_taking:
                logger.info("The collector takes traces again.")
            else:
                logger.warning("The collector does not take traces.", extra={"cause": self._session.ended})
        return result

    def shutdown(self) -> None:
        self._sender.shutdown()  # type: ignore[no-untyped-call]


def start() -> None:
    """Start tracing. Call this after the fork, because a thread sends the spans."""
    global _provider
    named = {"service.name": "delegated-sign-in", "service.version": settings.VERSION}
    resource = Resource.create(named).merge(OTELResourceDetector().detect())  # OTEL_SERVICE_NAME has precedence
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(BatchSpanProcessor(Exporter()))
    trace.set_tracer_provider(_provider)
    measures.span = _part


def stop() -> None:
    """Send the remaining spans within STOP_SECONDS. The library would wait for 30 seconds."""
    if _provider:
        last = threading.Thread(target=_provider.shutdown, name="traces-stop", daemon=True)
        last.start()
        last.join(STOP_SECONDS)
