"""AUDIT_LOG: security events in a file of their own, or in syslog; and what docs/operations.md says of them."""

from __future__ import annotations

import io
import json
import logging.config
import os
import re
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import manage
from config import logs
from config.infrastructure.events import Event
from config.logs import AuditHandler

deployment_checks = import_module("config.management.commands.check-deployment")

ROOT = Path(__file__).resolve().parents[2]


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


def test_the_syslog_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log_output: io.StringIO) -> None:
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


def test_the_syslog_of_another_host() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        emit(AuditHandler(host="127.0.0.1", port=listener.getsockname()[1]), event="x")
        is_event(listener.recv(10_000), 86)


def test_the_check_of_a_deployment_writes_nothing(tmp_path: Path, settings: Any) -> None:
    for status, options in (
        ("ok", {}),
        ("ok", {"path": str(tmp_path / "audit.log")}),
        ("failed", {"path": "/nowhere/audit.log"}),
        ("failed", {"host": "nowhere.invalid", "port": 514}),
    ):
        settings.AUDIT_LOG = {"class": "config.logs.AuditHandler", **options} if options else {}
        assert deployment_checks.audit_log().status == status
    assert (tmp_path / "audit.log").read_text() == ""


def test_the_document_has_each_event_with_its_members() -> None:
    table = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("| event | members |")[2]
    rows = re.findall(r"^\| (`.+) \| (`.+) \|$", table.partition("\n\n")[0], re.MULTILINE)
    words = [[re.findall(r"`(\w+)`", cell) for cell in row] for row in rows]
    documented = {event: set(members) for events, members in words for event in events}
    assert documented == {event.name.lower(): set(event.members) for event in Event}


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
