"""The log on standard error: each line is a JSON object without credentials. AUDIT_LOG can move the security events."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import sys
import traceback
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any, cast

from config.infrastructure import network

logger = logging.getLogger(__name__)

TEXT_MAX_LENGTH, CHAIN_MAX_LENGTH = 300, 10
OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LOGGED_TYPES = (str, int, float, bool, type(None))
_QUOTED = re.compile(r"""(['"])(.*?)\1""")
_IDENTIFIER = re.compile(r"[a-z_.]+")
_PACKAGES = re.compile(rf"^(.*site-packages/|{re.escape(str(Path(__file__).resolve().parent.parent))}/)")

FILE_MODE = 0o640
LOCAL_SYSLOG = "/dev/log"
PROGRAM = "sign-in"
AUTHPRIV = 10 << 3  # the syslog facility for security messages; 6 is the severity "info", and 4 "warning"


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. Includes an `extra` value only if it is a text, number, boolean or None."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "reference": network.reference.get(),
        }
        for name, value in vars(record).items():
            if name not in OWN_ATTRIBUTES and isinstance(value, _LOGGED_TYPES):
                line[name] = value
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            line["exception"] = describe(record.exc_info[1])
        return _encode(line)


def describe(exception: BaseException) -> list[dict[str, Any]]:
    """Return type, text and frames of the exception and of its causes. Stop after CHAIN_MAX_LENGTH exceptions."""
    chain: list[dict[str, Any]] = []
    link: BaseException | None = exception
    while link is not None and len(chain) < CHAIN_MAX_LENGTH:
        frames = traceback.extract_tb(link.__traceback__)
        chain.append(
            {
                "type": f"{type(link).__module__}.{type(link).__qualname__}",
                "text": _without_values(str(link)),
                "frames": [f"{_PACKAGES.sub('', each.filename)}:{each.lineno} {each.name}" for each in frames],
            }
        )
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _without_values(text: str) -> str:
    """Return the first line. Messages quote input, so a quoted text becomes "…" unless it looks like an identifier."""
    line = text.partition("\n")[0]
    return _QUOTED.sub(lambda found: found[0] if _IDENTIFIER.fullmatch(found[2]) else "…", line)[:TEXT_MAX_LENGTH]


class GunicornFilter(logging.Filter):
    """Removes parts of requests from gunicorn's messages. Messages about faults of clients get the level INFO."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = str(record.msg)
        if message.startswith("Invalid request from"):
            record.msg, record.args = "A malformed request was refused before it reached the application.", None
            record.levelno, record.levelname = logging.INFO, "INFO"
        elif message.startswith("Error handling request"):
            record.msg, record.args = "The server could not answer a request.", None
        elif isinstance(record.exc_info, tuple) and isinstance(record.exc_info[1], BlockingIOError):
            record.msg, record.exc_info = "A client was silent for too long.", None
            record.levelno, record.levelname = logging.INFO, "INFO"
        return True


class AuditHandler(logging.Handler):
    """Writes events to the file `path`, else by UDP to syslog at `host`, else to this machine's syslog (RFC 3164)."""

    def __init__(self, path: str = "", host: str = "", port: int = 0) -> None:
        super().__init__()
        self.path, self.host, self.port = path, host, port

    # Each event opens the file or socket anew, so that a rotation or a restart of syslog needs no signal.
    def open(self) -> FileIO | socket.socket:
        if self.path:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
            return FileIO(os.open(self.path, flags, FILE_MODE), "w")
        family, address = int(socket.AF_UNIX), cast("Any", LOCAL_SYSLOG)
        if self.host:
            family, *_kind, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)[0]
        target = socket.socket(family, socket.SOCK_DGRAM)
        target.setblocking(False)
        target.connect(address)
        return target

    def emit(self, record: logging.LogRecord) -> None:
        line, priority = self.format(record), AUTHPRIV | (6 if record.levelno == logging.INFO else 4)
        line = f"{line}\n" if self.path else f"<{priority}>{PROGRAM}[{os.getpid()}]: {line}"
        try:
            with self.open() as target:
                os.write(target.fileno(), line.encode())
        except OSError as error:
            logging.getLogger().handle(record)
            logger.error("AUDIT_LOG can't be written: events are in this log", extra={"cause": error.strerror})


def keep_off_terminal() -> None:
    """If standard error is a terminal, log only warnings and errors. Call this before the settings are read."""
    if sys.stderr and sys.stderr.isatty():
        _SETTINGS["handlers"]["stderr"]["level"] = "WARNING"


_SILENT: dict[str, Any] = {"handlers": ["nowhere"], "level": "CRITICAL", "propagate": False}

_SETTINGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "config.logs.JsonFormatter"}},
    "filters": {"gunicorn": {"()": "config.logs.GunicornFilter"}},
    "handlers": {
        "nowhere": {"class": "logging.NullHandler"},
        "stderr": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["gunicorn"]},
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        **{name: {"level": "INFO"} for name in ("config", "oauth_bridge", "accounts", "events")},
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        # These loggers print paths, queries, hosts, codes or tokens. Our own loggers record the same events.
        **dict.fromkeys(("django.request", "django.security", "django.server", "django.db.backends"), _SILENT),
        **dict.fromkeys(("gunicorn.access", "oauthlib", "oauth2_provider"), _SILENT),
    },
}


def settings(events_handler: dict[str, Any]) -> dict[str, Any]:
    if not events_handler:
        return _SETTINGS
    return {
        **_SETTINGS,
        "handlers": {**_SETTINGS["handlers"], "events": {**events_handler, "formatter": "json"}},
        "loggers": {**_SETTINGS["loggers"], "events": {"level": "INFO", "handlers": ["events"], "propagate": False}},
    }
