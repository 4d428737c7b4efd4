"""AUDIT_LOG under gunicorn: the events of all workers and commands in one file, and in no other log."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import documented
from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory
from tests.server import ROOT
from tests.smtp import wait_until

# Writes a line each 0.2 ms, as a worker does, until standard input ends. Prints how many.
WRITER = """
import logging, sys, threading, time
from config.audit_log import FileHandler
handler, ended, count = FileHandler(sys.argv[1]), threading.Event(), 0
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
while not ended.is_set():
    handler.emit(logging.LogRecord(sys.argv[2], 20, "", 0, f"{sys.argv[2]} {count}", None, None))
    count += 1
    time.sleep(0.0002)
print(count)
"""


def test_a_failed_sign_in_is_explained_by_the_file_alone(launch: Launch, manage: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    server = launch(AUDIT_LOG=f"file://{path}")
    person = PersonFactory()
    OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, "wrong")
    path.rename(tmp_path / "audit.log.1")
    OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, PASSWORD)
    manage("account", "deactivate", person.email, AUDIT_LOG=f"file://{path}")

    def events(file: Path) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if str(person.pk) in (line.get("person"), line.get("key"))]

    wait_until(lambda: path.exists() and len(events(path)) == 3)
    (refused,) = events(tmp_path / "audit.log.1")
    assert (refused["event"], refused["cause"], refused["address"]) == ("refused", "password_wrong", "127.0.0.1")
    assert server.logged(refused["reference"])  # the line of the request
    assert [line["event"] for line in events(path)] == ["signed_in", "account_deactivated", "administered"]
    assert '"logger":"events"' not in server.log
    assert person.email not in path.read_text(encoding="utf-8")


def test_the_documented_rotation_loses_no_line(tmp_path: Path) -> None:
    """With four writing processes. Debian's logrotate.conf has `create`, which the rule takes back."""
    program = shutil.which("logrotate") or shutil.which("logrotate", path="/usr/sbin")
    if not program:
        pytest.skip("needs logrotate")
    folder = tmp_path / "log"
    folder.mkdir(mode=0o755)
    rule = documented.file("/etc/logrotate.d/sign-in", "audit.md")
    assert "su sign-in sign-in\n" in rule
    rule = rule.replace("/var/log/sign-in", str(folder)).replace("su sign-in sign-in\n", "")
    (tmp_path / "logrotate.conf").write_text(f"create\n{rule}", encoding="utf-8")
    (tmp_path / "logrotate.conf").chmod(0o644)
    rotate = [program, "--force", "--state", tmp_path / "state", tmp_path / "logrotate.conf"]
    command = [sys.executable, "-c", WRITER, folder / "audit.log"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    writers = [subprocess.Popen([*command, str(number)], cwd=ROOT, text=True, **pipes) for number in range(4)]
    log = folder / "audit.log"
    for _ in range(3):
        wait_until(lambda: log.exists() and log.stat().st_size > 0)  # an absent or empty file is not rotated
        done = subprocess.run(rotate, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
    written = {f"{number} {line}" for number, each in enumerate(writers) for line in range(int(each.communicate()[0]))}
    read = {path: gzip.open if path.suffix == ".gz" else open for path in folder.iterdir()}
    assert {path.name.removesuffix(".gz") for path in read} >= {"audit.log.1", "audit.log.3"}
    assert {line.strip() for path, opened in read.items() for line in opened(path, "rt")} == written
