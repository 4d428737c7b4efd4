"""Runs the service as deployments do: under gunicorn, on a loopback port. Reads its log and its metrics."""

from __future__ import annotations

import itertools
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import django
import pytest
import requests
from django.db import connection
from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")

ROOT = Path(__file__).resolve().parent.parent
running: list[Server] = []
# Limits that are counted, and that nobody reaches.
WIDE_RATES = {
    f"RATE_{name}": "1000000/m"
    for name in ("AUTHORIZE", "TOKEN", "TOKEN_FAILURES", "USERINFO", "USERINFO_FAILURES", "SIGN_IN_DONE")
}
PATIENCE_SECONDS = 180
# As systemd with a socket unit: the listening socket is descriptor 3 of the process.
HANDED_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execvp(sys.argv[2], sys.argv[2:])
"""
# The variables that the service reads.
OURS = set(re.findall(r"^\| `([A-Z_]+)` \|", (ROOT / "docs" / "operations.md").read_text(), re.MULTILINE))


def wait_until(condition: Callable[[], T], seconds: float = PATIENCE_SECONDS, told: Callable[[], object] = str) -> T:
    """Wait until `condition` returns something true, and return that.

    Raises AssertionError, with what `told` returns: it did not happen in so many seconds.
    """
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"it did not happen in time: {told()}"
        time.sleep(0.02)
    return value


def eventually(expected: object, read: Callable[[], object]) -> None:
    """Wait until `read` returns what is expected: workers take time to start, and to learn of a fault."""
    wait_until(lambda: read() == expected, told=lambda: f"{read()} is not {expected}")


def wait_until_up(process: subprocess.Popen[Any], is_up: Callable[[], object], log: Path) -> None:
    """Wait until the program that was started is up. Raises AssertionError, with its log: it has ended."""

    def read() -> str:
        return log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""

    wait_until(lambda: process.poll() is not None or is_up(), told=read)
    assert process.poll() is None, read()


def program(name: str) -> str:
    """Its path. Skips the test: it is not installed."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    return found or pytest.skip(f"needs {name}")


@contextmanager
def started(command: Sequence[str | Path], is_up: Callable[[], object], log: Path, **options: Any) -> Iterator[int]:
    """The process id of a program that runs until the block ends. Its output is added to the log."""
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output, **options) as process:
        try:
            wait_until_up(process, is_up, log)
            yield process.pid
        finally:
            process.terminate()


def socket_unit(listener: socket.socket) -> dict[str, Any]:
    """Arguments of `serve` for a server that takes over the listening socket, as from systemd's socket unit."""
    number = listener.fileno()
    under = [sys.executable, "-c", HANDED_OVER, str(number)]
    return {"port": listener.getsockname()[1], "under": under, "pass_fds": [number]}


@dataclass(eq=False)
class Server:
    base_url: str
    auth_url: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def logged(self, text: str) -> bool:
        """Wait until the log contains the text: a line is written after its response was sent."""
        return wait_until(lambda: text in self.log, told=lambda: text)

    def workers(self) -> set[int]:
        return children_of(self.process.pid)

    def mails(self, text: str = "") -> list[str]:
        """The mails that contain the text, the newest last. Waits for the first one."""

        def found() -> list[str]:
            paths = sorted((self.folder / "mail").glob("*"), key=lambda path: path.stat().st_mtime_ns)
            mails = [path.read_text(encoding="utf-8") for path in paths]
            # Django writes a line of hyphens after a mail that is complete.
            return [mail for mail in mails if text in mail and mail.endswith(f"{'-' * 79}\n")]

        return wait_until(found)

    def reset_link(self) -> str:
        """The newest link for a new password. Other mails may arrive before and after it."""
        mails = self.mails("/accounts/password/reset/")
        links = [re.search(r"https?://\S+/accounts/password/reset/\S+", mail) for mail in mails]
        return [link[0] for link in links if link][-1]


def configure_django() -> None:
    """For a program that is no test. Variables of the machine do not reach the service."""
    for name in OURS & os.environ.keys():
        del os.environ[name]
    os.environ |= {"DATABASE_URL": "sqlite:///:memory:", "DJANGO_SETTINGS_MODULE": "config.settings"}
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(50)
    django.setup()


