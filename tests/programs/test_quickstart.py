"""`manage.py quickstart`: the service and its demo application as two processes, and every way it can say no."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import requests

from tests.driver import OAuthDriver
from tests.server import ROOT, children_of, free_port
from tests.smtp import wait_until

pytestmark = pytest.mark.once

needs_demo = pytest.mark.skipif(
    not all(map(find_spec, ("authlib", "flask"))), reason="needs config/requirements/quickstart.txt"
)


class Quickstart:
    """A run of the command in the background, on ports and a database of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.demo_port = free_port(), free_port()

    def command(self, *changes: str) -> list[str]:
        ports = ["--port", str(self.port), "--demo-port", str(self.demo_port)]
        return [sys.executable, "manage.py", "quickstart", *ports, *changes]

    def environment(self, **changes: str) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        database = f"sqlite:///{self.folder}/db.sqlite3"
        return {**kept, "DATABASE_URL": database, "EMAIL_URL": f"filemail://{self.folder}/mail", **changes}

    def refused(self, *arguments: str, **changes: str) -> str:
        """The sentence it ends with, where it must end at once."""
        ended = subprocess.run(
            self.command(*arguments),
            cwd=ROOT,
            env=self.environment(**changes),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 1
        assert ended.stdout == ""
        assert ended.stderr.count("\n") == 1, ended.stderr
        return ended.stderr.removeprefix("CommandError: ").strip()

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        self.output = self.folder / "output"
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                self.command(*arguments), cwd=ROOT, env=self.environment(), stdout=output, stderr=output
            )
        return self.process

    def start(self, *arguments: str) -> str:
        """What it prints once both processes answer."""
        self.begin(*arguments)
        for _ in range(600):
            text = self.output.read_text()
            if "Ctrl-C" in text:
                return text
            assert self.process.poll() is None, text
            time.sleep(0.1)
        raise AssertionError("quickstart did not come up")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(40)


@pytest.fixture
def quickstart(tmp_path: Path) -> Iterator[Quickstart]:
    run = Quickstart(tmp_path)
    yield run
    if hasattr(run, "process") and run.process.poll() is None:
        run.process.terminate()
        run.process.wait(40)


@pytest.fixture
def migrated(quickstart: Quickstart, sqlite_template: Path) -> None:
    """The migrations have run: they take four seconds. tests/contract starts it on an empty database."""
    shutil.copy(sqlite_template, quickstart.folder / "db.sqlite3")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@needs_demo
@pytest.mark.usefixtures("migrated")
def test_both_answer_and_ctrl_c_ends_both(quickstart: Quickstart) -> None:
    first = quickstart.start()
    assert f"http://127.0.0.1:{quickstart.demo_port}\n" in first
    assert f"{quickstart.folder}/mail\n" in first
    assert (quickstart.folder / "mail").is_dir()
    assert "Sign in" in requests.get(f"http://127.0.0.1:{quickstart.demo_port}", timeout=10).text
    way = requests.get(f"http://127.0.0.1:{quickstart.demo_port}/sign-in", timeout=10)
    assert way.status_code == 200
    assert way.url.startswith(f"http://localhost:{quickstart.port}/")
    assert quickstart.stop() == 0
    assert not is_open(quickstart.port)
    assert not is_open(quickstart.demo_port)


def printed_credentials(text: str) -> list[str]:
    """Both passwords and the client secret."""
    return re.findall(r"(?:, password|client_secret) (\S+)", text)


@needs_demo
@pytest.mark.usefixtures("migrated")
def test_the_next_run_keeps_passwords_and_secret_in_a_private_file(quickstart: Quickstart) -> None:
    first = quickstart.start()
    assert quickstart.stop() == 0
    path = quickstart.folder / "quickstart.json"
    assert str(path) in first
    assert path.stat().st_mode & 0o777 == 0o600
    credentials = printed_credentials(first)
    assert len(set(credentials)) == 3
    assert list(json.loads(path.read_text()).values()) == credentials
    second = quickstart.start()
    assert quickstart.stop() == 0
    assert printed_credentials(second) == credentials
    third = quickstart.start("--new-passwords")
    assert quickstart.stop() == 0
    assert not set(printed_credentials(third)[:2]) & set(credentials)


