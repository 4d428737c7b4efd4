"""The folder that `config/container/set-up` writes for the compose file. docs/containers.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import raw_variables
from tests.documented import nginx_block
from tests.server import OURS, ROOT, environment

pytestmark = pytest.mark.once

CONTAINER = ROOT / "config" / "container"
AUTH, API = "auth.example.org", "api.example.org"


def set_up(folder: Path) -> None:
    subprocess.run([CONTAINER / "set-up", folder, AUTH, API], check=True, timeout=30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    set_up(tmp_path)
    return tmp_path


def compose(folder: Path) -> dict[str, Any]:
    """The compose file with its variables, as Docker Compose reads it."""
    given = pairs(folder / ".env")

    def value(match: re.Match[str]) -> str:
        name, separator, default = match[1].partition(":-")
        assert separator or name in given, f"{name} has no value"
        return given.get(name, default)

    text = re.sub(r"(?<!\$)\$\{([^}]+)\}", value, (folder / "compose.yaml").read_text(encoding="utf-8"))
    document: dict[str, Any] = yaml.safe_load(text)
    return document


def pairs(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines())


def content(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (folder / "secrets").iterdir()}


def test_secrets_are_random_and_stay(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    another = tmp_path_factory.mktemp("another")
    set_up(another)
    before = content(folder)
    for name in ("secret-key", "database-password", "database-url"):
        assert len(before[name]) >= 96
        assert before[name] != content(another)[name]
    assert before["database-password"] in before["database-url"]
    (folder / "settings.env").write_text("SERVICE_NAME=Kept\n")
    set_up(folder)
    assert content(folder) == before
    assert (folder / "settings.env").read_text() == "SERVICE_NAME=Kept\n"


def test_only_owner_and_group_read_secrets(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in (folder / "secrets").iterdir()}
    assert set(modes.values()) == {0o640}, modes


def test_nginx_has_the_documented_configuration(folder: Path) -> None:
    changes = {
        "auth.example.com": AUTH,
        "api.example.com": API,
        "127.0.0.1:8000": "service:8000",
        "/var/log/nginx/sign-in.log": "/dev/stdout",
    }
    expected = nginx_block("operations.md")
    for before, after in changes.items():
        assert before in expected
        expected = expected.replace(before, after)
    assert (folder / "nginx" / "sign-in.conf").read_text(encoding="utf-8") == expected


def test_the_compose_file_finds_its_files_and_trusts_its_proxy_alone(folder: Path) -> None:
    document = compose(folder)
    for secret in document["secrets"].values():
        assert (folder / secret["file"]).is_file()
    services = document["services"]
    proxy = services["proxy"]["networks"]["front"]
    assert proxy["aliases"] == [AUTH, API]
    for name in ("service", "migrate", "purge"):
        assert services[name]["environment"]["TRUSTED_PROXIES"] == proxy["ipv4_address"]
        assert services[name]["read_only"]
        files = {each for each in services[name]["environment"] if each.endswith(raw_variables.FILE)}
        assert {each.removesuffix(raw_variables.FILE) for each in files} <= raw_variables.SECRET
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


def test_the_service_accepts_the_settings(folder: Path) -> None:
    given = compose(folder)["services"]["service"]["environment"] | pairs(folder / "settings.env")
    given = {name: str(value).replace("/run/secrets", str(folder / "secrets")) for name, value in given.items()}
    inherited = {name: value for name, value in environment(folder).items() if name not in OURS}

    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"]
        options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 60, "check": False}
        return subprocess.run(command, cwd=ROOT, env=inherited | given, **options)

    assert check().stderr.startswith("EMAIL_URL_FILE must be the path of a file"), "set-up can't know the mail server"
    (folder / "secrets" / "email-url").write_text("smtp+tls://user:password@mail.example.com")
    done = check()
    assert done.returncode == 0, done.stderr


def test_it_says_what_it_needs() -> None:
    done = subprocess.run([CONTAINER / "set-up"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "Usage: set-up FOLDER AUTH_HOST API_HOST\n")