def worker_number() -> int:
    """The number of this process among those of pytest-xdist; 0 if it is the only one."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


# Of this process alone, below those that Linux gives to outgoing connections. Two runs have another order.
PORTS = range(20_000 + worker_number(), 32_768, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
ports = itertools.cycle(random.sample(PORTS, len(PORTS)))


def free_port() -> int:
    """A port that neither another worker nor an outgoing connection takes in the meantime."""
    for port in ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("there is no free port")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def children_of(pid: int) -> set[int]:
    if not Path("/proc/self/task").exists():
        pytest.skip("needs Linux's /proc to see the processes")
    with suppress(FileNotFoundError, ProcessLookupError):
        return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()}
    return set()


def database_url() -> str:
    name = str(connection.settings_dict["NAME"])
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(name)}"
    given = urlsplit(os.environ["DATABASE_URL"])
    return given._replace(path=f"/{quote(name)}").geturl()


def environment(folder: Path, **changes: str) -> dict[str, str]:
    """The environment for the service or one of its commands, without the variables of the service in this process."""
    (folder / "mail").mkdir(parents=True, exist_ok=True)
    return {
        **{name: value for name, value in os.environ.items() if name not in OURS},
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database_url(),
        "EMAIL_URL": f"filemail://{folder / 'mail'}",
        "SECRET_KEY": secrets.token_urlsafe(50),
        "PYTHONWARNINGS": "ignore",
        **({"REDIS_URL": os.environ["REDIS_URL"]} if os.environ.get("REDIS_URL") else {}),
        **changes,
    }


@contextmanager
def serve(
    folder: Path,
    *,
    wsgi: str = "config.wsgi",
    root: Path = ROOT,
    under: Sequence[str] = (),
    port: int | None = None,
    pass_fds: Sequence[int] = (),
    is_awaited: bool = True,
    **changes: str,
) -> Iterator[Server]:
    """A server that runs the files in `root` until the block ends. The command `under` starts it.

    BASE_URL and AUTH_URL may contain {port}. Passwords are hashed cheaply: DJANGO_SETTINGS_MODULE="config.settings"
    changes that.
    """
    port = port or free_port()
    base_url = changes.pop("BASE_URL", "http://localhost:{port}").format(port=port)
    auth_url = changes.pop("AUTH_URL", base_url).format(port=port)
    defaults = {"RATE_LIMITS": "off", "BIND": f"127.0.0.1:{port}", "BASE_URL": base_url, "AUTH_URL": auth_url}
    if root == ROOT:
        defaults["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    env = environment(folder, **{**defaults, **changes})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*under, sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", wsgi],
            cwd=root,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Not a session of its own: autogroup, a part of Linux's scheduler, gives each session a share of each CPU.
            # Of a server whose new workers import, the others would get too small a share.
            process_group=0,
            pass_fds=pass_fds,
        )
    server = Server(base_url, auth_url, folder, process)
    running.append(server)
    try:
        if is_awaited:
            wait_until_up(process, lambda: _is_up(server, port), folder / "log")
        yield server
    finally:
        running.remove(server)
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kills the master and its workers at once. Every line of the log has been flushed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _is_up(server: Server, port: int) -> bool:
    with suppress(requests.ConnectionError, requests.Timeout):
        headers = {"Host": urlsplit(server.auth_url).netloc}
        return requests.get(f"http://127.0.0.1:{port}/health/live", headers=headers, timeout=5).ok
    return False


def request(line: bytes, headers: bytes = b"", body: bytes = b"") -> bytes:
    """The bytes of a request. `headers` may begin with another Host than localhost; each ends with CRLF."""
    host = b"" if headers.lower().startswith(b"host:") else b"Host: localhost\r\n"
    return b"%b HTTP/1.1\r\n%bConnection: close\r\n%b\r\n%b" % (line, host, headers, body)


def send(server: Server, data: bytes) -> bytes:
    """Send the bytes on a new connection. Returns the response; empty if the server closed the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", urlsplit(server.base_url).port or 0), timeout=120) as connection:
        with suppress(OSError):  # it may answer, and close, before it has read everything
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                received += part
    return received


def status_of(answer: bytes) -> int:
    """0 without an answer."""
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/") else 0


def scrape(port: int) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(port: int, name: str, **labels: str) -> float:
    """The sample with these labels; 0 when there is none."""
    return scrape(port).get((name, frozenset(labels.items())), 0.0)