@needs_demo
@pytest.mark.usefixtures("migrated")
def test_a_password_that_was_set_elsewhere_stays(quickstart: Quickstart) -> None:
    quickstart.start()
    assert quickstart.stop() == 0
    typed = "a password that Dana chose"
    subprocess.run(
        [sys.executable, "manage.py", "account", "set-password", "demo@example.org", "--password-stdin"],
        cwd=ROOT,
        env=quickstart.environment(),
        input=typed,
        text=True,
        check=True,
        capture_output=True,
    )
    second = quickstart.start()
    assert "demo@example.org, with the password that was set for it elsewhere\n" in second
    assert len(printed_credentials(second)) == 2
    OAuthDriver(f"http://localhost:{quickstart.port}").signed_in("demo@example.org", typed)


@needs_demo
@pytest.mark.usefixtures("migrated")
def test_no_other_program_can_take_a_port_before_the_service_answers(quickstart: Quickstart) -> None:
    """The database is locked, so that the run stops between its check of the ports and the start of the service."""
    with sqlite3.connect(quickstart.folder / "db.sqlite3") as other:
        other.execute("BEGIN EXCLUSIVE")
        process = quickstart.begin()
        wait_until(lambda: is_open(quickstart.demo_port))
        for port in (quickstart.port, quickstart.demo_port):
            with pytest.raises(OSError, match="in use"):
                socket.create_server(("127.0.0.1", port))
        process.terminate()
    assert process.wait(40) != 0


@needs_demo
@pytest.mark.usefixtures("migrated")
def test_when_one_ends_the_other_is_ended_and_it_says_so(quickstart: Quickstart) -> None:
    quickstart.start()
    (demo,) = [child for child in children_of(quickstart.process.pid) if "demo_application" in command_line(child)]
    os.kill(demo, signal.SIGKILL)
    assert quickstart.process.wait(40) == 1
    assert "The demo application ended by itself" in quickstart.output.read_text()
    assert not is_open(quickstart.port)


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.mark.parametrize("which", ["port", "demo_port"])
def test_a_port_in_use_is_named_before_anything_is_touched(quickstart: Quickstart, which: str) -> None:
    port = getattr(quickstart, which)
    with socket.create_server(("127.0.0.1", port)):
        sentence = quickstart.refused()
    assert sentence.startswith(f"Port {port} can't be used")
    assert f"--{which.replace('_', '-')}" in sentence
    assert list(quickstart.folder.iterdir()) == []


def test_the_two_ports_differ(quickstart: Quickstart) -> None:
    assert quickstart.refused("--demo-port", str(quickstart.port)) == "--port and --demo-port must differ."


def test_it_is_for_this_machine_only(quickstart: Quickstart) -> None:
    sentence = quickstart.refused(AUTH_URL="https://auth.example.com")
    assert sentence == "quickstart is for this machine only, but the service is set up as https://auth.example.com."


def test_a_database_that_cannot_be_made_is_a_sentence(quickstart: Quickstart) -> None:
    (quickstart.folder / "db.sqlite3").mkdir()
    assert quickstart.refused().startswith("DATABASE_URL must be a file")


def test_a_port_only_the_administrator_may_use(quickstart: Quickstart) -> None:
    assert quickstart.refused("--port", "0") == "--port must be from 1 to 65535."


@needs_demo
def test_after_a_refusal_the_demo_shows_nothing_of_an_earlier_sign_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLIENT_ID", "CLIENT_SECRET"):
        monkeypatch.setenv(name, "unused")
    browser = runpy.run_path(str(ROOT / "docs" / "demo_application.py"))["app"].test_client()
    with browser.session_transaction() as session:
        session["person"] = dict.fromkeys(("sub", "nickname", "email", "avatar"), "Ada Lovelace")
    assert "Ada Lovelace" in browser.get("/").text
    page = browser.get("/callback?error=access_denied&state=s", follow_redirects=True).text
    assert "You refused, so nothing was shared." in page
    assert "Ada Lovelace" not in page
    assert "This application knows nothing yet" in page


def test_the_reference_integration_is_at_most_80_lines() -> None:
    """Without its page, which has the style sheet in it and loads nothing from elsewhere."""
    before, _, rest = (ROOT / "docs" / "demo_application.py").read_text().partition('PAGE = """')
    page, _, after = rest.partition('"""')
    assert len((before + after).splitlines()) <= 80
    assert re.findall(r"https?://|<script|<link(?! rel=.icon. href=.data:)|url\((?!_)", page) == []
