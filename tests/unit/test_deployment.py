"""What is wrong with an installation: `manage.py check-deployment`, the administration on proxies, system checks."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone

from config import checks
from config import environment as env
from oauth_bridge.models import PurgeRun
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.documented import document
from tests.pages import html_of, text_of
from tests.peers import HANGS, MailServer
from tests.server import free_port
from tests.unit.test_config_environment import settings_with, use_settings

deployment_checks = import_module("config.management.commands.check-deployment")


@pytest.mark.django_db
def test_everything_is_said_at_once_and_a_failure_ends_with_1(settings: Any, capsys: Any) -> None:
    settings.TRUSTED_PROXIES, settings.IS_HTTPS = [], True
    settings.REDIS_URL = f"redis://:hidden@127.0.0.1:{free_port()}/0"
    for arguments in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            call_command("check-deployment", *arguments)
        assert ended.value.code == 1
    lines, _, said = capsys.readouterr().out.rstrip().rpartition("\n")
    assert "hidden" not in lines + said
    found = json.loads(said)
    assert found["ok"] is False
    told = {(each["status"], each["name"]) for each in found["checks"]}
    assert told >= {("failed", "proxies"), ("failed", "redis"), ("failed", "mail"), ("ok", "database")}
    for line, each in zip(lines.splitlines(), found["checks"], strict=True):
        assert line.startswith(f"{each['status']:<8} {each['name']}: {each['message']}")
        assert bool(each["fix"]) == (each["status"] in ("warning", "failed"))


def test_clocks_proxies_and_the_audit_log_in_which_nothing_is_written(tmp_path: Path, settings: Any) -> None:
    for seconds, status in {0: "ok", -0.9: "ok", 5: "warning", -60: "failed"}.items():
        assert deployment_checks.clock("clock_redis", "Redis", seconds).status == status
    for trusted, status in {"10.0.0.0/8": "ok", "0.0.0.0/0": "failed", "::/0": "failed"}.items():
        settings.TRUSTED_PROXIES = [ip_network(trusted)]
        assert deployment_checks.proxies().status == status
    for status, options in (
        ("ok", {}),
        ("ok", {"path": str(tmp_path / "audit.log")}),
        ("failed", {"path": "/nowhere/audit.log"}),
        ("failed", {"host": "nowhere.invalid", "port": 514}),
    ):
        settings.AUDIT_LOG = {"class": "config.logs.AuditHandler", **options} if options else {}
        assert deployment_checks.audit_log().status == status
    assert (tmp_path / "audit.log").read_text() == ""


@pytest.mark.django_db
def test_purges() -> None:
    PurgeRun.objects.all().delete()
    for days, status in ((0, "warning"), (2, "failed")):
        MigrationRecorder.Migration.objects.update(applied=timezone.now() - timedelta(days=days))
        assert deployment_checks.purge().status == status
    for hours, status in ((23, "ok"), (25, "failed")):
        finished = timezone.now() - timedelta(hours=hours)
        PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": finished})
        assert deployment_checks.purge().status == status


def test_mail_servers(mail_server: MailServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deployment_checks, "WAIT_SECONDS", 1)
    settings.IS_HTTPS, own = True, f"127.0.0.1:{mail_server.port}"
    for url, mode, status, said in (
        (f"smtp://user:hidden@{own}", "takes", "failed", "no login"),
        (f"smtp+tls://{own}", "takes", "failed", "no TLS"),
        (f"smtp://{own}", HANGS, "failed", "does not answer"),
        ("smtp://127.0.0.1:1", "takes", "failed", "Connection refused"),
        ("filemail:///var/mail", "takes", "failed", "written"),
        (f"smtp://{own}", "takes", "ok", "needs no login"),
    ):
        monkeypatch.setenv("EMAIL_URL", url)
        for name, value in env.email("EMAIL_URL", "").items():
            setattr(settings, name, value)
        mail_server.mode = mode
        found = deployment_checks.mail()
        assert (found.status, said in found.message, "hidden" in found.message) == (status, True, False), found
    for refused, code, said in (("rcpt", 504, "greets it (504)"), ("mail", 550, "sender (550)")):
        monkeypatch.setattr(f"smtplib.SMTP.{refused}", lambda *_given, code=code: (code, b""))
        assert said in deployment_checks.mail().message


@pytest.mark.django_db
def test_the_administration_says_as_what_a_request_counts(admin_client: Client, settings: Any) -> None:
    settings.STAFF_SECOND_FACTOR, settings.TRUSTED_PROXIES = False, [ip_network("10.0.0.1")]

    def page(peer: str) -> str:
        sent = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_FOR": "203.0.113.7"}
        return text_of(html_of(admin_client.get("/admin/", **sent)))  # type: ignore[arg-type]

    trusted, untrusted = page("10.0.0.1"), page("10.0.0.2")
    assert f"Version {settings.VERSION}" in trusted
    assert "Your request came from 10.0.0.1 and counts as 203.0.113.7." in trusted
    assert "Your request came from 10.0.0.2 and counts as 10.0.0.2. Its X-Forwarded-For is not read" in untrusted


PRODUCTION = {
    "BASE_URL": "https://api.example.com",
    "AUTH_URL": "https://auth.example.com",
    "SECRET_KEY": "a-key-for-this-test-and-for-nothing-else-0123456789-ABCDEFGHIJ",
    "DATABASE_URL": "postgres://service@db.example.com/service",
    "REDIS_URL": "redis://cache.example.com:6379/0",
    "EMAIL_URL": "smtp+tls://user:password@mail.example.com",
    "WEB_CONCURRENCY": "4",
}


@contract("O.deploy")
@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")  # the checks read the setting, no connection
def test_a_bad_deployment_is_refused_by_number(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for changes, number in (
        ({"AUTH_URL": "http://auth.example.com"}, "config.E001"),
        ({"BASE_URL": "http://api.example.com"}, "config.E002"),
        ({"SECRET_KEY": ""}, "config.E003"),
        ({"SECRET_KEY": "short"}, "config.E003"),
        ({"DEBUG": "on"}, "config.E004"),
        ({"EMAIL_URL": ""}, "config.E005"),
        ({"REDIS_URL": ""}, "config.E006"),
        ({"DATABASE_URL": "sqlite:///:memory:"}, "config.W001"),
        ({"AUTH_URL": "https://192.0.2.1"}, "config.W002"),
        ({"DATABASE_URL": ""}, "config.W003"),
        ({"SERVICE_COLOR": "#777777"}, "config.E008"),
    ):
        use_settings(settings, settings_with(monkeypatch, **{**PRODUCTION, **changes}))
        with pytest.raises(SystemCheckError, match=number):
            call_command("check", deploy=True, fail_level="WARNING")
    settings.AUTH_URL, settings.BASE_URL = "http://localhost:8000", "http://[::1]:8000"
    found = {each.id for each in checks.deployment_is_safe(None)}
    assert not {"config.E001", "config.E002"} & found, "this machine needs no encryption"


def test_an_empty_database_is_refused_and_one_that_does_not_answer_is_a_warning(committed: None) -> None:
    for url, number in (("sqlite:///:memory:", "E007"), (f"postgres://127.0.0.1:{free_port()}/a", "W004")):
        with in_use(url):
            [found] = checks.database_is_migrated(None, databases=["default"])
        assert found.id == f"config.{number}"


def test_every_check_is_in_the_operations_guide() -> None:
    guide = document("operations.md")
    numbers = re.findall(r'"([EW][0-9]{3})"', Path(checks.__file__).read_text(encoding="utf-8"))
    assert [each for each in numbers if f"`{each}`" not in guide and f"`config.{each}`" not in guide] == []
    assert len(numbers) > 10
