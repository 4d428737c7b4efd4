"""Settings of gunicorn. Run `manage.py migrate`, then `gunicorn -c config/gunicorn.py config.wsgi`."""

from __future__ import annotations

import platform
import re
import resource
import socket
import struct
import sys
from http.cookies import SimpleCookie
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gunicorn.glogging
import gunicorn.http.message
import gunicorn.http.parser
import gunicorn.util
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter
    from gunicorn.workers.base import Worker

pythonpath = str(Path(__file__).resolve().parent.parent)
sys.path.insert(0, pythonpath)

try:
    from config import reloading, settings
    from config.metrics import port
except ImproperlyConfigured as error:
    sys.exit(str(error))
finally:
    # Each worker imports the settings again, so that a reload applies changes.
    sys.modules.pop("config.settings", None)
    sys.modules.pop("config.limits_and_lifetimes", None)

wsgi_app = "config.wsgi"
bind = settings.BIND
workers = settings.WEB_CONCURRENCY
worker_class = "config.reloading.Worker"
threads = settings.WEB_THREADS

# Each worker opens its own database and Redis connections: no connection may be shared across a fork.
preload_app = False
timeout = 30
graceful_timeout = 30
# In seconds. The nginx of docs/operations.md closes an idle connection after 15 seconds, so nginx closes it first.
keepalive = 20
# Without a free file descriptor, a worker would end. So a worker accepts fewer connections than it has descriptors.
worker_connections = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

# A `state` of 4 kB takes 12 kB when percent-encoded, and 20 kB in the `next` parameter of a sign-in page. gunicorn
# lowers a larger limit to MAX_REQUEST_LINE (8,190 bytes), so this file raises MAX_REQUEST_LINE too.
limit_request_line = 32 * 1024
gunicorn.http.message.MAX_REQUEST_LINE = limit_request_line + 1
# If no view has read a body, gunicorn reads and discards up to this many bytes. The nginx of docs/operations.md
# forwards smaller bodies only. With its default of 64 kB, gunicorn would close the connection after a longer body,
# although the response announced keep-alive. nginx would then answer the next request on the connection with 502.
gunicorn.http.parser._DRAIN_MAX_BYTES = 42 * 1024 * 1024
limit_request_fields = 64
limit_request_field_size = 32 * 1024

# The settings define the origins (D1), so gunicorn must not take scheme or script name from a proxy's headers.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
control_socket_disable = True


class Logger(gunicorn.glogging.Logger):
    def __init__(self, cfg: Any) -> None:
        super().__init__(cfg)
        self.info("The service starts.", extra={"version": settings.VERSION})

    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """Log nothing, because config.http.middleware logs each request, without the query."""


accesslog = None
logconfig_dict = settings.LOGGING
logger_class = Logger

# Without a time-out, a client that sends only a part of a request would occupy a thread for ever. A client that sends
# single bytes still occupies a thread, so docs/operations.md requires a buffering proxy.
SILENCE_SECONDS = 10


def when_ready(server: Arbiter) -> None:
    """Set the socket time-outs for reading a request and sending a response. Accepted sockets inherit them.

    With TCP_DEFER_ACCEPT, the system accepts a connection only when its request arrives, so `thread_pools` can read the
    class of the request.
    """
    reloading.notify_once_ready()
    limit = struct.pack("ll", SILENCE_SECONDS, 0)
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        if hasattr(socket, "TCP_DEFER_ACCEPT") and listener.sock.family in (socket.AF_INET, socket.AF_INET6):
            listener.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, SILENCE_SECONDS)


def post_worker_init(worker: Worker) -> None:
    """Limit the time of statements, replace gunicorn's error page, and start the background threads.

    The threads send e-mails, tell applications about sign-outs, and write the counts of the activity log.

    The threads start in the worker, because a reload must import the new code, and because a fork copies no thread.
    """
    from accounts.mail import outbox
    from config.http.gunicorn_errors import Request, write_error
    from config.infrastructure.postgresql.timeouts import limit_statements
    from config.metrics import worker as metrics
    from oauth_bridge.maintenance import backchannel
    from oauth_bridge.storage import activity_counts

    limit_statements()
    gunicorn.util.write_error = write_error
    gunicorn.http.parser.RequestParser.mesg_class = Request
    metrics.start()
    outbox.start()
    backchannel.start()
    activity_counts.start()
    reloading.be_ready(worker)


def on_reload(server: Arbiter) -> None:
    """Keep the old workers until new workers are ready."""
    reloading.begin_reload()


def worker_exit(server: Arbiter, worker: Worker) -> None:
    """Finish the present e-mail or notice, and write counts. A worker that failed to start has no threads."""
    for name in (
        "accounts.mail.outbox",
        "oauth_bridge.maintenance.backchannel",
        "oauth_bridge.storage.activity_counts",
        "config.metrics.serving",
    ):
        if module := sys.modules.get(name):
            module.stop()


ESCAPES = 100


def searches_for_each_escape() -> bool:
    """Return whether Python searches a quoted cookie anew for each escaped character (CVE-2024-7592).

    Such a search takes quadratic time. The function counts calls of regular expressions instead of comparing versions,
    because distributions fix Python without a new version number.
    """
    searches = 0

    def count(_frame: object, event: str, called: object) -> None:
        nonlocal searches
        searches += event == "c_call" and isinstance(getattr(called, "__self__", None), re.Pattern)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        SimpleCookie('a="' + r"\"" * ESCAPES + '"')
    finally:
        sys.setprofile(before)
    return searches >= ESCAPES


def on_starting(server: Arbiter) -> None:
    """Delay systemd's READY=1, warn about an unsafe Python, and exit if several workers would have no Redis. D21."""
    reloading.hold_back_notification()
    if searches_for_each_escape():
        # config.http.bounds removes quoted cookies, but such a Python has other bugs too.
        server.log.warning(
            "This Python %s lacks security corrections, that of CVE-2024-7592 among them. "
            "Update it: your distribution's latest package, or Python 3.11.10, 3.12.6 or newer.",
            platform.python_version(),
        )
    if server.cfg.workers > 1 and not settings.REDIS_URL:
        sys.exit("More than one worker needs REDIS_URL: without it each worker would count the limits for itself.")
    if settings.METRICS_BIND:
        port.open_port(settings.METRICS_BIND)


def on_exit(server: Arbiter) -> None:
    port.close_port()
