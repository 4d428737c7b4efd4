"""`manage.py quickstart`: the service and its demo application as two processes, and every way it can say no."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from django.core.management import CommandError, call_command

from oauth_bridge.management.commands import quickstart as quickstart_command
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.server import ROOT, children_of, free_port, is_open, wait_until_up

needs_demo = pytest.mark.skipif(
    not all(map(find_spec, ("authlib", "flask"))), reason="needs config/requirements/quickstart.txt"
)


class Quickstart:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.demo_port = free_port(), free_port()
        self.database = f"sqlite:///{folder}/db.sqlite3"

    def start(self) -> str:
        self.output = self.folder / "output"
        command = [sys.executable, "manage.py", "quickstart"]
        command += ["--port", str(self.port), "--demo-port", str(self.demo_port)]
        env = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        env |= {"DATABASE_URL": self.database, "EMAIL_URL": f"filemail://{self.folder}/mail"}
        with self.output.open("w") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=output, stderr=output)
        wait_until_up(self.process, lambda: "Ctrl-C" in self.output.read_text(), self.output)
        return self.output.read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@pytest.fixture
def quickstart(tmp_path: Path) -> Iterator[Quickstart]:
    run = Quickstart(tmp_path)
    yield run
    if hasattr(run, "process") and run.process.poll() is None:
        run.process.terminate()
        run.process.wait(60)


def sign_in_to_demo(quickstart: Quickstart, email: str, password: str) -> str:
    demo_url = f"http://127.0.0.1:{quickstart.demo_port}"
    driver = OAuthDriver(f"http://localhost:{quickstart.port}")
    assert f"{demo_url}/sign-in" in {urljoin(demo_url, link) for link in Page(driver.get(demo_url)).links}
    start = driver.get(f"{demo_url}/sign-in")
    callback = driver.authorize(start.headers["Location"], email, password)
    return driver.browser.get(callback.url, timeout=60).text


@needs_demo
@contract("O.quickstart")
def test_it_serves_a_demo_from_nothing_and_runs_again_with_its_passwords(quickstart: Quickstart, manage: Any) -> None:
    first = quickstart.start()
    assert f"http://127.0.0.1:{quickstart.demo_port}\n" in first
    assert f"{quickstart.folder}/mail\n" in first
    credentials = re.findall(r"(?:, password|client_secret) (\S+)", first)  # both passwords and the client secret
    assert "demo@example.org" in sign_in_to_demo(quickstart, "demo@example.org", credentials[0])
    assert quickstart.stop() == 0
    assert "Traceback" not in quickstart.output.read_text()
    assert [is_open(port) for port in (quickstart.port, quickstart.demo_port)] == [False, False]
    path = quickstart.folder / "quickstart.json"
    assert str(path) in first
    assert list(json.loads(path.read_text()).values()) == credentials
    assert len(set(credentials)) == 3
    # What is stored is for this user only.
    made = {each.name: each.stat().st_mode & 0o077 for each in quickstart.folder.rglob("*") if each.name != "output"}
    assert made.keys() >= {"db.sqlite3", "quickstart.json"}
    assert not any(made.values())

    typed, address = "a password that Dana chose", "demo@example.org"
    manage("account", "set-password", address, "--password-stdin", stdin=typed, DATABASE_URL=quickstart.database)
    second = quickstart.start()
    assert f"{address}, with the password that was set for it elsewhere\n" in second
    assert re.findall(r"(?:, password|client_secret) (\S+)", second) == credentials[1:]
    assert address in sign_in_to_demo(quickstart, address, typed)

    children = {Path(f"/proc/{pid}/cmdline").read_text(): pid for pid in children_of(quickstart.process.pid)}
    os.kill(next(pid for command, pid in children.items() if "demo_application" in command), signal.SIGKILL)
    assert quickstart.process.wait(60) == 1
    assert "The demo application ended by itself" in quickstart.output.read_text()
    assert not is_open(quickstart.port)


@needs_demo
def test_an_unusable_port_and_another_machine_are_refused(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.AUTH_URL = settings.BASE_URL = "http://localhost:8000"
    monkeypatch.setattr(quickstart_command, "prepare", lambda *_: pytest.fail("it goes on"))
    port, another = free_port(), free_port()

    def refused(port: int, demo_port: int, sentence: str) -> None:
        with pytest.raises(CommandError, match=f"^{sentence}"):
            call_command("quickstart", port=port, demo_port=demo_port)

    with socket.create_server(("127.0.0.1", port)):
        refused(port, another, f"Port {port} can't be used.*--port")
    refused(port, port, f"Port {port} can't be used.*--demo-port")
    refused(99999, port, "Port 99999 can't be used.*--port")
    settings.AUTH_URL = "https://auth.example.com"
    refused(port, another, "quickstart is for this machine only")
