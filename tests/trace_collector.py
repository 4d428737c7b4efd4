"""A collector of OpenTelemetry that takes spans by OTLP over HTTP, or accepts connections and never answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests import http_peer
from tests.server import free_port

PATH = "/v1/traces"


class Collector:
    """`status` is that of the next answers; 0 hangs until the collector ends."""

    def __init__(self, status: int = 200) -> None:
        self.port = free_port()
        self.status = status
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def raw(self) -> bytes:
        """All bodies."""
        return b"\n".join(body for _path, _headers, body in self.requests)

    @property
    def resource(self) -> dict[str, Any]:
        """What the last body says of the service."""
        body = ExportTraceServiceRequest.FromString(self.requests[-1][2])
        return values(body.resource_spans[0].resource.attributes)

    def spans(self) -> list[Any]:
        return [
            span
            for _path, _headers, body in self.requests
            for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans() if span.name == name]

    def wait_for(self, name: str, is_meant: Callable[[Any], bool] = lambda _span: True, seconds: float = 30) -> Any:
        """The first span with that name that is meant. Its children ended before it, so they are here too."""
        end = time.monotonic() + seconds
        while True:
            for span in self.named(name):
                if is_meant(span):
                    return span
            assert time.monotonic() < end, sorted({span.name for span in self.spans()})
            time.sleep(0.05)

    def children_of(self, parent: Any) -> list[Any]:
        return [span for span in self.spans() if span.parent_span_id == parent.span_id]

    @contextmanager
    def listening(self) -> Iterator[Collector]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests.append((self.path, dict(self.headers), body))
                if not collector.status:
                    collector.released.wait(120)
                    return
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *given: Any) -> None:
                pass

        with http_peer.listening(Handler, self.port, self.released, "127.0.0.1"):
            yield self


def values(attributes: Any) -> dict[str, Any]:
    """Name → value of the attributes of a span or a resource."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
