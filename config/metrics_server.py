"""Serve the metrics of all workers at METRICS_BIND, in a thread of gunicorn's master.

https://prometheus.github.io/client_python/multiprocess/. This module imports nothing of the service, because a reload
does not renew the master's imports.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from wsgiref.simple_server import WSGIServer

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_server: WSGIServer | None = None


def start(bind: str) -> None:
    """Listen at host:port and create the folder for the counts. If either fails, end the process with a message."""
    global _server
    host, _, port = bind.rpartition(":")
    try:
        os.environ[FOLDER_VARIABLE] = folder = tempfile.mkdtemp(prefix="sign-in-metrics-")
    except OSError:
        sys.exit("METRICS_BIND needs a folder for temporary files. Set TMPDIR to one that can be written.")
    # Imported here, because prometheus_client decides during its import whether to count in files.
    from prometheus_client import CollectorRegistry, multiprocess, start_http_server

    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    try:
        _server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except OSError as error:
        shutil.rmtree(folder)
        sys.exit(
            f"METRICS_BIND: the service can't listen at {bind} ({error.strerror}). "
            "Use an address of this machine and a port that is free."
        )


def close_in_worker() -> None:
    """Close the worker's copy of the socket, so that the port is free as soon as the master has ended."""
    if _server:
        _server.socket.close()


def forget(worker: int) -> None:
    """Remove the gauges of a worker that has ended, but not its counts. `worker` is its process id."""
    if _server:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker)  # type: ignore[no-untyped-call]


def stop() -> None:
    """Close the port and remove the folder. Do nothing without METRICS_BIND."""
    if _server:
        _server.shutdown()
        _server.server_close()
        shutil.rmtree(os.environ[FOLDER_VARIABLE], ignore_errors=True)
