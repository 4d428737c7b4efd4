"""What `manage.py check-deployment` makes of what it is told: proxies, keys, purges, clocks, limits, questions."""

from __future__ import annotations

import json
import threading
import time
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.utils import timezone

from config.deployment import files, findings, outside, proxies, questions, upkeep
from oauth_bridge.key_models import SigningKey
from oauth_bridge.models import PurgeRun
from oauth_bridge.storage import signing_keys
from tests.faults.findings import by_name

HTTPS, FORGED = "https://auth.example.com", proxies.FORGED
OWN, PROXY, INNER, HERE = "203.0.113.9", "10.0.0.1", "10.0.0.2", "127.0.0.1"


def said(peer: str, *hops: str, address: str) -> dict[str, str]:
    return {"peer": peer, "forwarded": ", ".join(hops), "address": address}


V6 = "2001:db8:1::5"
THROUGH = said(PROXY, OWN, address=OWN)


@pytest.mark.parametrize(
    ("trusted", "honest", "forged", "own", "status"),
    [
        # Two proxies in a row, and one that replaces the header.
        ("10.0.0.0/8", said(PROXY, OWN, INNER, address=OWN), said(PROXY, FORGED, OWN, INNER, address=OWN), OWN, "ok"),
        ("10.0.0.1", said("::ffff:10.0.0.1", OWN, address=OWN), THROUGH, OWN, "ok"),
        ("10.0.0.1", *[said(PROXY, V6, address="2001:db8:1::/64")] * 2, V6, "ok"),
        # The check runs on the proxy.
        ("10.0.0.1", said(PROXY, PROXY, address=PROXY), said(PROXY, FORGED, PROXY, address=FORGED), PROXY, "ok"),
        # The proxy is not trusted; it says nothing; it says what everybody tells it.
        ("10.9.9.9", *[said(PROXY, OWN, address=PROXY)] * 2, OWN, "failed"),
        ("10.9.9.9", said(PROXY, address=PROXY), said(PROXY, FORGED, address=PROXY), OWN, "failed"),
        ("10.0.0.1", *[said(PROXY, address=PROXY)] * 2, OWN, "failed"),
        ("10.0.0.1", THROUGH, said(PROXY, FORGED, "x", address=FORGED), OWN, "failed"),
        # A network that is too wide; a proxy in front of the one that is named; an address translated on the way.
        ("::/0", *[said("::1", OWN, address=OWN)] * 2, OWN, "failed"),
        ("10.0.0.0/8", *[said(PROXY, INNER, address=INNER)] * 2, OWN, "failed"),
        ("10.0.0.1", said(PROXY, "198.51.100.1", address="198.51.100.1"), THROUGH, OWN, "warning"),
        # Without a proxy nobody is to be trusted.
        ("10.0.0.1", said(HERE, address=HERE), said(HERE, FORGED, address=HERE), HERE, "ok"),
        ("127.0.0.1", said(HERE, address=HERE), said(HERE, FORGED, address=HERE), HERE, "failed"),
        # A Unix socket has no address.
        ("10.0.0.1", *[said("", OWN, address="unknown")] * 2, OWN, "failed"),
    ],
)
def test_proxies(trusted: str, honest: Any, forged: Any, own: str, status: str, settings: Any) -> None:
    settings.TRUSTED_PROXIES = [ip_network(trusted)]
    url = HTTPS if own != HERE else "http://localhost:8000"
    assert by_name([proxies.finding("proxy", url, honest, forged, own)])["proxy"].status == status


def test_clocks_limits_and_the_release_of_the_process(settings: Any) -> None:
    for seconds, status in {0: "ok", -0.9: "ok", 5: "warning", -60: "failed"}.items():
        assert by_name([findings.of_clock("clock", "Redis", seconds)])["clock"].status == status
    settings.WEB_CONCURRENCY, settings.WEB_THREADS = 4, 2
    known = {"files": 4096, "memory_mb": 1800, "version": settings.VERSION, "has_same_key": True}
    changes: tuple[tuple[dict[str, Any], str, str], ...] = (
        ({}, "x_limits", "ok"),
        ({"files": -1, "memory_mb": None}, "x_limits", "ok"),
        ({"files": 1000}, "x_limits", "warning"),
        ({"memory_mb": 1100}, "x_limits", "warning"),
        ({"version": "0.0.1"}, "x_release", "warning"),  # a process that was not restarted
        ({"has_same_key": False}, "x_release", "warning"),
    )
    for changed, name, status in changes:
        assert by_name(outside._process("x", {**known, **changed}))[name].status == status


