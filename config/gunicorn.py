"""Settings of gunicorn. Run `manage.py migrate`, then `gunicorn -c config/gunicorn.py config.wsgi`."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gunicorn.glogging
import gunicorn.http.message
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from gunicorn.arbiter import Arbiter
    from gunicorn.workers.base import Worker

pythonpath = str(Path(__file__).resolve().parent.parent)
sys.path.insert(0, pythonpath)

try:
    from config import settings
except ImproperlyConfigured as error:
    sys.exit(str(error))
finally:
    # Each worker imports the settings again, so that a reload applies changes.
    sys.modules.pop("config.settings", None)
    sys.modules.pop("config.limits_and_lifetimes", None)

wsgi_app = "config.wsgi"
bind = settings.BIND
workers = settings.WEB_CONCURRENCY
worker_class = "gthread"
threads = settings.WEB_THREADS

# Each worker opens its own database and Redis connections: no connection may be shared across a fork.
preload_app = False
timeout = 30
graceful_timeout = 30
keepalive = 20  # seconds; the nginx of docs/operations.md closes an idle connection first
worker_connections = 500  # fewer than the file descriptors, 1,024 by default, without which a worker would end

# A `state` of 4 kB takes 12 kB when percent-encoded, and 20 kB in the `next` parameter of a sign-in page. gunicorn
# lowers a larger limit to MAX_REQUEST_LINE (8,190 bytes), so this file raises MAX_REQUEST_LINE too.
limit_request_line = 32 * 1024
gunicorn.http.message.MAX_REQUEST_LINE = limit_request_line + 1
limit_request_fields = 64
limit_request_field_size = 32 * 1024

# The settings define the origins, so gunicorn must not take scheme or script name from a proxy's headers.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
control_socket_disable = True


class Logger(gunicorn.glogging.Logger):
    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        pass  # config.http.middleware logs each request, without the query


accesslog = None
logconfig_dict = settings.LOGGING
logger_class = Logger

# Without it, a client that sends a part of a request would occupy a thread for ever. One that sends single bytes still
# does, so docs/operations.md requires a buffering proxy.
SILENCE_SECONDS = 10
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


def on_starting(server: Arbiter) -> None:
    server.log.info("The service starts.", extra={"version": settings.VERSION})
    if server.cfg.workers > 1 and not settings.REDIS_URL:
        sys.exit("More than one worker needs REDIS_URL: without it each worker would count the limits for itself.")
    server.metrics = serve_metrics(settings.METRICS_BIND) if settings.METRICS_BIND else None


def serve_metrics(bind: str) -> WSGIServer:
    """Start a server for the metrics of all workers. https://prometheus.github.io/client_python/multiprocess/."""
    host, _, port = bind.rpartition(":")
    # Set before the import, because prometheus_client decides during its import whether to count in files.
    os.environ[METRICS_FOLDER] = folder = tempfile.mkdtemp(prefix="sign-in-metrics-")
    from prometheus_client import CollectorRegistry, multiprocess, start_http_server

    registry = CollectorRegistry()
    try:
        metrics, _ = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        sys.exit(
            f"METRICS_BIND: the service can't listen at {bind} ({error.strerror}). "
            "Use an address of this machine and a port that is free."
        )
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return metrics


def when_ready(server: Arbiter) -> None:
    """Set time-outs for reading and sending on the listening sockets. Accepted sockets inherit the time-outs."""
    limit = struct.pack("ll", SILENCE_SECONDS, 0)
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def post_fork(server: Arbiter, worker: Worker) -> None:
    if server.metrics:  # so that the port is free as soon as the master has ended
        server.metrics.socket.close()


def post_worker_init(worker: Worker) -> None:
    # A fork copies no thread, and a reload must import the new code.
    import config.urls  # noqa: F401 - imports the views, so that the first request need not wait
    from accounts.mail import outbox
    from config import health
    from config.infrastructure.sql.base import limit_statements
    from oauth_bridge.activity import counts

    limit_statements()
    outbox.start()
    counts.start()
    if settings.METRICS_BIND:
        health.start()
    # A full garbage collection would examine all modules, and requests would wait for 50 to 80 ms of CPU time.
    gc.collect()
    gc.freeze()


def worker_exit(server: Arbiter, worker: Worker) -> None:
    for name in ("accounts.mail.outbox", "oauth_bridge.activity.counts"):
        if module := sys.modules.get(name):  # else the worker failed to start
            module.stop()


def child_exit(server: Arbiter, worker: Worker) -> None:
    if server.metrics:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]


def on_exit(server: Arbiter) -> None:
    if server.metrics:
        server.metrics.shutdown()
        server.metrics.server_close()
        shutil.rmtree(os.environ[METRICS_FOLDER], ignore_errors=True)
