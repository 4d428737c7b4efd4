"""The port of METRICS_BIND and the folder of the counts, which gunicorn's master opens and workers inherit.

This module imports only the standard library, because a reload does not renew the master's imports.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PREFIX = "sign-in-metrics-"
# prometheus_client reads this variable when it is imported.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# A folder that is older than this and has no lock is abandoned, because a master locks its folder within this time.
LOCKED_WITHIN_SECONDS = 60
BACKLOG = 16


class Opened(NamedTuple):
    listener: socket.socket
    folder: Path
    lock: int  # the descriptor of the folder, which is locked while a process of this service runs


opened: Opened | None = None


def open_port(bind: str) -> None:
    """Listen at host:port and create the folder for metrics. If either fails, end the process with a message."""
    global opened
    host, _, port = bind.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    try:
        listener = socket.create_server((host.strip("[]"), int(port)), family=family, backlog=BACKLOG)
    except OSError as error:
        sys.exit(
            f"METRICS_BIND: the service can't listen at {bind} ({str(error.strerror).partition(' (')[0]}). "
            "Use an address of this machine and a port that is free."
        )
    try:
        remove_abandoned()
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        sys.exit(
            f"METRICS_BIND needs a folder for temporary files, and {error.filename} can't be used ({error.strerror}). "
            "Set TMPDIR to one that can be written."
        )
    opened = Opened(listener, folder, _locked(folder))
    os.environ[FOLDER_VARIABLE] = str(folder)


def close_port() -> None:
    """Close the port and remove the folder. Do nothing without METRICS_BIND."""
    global opened
    if opened:
        opened.listener.close()
        shutil.rmtree(opened.folder, ignore_errors=True)
        os.close(opened.lock)
        opened = None


def remove_abandoned() -> None:
    """Remove the folders of masters that were killed. Folders of other users and folders in use stay."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            is_old = found.st_mtime < time.time() - LOCKED_WITHIN_SECONDS
            if found.st_uid == os.geteuid() and is_old and not folder.is_symlink():
                os.close(_locked(folder))
                shutil.rmtree(folder)


def _locked(folder: Path) -> int:
    """Lock the folder and return its descriptor. Forks share the lock. systemd-tmpfiles does not clean locked folders.

    Raises BlockingIOError: another process has locked the folder.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
