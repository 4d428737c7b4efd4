"""The log: one JSON object per line on standard error, with the reference of the request.

The log contains no credential (D15). It contains the route pattern instead of the path. For an exception, it contains
the type, the frames, and the first line of the message without quoted values. Library loggers that print paths,
queries, codes or tokens are silenced.
"""

from __future__ import annotations

import datetime
import json
import logging
import re
import sys
import traceback
from pathlib import Path
from typing import Any, TextIO

from config.infrastructure import references

TEXT_MAX_LENGTH = 300
OWN_ATTRIBUTES = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LOGGED_TYPES = (str, int, float, bool, type(None))
_QUOTED = re.compile(r"""(['"])(.*?)\1""")
_IDENTIFIER = re.compile(r"[a-z_.]+")
_ROOT = Path(__file__).resolve().parent.parent


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. Extras that are strings, numbers or booleans become members."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "reference": references.current.get(),
        }
        for name, value in vars(record).items():
            if name not in OWN_ATTRIBUTES and isinstance(value, _LOGGED_TYPES):
                line[name] = value
        if isinstance(record.exc_info, tuple) and record.exc_info[1] is not None:
            line["exception"] = describe(record.exc_info[1])
        return _encode(line)


def describe(exception: BaseException) -> list[dict[str, Any]]:
    """Return the exception, followed by its causes, without quoted values."""
    chain: list[dict[str, Any]] = []
    seen: set[int] = set()
    link: BaseException | None = exception
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        frames = traceback.extract_tb(link.__traceback__)
        chain.append(
            {
                "type": f"{type(link).__module__}.{type(link).__qualname__}",
                "text": _without_values(str(link)),
                "frames": [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames],
            }
        )
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return chain


def _without_values(text: str) -> str:
    """Return the first line, with "…" for quoted values: the messages of PostgreSQL and Python quote input."""

    def shortened(quoted: re.Match[str]) -> str:
        return quoted[0] if _IDENTIFIER.fullmatch(quoted[2]) else f"{quoted[1]}…{quoted[1]}"

    return _QUOTED.sub(shortened, text.partition("\n")[0])[:TEXT_MAX_LENGTH]


def _short(filename: str) -> str:
    path = Path(filename)
    if path.is_relative_to(_ROOT):
        return str(path.relative_to(_ROOT))
    return filename.rpartition("site-packages/")[2]


class GunicornFilter(logging.Filter):
    """Removes the request line and the headers, which gunicorn quotes when it refuses a request."""

    def filter(self, record: logging.LogRecord) -> bool:
        message = str(record.msg)
        if message.startswith("Invalid request from"):
            record.msg, record.args = "A malformed request was refused before it reached the application.", None
            record.levelno, record.levelname = logging.INFO, "INFO"
        elif message.startswith("Error handling request"):
            record.msg, record.args = "The server could not answer a request.", None
        return True


class StandardErrorHandler(logging.StreamHandler[TextIO]):
    """Writes to the present `sys.stderr`, which a test or a supervisor may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, _value: TextIO) -> None:
        raise AttributeError("The stream is always standard error.")


def keep_off_terminal() -> None:
    """On a terminal, log only warnings and errors, because the command prints its output there.

    Call this before the settings are read.
    """
    if sys.stderr and sys.stderr.isatty():
        _SETTINGS["handlers"]["stderr"]["level"] = "WARNING"


# Log lines do not name threads and processes, so the logging module need not determine their names.
logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False

_SILENT: dict[str, Any] = {"handlers": ["nowhere"], "level": "CRITICAL", "propagate": False}

_SETTINGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "config.logs.JsonFormatter"}},
    "filters": {"gunicorn": {"()": "config.logs.GunicornFilter"}},
    "handlers": {
        "nowhere": {"class": "logging.NullHandler"},
        "stderr": {"class": "config.logs.StandardErrorHandler", "formatter": "json", "filters": ["gunicorn"]},
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "config": {"level": "INFO"},
        "oauth_bridge": {"level": "INFO"},
        "accounts": {"level": "INFO"},
        "events": {"level": "INFO"},
        "gunicorn.error": {"level": "INFO", "handlers": [], "propagate": True},
        "django": {"handlers": [], "level": "WARNING", "propagate": True},
        # These loggers print paths, queries, hosts, codes or tokens. Our own loggers record the same events.
        "django.request": _SILENT,
        "django.security": _SILENT,
        "django.server": _SILENT,
        "django.db.backends": _SILENT,
        "gunicorn.access": _SILENT,
        "oauthlib": _SILENT,
        "oauth2_provider": _SILENT,
    },
}


def settings(events_handler: dict[str, Any]) -> dict[str, Any]:
    """Return the value of LOGGING. Security events use `events_handler` or, if it is empty, the root handler."""
    if not events_handler:
        return _SETTINGS
    return {
        **_SETTINGS,
        "handlers": {**_SETTINGS["handlers"], "events": {**events_handler, "formatter": "json"}},
        "loggers": {**_SETTINGS["loggers"], "events": {"level": "INFO", "handlers": ["events"], "propagate": False}},
    }
