"""How the service is served: `gunicorn -c config/gunicorn.py config.wsgi`, after `manage.py migrate`."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import gunicorn.http.message
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
worker_class = "config.worker.Worker"
threads = 8

# Every worker opens its own database and Redis connections: none may be shared across a fork.
preload_app = False
# A stop or reload lets requests finish; the proxy must not find a kept connection closed, so it gives up first.
timeout = 30
graceful_timeout = 30
keepalive = 75

# A state of 4 kB is 12 kB percent-encoded and 20 kB more inside the `next` of a sign-in page. gunicorn takes no line
# above 8,190 bytes but one without limit, so its own ceiling is moved.
limit_request_line = 32 * 1024
gunicorn.http.message.MAX_REQUEST_LINE = limit_request_line + 1
limit_request_fields = 64
limit_request_field_size = 32 * 1024

# Origins are settings (D1): nothing is believed of a proxy's headers here.
forwarded_allow_ips = ""
secure_scheme_headers: dict[str, str] = {}
control_socket_disable = True
gunicorn.http.wsgi.SERVER = "delegated-sign-in"

# config.middleware writes the access log: gunicorn's would hold the query.
accesslog = None
logconfig_dict = settings.LOGGING
logger_class = "config.worker.Logger"


# Without a limit a client that stops in the middle of a request keeps its thread for good. One that trickles keeps it
# all the same: a proxy that buffers, as docs/operations.md sets up, holds those off.
SILENCE_SECONDS = 10


def when_ready(server: Arbiter) -> None:
    """Ends connections that fall silent while a request is read or answered; sockets inherit it of their listener."""
    limit = struct.pack("ll", SILENCE_SECONDS, 0)
    for listener in server.LISTENERS:
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        listener.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    server.stop = functools.partial(stop, server, server.stop)


# A filter of the kernel's (SO_ATTACH_FILTER, `man 7 socket`) that drops the first packet of a connection, which alone
# has the flag SYN (RFC 9293 §3.1: bit 1 of byte 13), and lets all others pass.
SO_ATTACH_FILTER = 26
NO_NEWCOMERS = struct.pack("=" + 4 * "HBBI", *(0x30, 0, 0, 13), *(0x45, 0, 1, 2), *(6, 0, 0, 0), *(6, 0, 0, 2**32 - 1))
HANDSHAKE_SECONDS = 0.1


def stop(server: Arbiter, stop_workers: Callable[[bool], None], graceful: bool = True) -> None:
    """Lets no newcomer in, who finds the port closed a moment later, before the workers see to who is there already.

    Otherwise whoever connects between a worker's last look and the end of the port is reset. Where systemd or another
    master holds the port too, it stays open, and newcomers wait for who comes next.
    """
    is_alone = server.reexec_pid == server.master_pid == 0 and not server.systemd
    if is_alone and sys.platform == "linux":
        code = ctypes.create_string_buffer(NO_NEWCOMERS)
        with contextlib.suppress(OSError):  # where the kernel takes no filter, a stop is what it was
            for listener in server.LISTENERS:
                program = struct.pack("HP", len(NO_NEWCOMERS) // 8, ctypes.addressof(code))
                listener.sock.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
            time.sleep(HANDSHAKE_SECONDS)
    stop_workers(graceful)


def post_worker_init(worker: Worker) -> None:
    """Replaces gunicorn's error page, here and not above so that a reload brings the new one."""
    from config.refusals import write_error

    gunicorn.util.write_error = write_error


def on_starting(server: Arbiter) -> None:
    """Stops several workers, also those of `-w`, that would each count limits for themselves. D21."""
    if server.cfg.workers > 1 and not settings.REDIS_URL:
        sys.exit("More than one worker needs REDIS_URL: without it each worker would count the limits for itself.")
