"""The logging handlers of AUDIT_LOG, which write each security event as a JSON line to a file or to syslog.

If writing fails, the event goes to standard error and the request continues.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

logger = logging.getLogger(__name__)

TELL_EACH_SECONDS = 10
FILE_MODE = 0o640
LOCAL_SYSLOG = "/dev/log"
PROGRAM = "sign-in"
AUTHPRIV = 10 << 3  # the syslog facility for security messages (RFC 5424)
SEVERITIES = {logging.INFO: 6, logging.WARNING: 4}


class Handler(logging.Handler):
    """Passes each line to `write`. If `write` raises OSError, the line goes to standard error."""

    def __init__(self) -> None:
        super().__init__()
        self._tell_at = 0.0

    def write(self, record: logging.LogRecord) -> None:
        raise NotImplementedError

    def open(self) -> None:
        """Open the target, a file or a socket. Raises OSError: the target cannot be opened now."""
        raise NotImplementedError

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.write(record)
        except OSError as error:
            logging.getLogger().handle(record)
            if time.monotonic() >= self._tell_at:
                self._tell_at = time.monotonic() + TELL_EACH_SECONDS
                logger.error("AUDIT_LOG can't be written: events are in this log", extra={"cause": error.strerror})


class FileHandler(Handler):
    """Appends each line to the file in one write, so the lines of several processes do not mix.

    After a rotation, the handler opens the new file at the path.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path
        self._file: int | None = None
        self._opened: tuple[int, int] | None = None

    def open(self) -> None:
        with suppress(FileNotFoundError):
            found = os.stat(self.path)
            if self._opened == (found.st_dev, found.st_ino):
                return
        self.close_file()
        # Without O_NONBLOCK, the request would block if the path were a full pipe.
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, FILE_MODE)
        opened = os.fstat(self._file)
        self._opened = opened.st_dev, opened.st_ino

    def write(self, record: logging.LogRecord) -> None:
        self.open()
        line = f"{self.format(record)}\n".encode()
        if self._file is not None and os.write(self._file, line) < len(line):
            raise OSError(0, "only a part of a line could be written")

    def close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = self._opened = None

    def close(self) -> None:
        self.close_file()
        super().close()


class SyslogHandler(Handler):
    """Sends lines to the syslog of this machine, or by UDP to another host, and never waits. RFC 5424, RFC 5426."""

    def __init__(self, host: str = "", port: int = 0) -> None:
        super().__init__()
        self.host, self.port = host, port
        self._socket: socket.socket | None = None
        self._try_at = 0.0

    def open(self) -> None:
        """Open the socket. Do not retry within TELL_EACH_SECONDS of a failure: a DNS lookup may take seconds."""
        if self._socket:
            return
        if time.monotonic() < self._try_at:
            raise OSError(0, "syslog is away")
        self._try_at = time.monotonic() + TELL_EACH_SECONDS
        family, address = self._address()
        connected = socket.socket(family, socket.SOCK_DGRAM)
        connected.setblocking(False)
        try:
            connected.connect(address)
        except OSError:
            connected.close()
            raise
        self._socket, self._try_at = connected, 0.0

    def _address(self) -> tuple[int, Any]:
        if not self.host:
            return socket.AF_UNIX, LOCAL_SYSLOG
        family, *_kind, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
        return family, address

    def write(self, record: logging.LogRecord) -> None:
        message = self._message(record)
        for is_last in (False, True):
            self.open()
            try:
                if self._socket:
                    self._socket.send(message)
                return
            except BlockingIOError:
                raise
            except OSError:  # the local syslog was restarted, or UDP reports an earlier line as refused
                self.close_socket()
                if is_last:
                    raise

    def _message(self, record: logging.LogRecord) -> bytes:
        priority = AUTHPRIV | SEVERITIES.get(record.levelno, SEVERITIES[logging.WARNING])
        line = self.format(record)
        if not self.host:
            return f"<{priority}>{PROGRAM}[{os.getpid()}]: {line}".encode()
        sent = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        return f"<{priority}>1 {sent} {socket.gethostname()} {PROGRAM} {os.getpid()} - - {line}".encode()

    def close_socket(self) -> None:
        if self._socket:
            self._socket.close()
        self._socket = None

    def close(self) -> None:
        self.close_socket()
        super().close()
