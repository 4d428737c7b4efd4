"""How the service is served: `gunicorn -c config/gunicorn.py config.wsgi`, after `manage.py migrate`."""

from __future__ import annotations

import platform
import resource
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gunicorn.glogging
import gunicorn.http.message
import gunicorn.http.parser
import gunicorn.http.wsgi
import gunicorn.util
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from gunicorn.arbiter import Arbiter
    from gunicorn.workers.base import Worker

pythonpath = str(Path(__file__).resolve().parent.parent)
sys.path.insert(0, pythonpath)

try:
    from config import settings
except ImproperlyConfigured as error:
    sys.exit(str(error))
finally:
    # A worker reads the settings for itself, also after a reload.
    sys.modules.pop("config.settings", None)

wsgi_app = "config.wsgi"
bind = settings.BIND
workers = settings.WEB_CONCURRENCY
worker_class = "gthread"
threads = settings.WEB_THREADS

# Every worker opens its own database and Redis connections: none may be shared across a fork.
preload_app = False
timeout = 30
graceful_timeout = 30
# Longer than the 15 seconds after which the documented nginx closes an idle connection: it must not use one that the
# worker has just closed.
keepalive = 20
# A worker that runs out of file descriptors in `accept` ends, so it stops accepting long before.
worker_connections = min(500, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

# A state of 4 kB is 12 kB percent-encoded and 20 kB more inside the `next` of a sign-in page. gunicorn takes no line
# above 8,190 bytes but one without limit, so its own ceiling is moved.
limit_request_line = 32 * 1024
gunicorn.http.message.MAX_REQUEST_LINE = limit_request_line + 1
# A body that no view reads is read to its end, up to more than the proxy lets through. With gunicorn's own 64 kB the
# connection is closed after an answer that keeps it, and the proxy's next request on it fails.
gunicorn.http.parser._DRAIN_MAX_BYTES = 8 * 1024 * 1024
limit_request_fields = 64
limit_request_field_size = 32 * 1024

# Origins are settings (D1): nothing is believed of a proxy's headers here.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
control_socket_disable = True
gunicorn.http.wsgi.SERVER = "delegated-sign-in"


class Logger(gunicorn.glogging.Logger):
    def access(self, resp: Any, req: Any, environ: Any, request_time: Any) -> None:
        """Write nothing: config.middleware writes the access log. gunicorn's line would hold the query."""


accesslog = None
logconfig_dict = settings.LOGGING
logger_class = Logger

# A client that falls silent in the middle of a request would keep its thread for good. One that sends a byte now and
# then still keeps it: docs/operations.md asks for a buffering proxy.
SILENCE_SECONDS = 10


def when_ready(server: Arbiter) -> None:
    """End connections that fall silent while a request is read or answered: sockets inherit it from their listener."""
    limit = struct.pack("ll", SILENCE_SECONDS, 0)
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def post_worker_init(worker: Worker) -> None:
    """Replace gunicorn's error page, here and not above so that a reload brings the new one."""
    from config.refusals import write_error

    gunicorn.util.write_error = write_error


# The first release of each Python that parses a quoted cookie in linear time (CVE-2024-7592).
PATCHED = {(3, 11): (3, 11, 10), (3, 12): (3, 12, 6)}


def on_starting(server: Arbiter) -> None:
    """Stop several workers, also those of `-w`, that would each count limits for themselves. D21.

    Warn of a Python with known faults: the service keeps this one's from its requests, and can't for others.
    """
    patched = PATCHED.get(sys.version_info[:2], (3,))
    if sys.version_info < patched:
        told = ".".join(map(str, patched))
        server.log.warning(
            "Python %s has known security faults, CVE-2024-7592 among them. Use %s or newer.",
            platform.python_version(),
            told,
        )
    if server.cfg.workers > 1 and not settings.REDIS_URL:
        sys.exit("More than one worker needs REDIS_URL: without it each worker would count the limits for itself.")