def test_keys_that_can_be_guessed(settings: Any) -> None:
    for key, status in (
        ("18b9425a2b521b5e24eff02312701618b9425a2b521b5e24ef", "ok"),
        ("short", "failed"),
        ("change-me-" * 6, "failed"),
        ("django-insecure-abcdefghijklmnopqrstuvwxyz0123456789!!", "failed"),
    ):
        settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS, settings.IS_SECRET_KEY_GENERATED = key, [], False
        assert by_name(files.secret_key())["secret_key"].status == status
        settings.SECRET_KEY_FALLBACKS = ["changed"]
        assert files.secret_key()[0].status == ("warning" if status == "ok" else "failed")
    settings.IS_SECRET_KEY_GENERATED = True
    assert files.secret_key()[0].status == "failed"


@pytest.mark.django_db
def test_purges() -> None:
    PurgeRun.objects.all().delete()
    MigrationRecorder.Migration.objects.update(applied=timezone.now())
    assert upkeep.purge().status == "warning"
    MigrationRecorder.Migration.objects.update(applied=timezone.now() - timedelta(days=2))
    assert upkeep.purge().status == "failed"
    for hours, status in ((0, "ok"), (23, "ok"), (25, "failed")):
        finished = timezone.now() - timedelta(hours=hours)
        PurgeRun.objects.update_or_create(pk=1, defaults={"finished_at": finished})
        assert by_name([upkeep.purge()])["purge"].status == status


@pytest.mark.django_db
def test_keys_of_id_tokens(settings: Any) -> None:
    def found() -> str:
        return by_name([upkeep.signing_keys()])["signing_keys"].status

    SigningKey.objects.all().delete()
    assert found() == "ok"
    signing_keys.signer("ES256")
    assert found() == "ok"
    SigningKey.objects.update(made_at=timezone.now() - timedelta(days=98))
    assert found() == "warning"
    settings.SECRET_KEY = "another key"
    assert found() == "failed"


# The question ---------------------------------------------------------------------------------------------------------


def asked(client: Client, question: str) -> Any:
    return client.get(questions.PATH, headers={questions.HEADER: question})


@pytest.mark.django_db
def test_only_this_installation_asks_and_answers_within_a_minute(
    client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, now = questions.ask(), time.time()
    for seconds, status in ((50, 200), (-50, 200), (70, 404), (-70, 404)):
        monkeypatch.setattr(questions, "time", SimpleNamespace(time=lambda seconds=seconds: now + seconds))
        assert asked(client, question).status_code == status
    monkeypatch.setattr(questions, "time", time)
    body = asked(client, question).content
    answer = questions.read_answer(question, body)
    assert answer is not None
    assert (answer["peer"], answer["address"], answer["has_same_key"]) == ("127.0.0.1", "127.0.0.1", True)
    assert questions.read_answer(questions.ask(), body) is None  # an answer to another question
    for other in (b"", b"[]", b"{}", b'{"answer": 1}', b'{"answer": "x"}', b'{"answer": ""}'):
        assert questions.read_answer(question, other) is None
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new one", [settings.SECRET_KEY]
    answer = questions.read_answer(question, body)
    assert answer is not None
    assert answer["has_same_key"] is False
    settings.SECRET_KEY_FALLBACKS = []
    assert questions.read_answer(question, body) is None
    assert asked(client, question).status_code == 404


def test_the_smallest_limit_of_memory_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = Path("/proc/self/cgroup").read_text().rpartition("::")[2].strip().lstrip("/")
    monkeypatch.setattr(questions, "CGROUPS", tmp_path)
    assert questions.memory_limit_mb() is None
    (tmp_path / own).mkdir(parents=True, exist_ok=True)
    (tmp_path / own / "memory.max").write_text("max\n")
    assert questions.memory_limit_mb() is None
    (tmp_path / "memory.max").write_text(f"{300 * 1024**2}\n")
    assert questions.memory_limit_mb() == 300


# The command ----------------------------------------------------------------------------------------------------------


def test_an_option_that_is_no_address_is_refused() -> None:
    for option, value, kind in (("--mail", "nobody", "e-mail"), ("--from", "here", "IP")):
        with pytest.raises(CommandError, match=rf"{option} must be an {kind} address\."):
            call_command("check-deployment", option, value)


def test_a_check_that_breaks_or_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    assert by_name(findings.bounded("x", lambda: [json.loads("hidden")]))["x"].status == "failed"
    monkeypatch.setattr(findings, "WAIT_SECONDS", 0.05)
    ended = threading.Event()
    found = findings.bounded("x", lambda: [findings.ok("x", "")] if ended.wait(60) else [])
    assert by_name(found)["x"].status == "failed"
    ended.set()
