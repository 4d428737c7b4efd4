"""What a line of the log holds, and what it never does (D15); security events in another place (AUDIT_LOG)."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import socket
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.test import Client, RequestFactory

import manage
from config import logs
from config.http.middleware import proxy_ids
from config.infrastructure import network
from config.logs import AuditHandler


def formatted(**attributes: Any) -> dict[str, Any]:
    record = logging.makeLogRecord({"name": "oauth_bridge", "levelname": "ERROR", "msg": "it broke", **attributes})
    text = logs.JsonFormatter().format(record)
    assert "\n" not in text
    return json.loads(text)


def test_a_line_names_its_request() -> None:
    token = network.reference.set("abc123")
    line = formatted(client_id="x", attempt=2, request=object(), extra={"code": "x"})
    network.reference.reset(token)
    del line["time"]
    expected = {"level": "error", "logger": "oauth_bridge", "message": "it broke", "reference": "abc123"}
    assert line == {**expected, "client_id": "x", "attempt": 2}, "objects are not written"


def test_an_exception_is_told_without_the_values_it_was_about_and_with_names_of_constraints() -> None:
    try:
        try:
            int("hidden-token")
        except ValueError as error:
            text = 'violates "accounts_user_email" for "Hidden1"\nDETAIL:  Key (digest)=(hidden) exists.'
            raise RuntimeError(text) from error
    except RuntimeError:
        line = formatted(exc_info=sys.exc_info())
    outer, inner = line["exception"]
    assert (outer["type"], outer["text"]) == ("builtins.RuntimeError", 'violates "accounts_user_email" for …')
    assert (inner["type"], inner["text"]) == ("builtins.ValueError", "invalid literal for int() with base 10: …")
    assert outer["frames"][0].startswith("tests/unit/test_config_logs.py:")
    assert "hidden" not in json.dumps(line).lower()


def test_gunicorn_does_not_quote_the_request_and_a_silent_client_is_no_error() -> None:
    for message, error, level in (
        ("Invalid request from ip=::1: Invalid line: 'GET /?code=hidden'", None, "INFO"),
        ("Error handling request GET /hidden", None, "ERROR"),
        ("Socket error", BlockingIOError(11, "a"), "INFO"),
        ("Socket error", OSError(28, "a"), "ERROR"),
    ):
        record = logging.makeLogRecord({"levelname": "ERROR", "msg": message, "exc_info": (OSError, error, None)})
        assert logs.GunicornFilter().filter(record)
        assert "hidden" not in record.getMessage()
        assert record.levelname == level


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.django_db
def test_a_line_has_well_formed_ids_of_a_proxy(client: Client, rf: RequestFactory, settings: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "config.access")
    settings.TRUSTED_PROXIES = [ip_network("127.0.0.1")]
    ids = {"HTTP_X_REQUEST_ID": "a1-B2", "HTTP_TRACEPARENT": TRACEPARENT}
    client.get("/health/live", **ids)
    [line] = [vars(record) for record in caplog.records if record.name == "config.access"]
    assert line.items() >= {"request_id": "a1-B2", "trace_id": TRACE, "parent_id": PARENT}.items()
    for stranger in ({"REMOTE_ADDR": "203.0.113.7", "HTTP_X_FORWARDED_FOR": "127.0.0.1"}, {"REMOTE_ADDR": ""}):
        assert proxy_ids(rf.get("/", **ids, **stranger)) == {}
    for name, texts in (
        ("HTTP_X_REQUEST_ID", ("x" * 65, 'a"b', "a\nb", "ä")),
        ("HTTP_TRACEPARENT", (f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01", TRACEPARENT.upper())),
    ):
        assert [text for text in texts if proxy_ids(rf.get("/", **{name: text}))] == []  # type: ignore[arg-type]
    assert proxy_ids(rf.get("/", HTTP_TRACEPARENT=f"01-{TRACE}-{PARENT}-01-more"))["trace_id"] == TRACE


def emit(handler: AuditHandler, message: str = "signed in", **members: Any) -> None:
    handler.setFormatter(logs.JsonFormatter())
    known = {"name": "events", "levelno": logging.INFO, "levelname": "INFO", "msg": message}
    handler.handle(logging.makeLogRecord({**known, **members}))


def test_a_file_that_was_rotated_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    handler = AuditHandler(str(path))
    emit(handler, "é")
    path.rename(tmp_path / "audit.log.1")
    emit(handler, "after")
    for written, message in ((tmp_path / "audit.log.1", "é"), (path, "after")):
        assert json.loads(written.read_text(encoding="utf-8"))["message"] == message
        assert written.stat().st_mode & 0o777 & ~0o640 == 0


def test_an_event_that_cannot_be_written_is_in_the_ordinary_log(tmp_path: Path, log_output: io.StringIO) -> None:
    os.mkfifo(tmp_path / "pipe")  # which nobody reads
    for handler in (AuditHandler("/dev/full"), AuditHandler(str(tmp_path / "pipe"))):
        emit(handler, event="signed_in")
    told = [json.loads(line) for line in log_output.getvalue().splitlines()]
    assert [line.get("event") for line in told] == ["signed_in", None] * 2
    assert (told[1]["level"], told[1]["message"][:9]) == ("error", "AUDIT_LOG")


def is_event(received: bytes, priority: int) -> None:
    found = re.fullmatch(r"<(\d+)>sign-in\[\d+\]: (.*)", received.decode())
    assert found
    assert (int(found[1]), json.loads(found[2])["event"]) == (priority, "x")


def test_the_syslog_here_and_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_output: io.StringIO
) -> None:
    place = str(tmp_path / "log")
    monkeypatch.setattr(logs, "LOCAL_SYSLOG", place)
    emit(AuditHandler(), "nobody listens")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(place)
        emit(AuditHandler(), levelno=logging.WARNING, event="x")
        is_event(listener.recv(10_000), 84)
        assert log_output.getvalue().count("AUDIT_LOG can't be written") == 1
        for _ in range(2000):
            emit(AuditHandler(), "x" * 1000)
    assert log_output.getvalue().count("AUDIT_LOG can't be written") > 1, "a full one keeps nobody waiting"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        emit(AuditHandler(host="127.0.0.1", port=listener.getsockname()[1]), event="x")
        is_event(listener.recv(10_000), 86)


def test_a_command_that_is_typed_writes_no_events_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logs.settings({})["handlers"]["stderr"]
    for command, is_terminal, level in (
        ("application", True, "WARNING"),
        ("application", False, "NOTSET"),
        ("purge", True, "NOTSET"),
    ):
        monkeypatch.setitem(handler, "level", "NOTSET")
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal)
        monkeypatch.setattr(sys, "argv", ["manage.py", command, "--help"])
        with pytest.raises(SystemExit):
            manage.main()
        assert handler["level"] == level
