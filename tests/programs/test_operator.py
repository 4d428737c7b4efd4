"""The operator's interface: the environment, serving and the quickstart."""

from __future__ import annotations

import re
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.server import ROOT, environment, free_port

Manage = Callable[..., subprocess.CompletedProcess[str]]

# Environment ----------------------------------------------------------------------------------------------------------


@contract("O.malformed")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://x/y"),
        ("REDIS_URL", "memcached://x"),
        ("DEBUG", "perhaps"),
        ("ALLOWED_HOSTS", "https://x"),
        ("BASE_URL", "https://x.example/path"),
        ("AUTH_URL", "x.example"),
        ("EMAIL_URL", "pigeon://x"),
        ("DEFAULT_FROM_EMAIL", "nobody"),
        ("MEDIA_ROOT", "relative"),
        ("TRUSTED_PROXIES", "10.0.0.0/99"),
        ("RATE_LIMITS", "perhaps"),
        ("RATE_TOKEN", "many"),
        ("RATE_TOKEN_FAILURES", "0/m"),
        ("RATE_USERINFO", "5/fortnight"),
        ("RATE_USERINFO_FAILURES", "5"),
        ("RATE_AUTHORIZE", "-1/m"),
        ("RATE_SIGN_IN_ACCOUNT", "/m"),
        ("RATE_SIGN_IN_ADDRESS", "5/"),
        ("RATE_UNKNOWN", "5/m"),
        ("SERVICE_NAME", "two\nlines"),
        ("BIND", "nowhere"),
        ("WEB_CONCURRENCY", "0"),
    ],
)
def test_a_malformed_value_stops_the_start_with_a_sentence_that_names_it(
    committed: None, tmp_path: Path, name: str, value: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi"],
        cwd=ROOT,
        env=environment(tmp_path, BIND=f"127.0.0.1:{free_port()}") | {name: value},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode != 0
    said = (result.stdout + result.stderr).strip()
    assert name in said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


@contract("O.workers")
def test_more_than_one_worker_without_redis_does_not_start(committed: None, tmp_path: Path) -> None:
    for arguments, variables in (([], {"WEB_CONCURRENCY": "2"}), (["-w", "3"], {})):
        env = environment(tmp_path, BIND=f"127.0.0.1:{free_port()}", **variables)
        env.pop("REDIS_URL", None)
        result = subprocess.run(
            [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", *arguments, "config.wsgi"],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode != 0
        assert "REDIS_URL" in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


@contract("O.environment", "O.serve")
def test_the_environment_reaches_the_service(launch: Launch, tmp_path: Path, alice: Any) -> None:
    server = launch(
        SERVICE_NAME="Ærlig Sign-In",
        DEFAULT_FROM_EMAIL="Ærlig <post@aerlig.example>",
        ALLOWED_HOSTS="localhost,127.0.0.1,other.example",
    )
    driver = OAuthDriver(server.base_url)
    page = driver.open("/accounts/sign-in")
    assert "Ærlig Sign-In" in Page(page).text
    assert driver.call("GET", "/health/live", headers={"Host": "other.example"}).status_code == 200
    assert driver.call("GET", "/health/live", headers={"Host": "third.example"}).status_code == 400
    form = Page(driver.open("/accounts/password/reset")).forms[0]
    driver.submit(form, email=alice.email)
    letters = server.mails()
    assert len(letters) == 1
    assert "post@aerlig.example" in letters[0]
    assert f"{server.auth_url}/accounts/password/reset" in letters[0]


@contract("O.serve")
def test_static_files_are_served_without_another_step(driver: OAuthDriver) -> None:
    page = driver.open("/accounts/sign-in")
    sheets = re.findall(r'href="(/static/[^"]+\.css)"', page.text)
    assert sheets
    for sheet in sheets:
        answer = driver.get(sheet)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/css")
    assert driver.call("GET", "/health/live").status_code == 200
    assert driver.call("GET", "/health/ready").json()["database"] == "ok"


@contract("O.deploy")
def test_check_deploy_refuses_http_on_anything_but_loopback(manage: Manage) -> None:
    right = {
        "BASE_URL": "https://api.example",
        "AUTH_URL": "https://auth.example",
        "EMAIL_URL": "smtp+tls://u:p@mail.example:587",
        "SECRET_KEY": secrets.token_urlsafe(50),
    }
    good = manage("check", "--deploy", "--fail-level", "WARNING", **right)
    assert good.returncode == 0, good.stderr
    for name in ("BASE_URL", "AUTH_URL"):
        bad = manage("check", "--deploy", **{**right, name: "http://auth.example"})
        assert bad.returncode != 0
        assert name in bad.stderr


# Quickstart -----------------------------------------------------------------------------------------------------------


def quickstart(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A separate process, so that the test can send it Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "quickstart", *arguments],
        cwd=ROOT,
        env=environment(folder, DATABASE_URL=f"sqlite:///{folder / 'quick.sqlite3'}", REDIS_URL=""),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=40)


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(said + (process.stderr.read() if process.stderr else ""))


@contract("O.quickstart")
def test_quickstart_serves_a_demo_and_runs_again(committed: None, tmp_path: Path) -> None:
    for _run in range(2):
        port, demo_port = free_port(), free_port()
        process = quickstart(tmp_path, "--port", str(port), "--demo-port", str(demo_port))
        try:
            said = read_until(process, "Ctrl-C")
            email, password = re.findall(r"(\S+@\S+), password (\S+)", said)[0]
            demo = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert demo
            driver = OAuthDriver(f"http://localhost:{port}")
            links = [urljoin(demo[0], link) for link in Page(driver.get(demo[0])).links]
            start = next(driver.get(link) for link in [*links, f"{demo[0]}/sign-in"] if link.startswith(demo[0]))
            callback = driver.authorize(start.headers["Location"], email, password)
            landed = driver.browser.get(callback.url, timeout=10)
            assert landed.ok
            assert email in landed.text
        finally:
            _, errors = press_ctrl_c(process)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
        for free in (port, demo_port):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", free)) != 0


@contract("O.quickstart")
def test_quickstart_refuses_a_port_in_use_with_a_sentence(committed: None, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = quickstart(tmp_path, "--port", str(port), "--demo-port", str(free_port()))
        _, errors = process.communicate(timeout=40)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert str(port) in errors
