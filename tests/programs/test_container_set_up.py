"""The folder that `config/container/set-up` writes for the compose file. docs/operations.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from config import environment
from tests.documented import file
from tests.server import ROOT
from tests.unit.test_config_environment import settings_with, use_settings

AUTH, API = "auth.example.org", "api.example.org"


def set_up(folder: Path) -> None:
    subprocess.run([ROOT / "config" / "container" / "set-up", folder, AUTH, API], check=True, timeout=30)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("container")
    set_up(folder)
    return folder


def compose(folder: Path) -> dict[str, Any]:
    text = (folder / "compose.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(re.sub(r"(?<!\$)\$\{\w+:-([^}]+)\}", r"\1", text))


def test_secrets_are_random_private_and_stay(folder: Path, tmp_path: Path) -> None:
    def content(folder: Path) -> dict[str, str]:
        files = [*(folder / "secrets").iterdir(), folder / "settings.env"]
        return {path.name: path.read_text(encoding="utf-8") for path in files}

    set_up(tmp_path)
    (tmp_path / "settings.env").write_text("SERVICE_NAME=Kept\n")
    before, others = content(tmp_path), content(folder)
    random = [name for name in others if len(others[name]) >= 96 and others[name] != before[name]]
    assert sorted(random) == ["database-password", "database-url", "secret-key"]
    assert before["database-password"] in before["database-url"]
    assert {path.stat().st_mode & 0o777 for path in (folder / "secrets").iterdir()} == {0o640}
    set_up(tmp_path)
    assert content(tmp_path) == before


def test_nginx_has_the_documented_configuration(folder: Path) -> None:
    made, documented = (folder / "nginx" / "sign-in.conf").read_text(), file("/etc/nginx/conf.d/sign-in.conf")
    assert not re.search(r"example\.com|127\.0\.0\.1:800|/var/log", made)
    assert [text for text in (AUTH, API, "pages:8000", "operations:8000", "/dev/stdout") if text not in made] == []
    assert len(made.splitlines()) == len(documented.splitlines())


def test_the_compose_file_finds_its_files_and_trusts_its_proxy_alone(folder: Path) -> None:
    document = compose(folder)
    for secret in document["secrets"].values():
        assert (folder / secret["file"]).is_file()
    services = document["services"]
    proxy = services["proxy"]["networks"]["front"]
    for name in ("pages", "operations", "migrate", "purge"):
        assert services[name]["environment"]["TRUSTED_PROXIES"] == proxy["ipv4_address"]
        assert services[name]["read_only"]
        files = {each for each in services[name]["environment"] if each.endswith(environment.FILE)}
        assert {each.removesuffix(environment.FILE) for each in files} <= environment.SECRET
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")  # the checks read the setting, no connection
def test_the_service_accepts_the_settings(folder: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    lines = (folder / "settings.env").read_text(encoding="utf-8").splitlines()
    given = compose(folder)["services"]["pages"]["environment"] | dict(line.split("=", 1) for line in lines)
    given = {name: str(value).replace("/run/secrets", str(folder / "secrets")) for name, value in given.items()}
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL_FILE must be the path of a file"):
        settings_with(monkeypatch, **given)  # set-up can't know the mail server
    email = folder / "secrets" / "email-url"
    email.write_text("smtp+tls://user:password@mail.example.com")
    made = settings_with(monkeypatch, **given)
    email.unlink()
    use_settings(settings, made)
    call_command("check", deploy=True, fail_level="WARNING")
