"""What is counted, and nothing of a person or an application is; the page of the metrics, its port and its files."""

from __future__ import annotations

import itertools
import os
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest
import requests
from django.db import OperationalError
from django.test import Client
from django.urls import URLResolver, get_resolver
from django.utils import timezone
from prometheus_client import values
from redis.exceptions import RedisError

from accounts.mail import outbox
from accounts.mail.composing import Email
from accounts.models import OutgoingMail
from accounts.passwords import hashing
from config import metrics
from config.infrastructure import events, measures
from config.infrastructure.cache import Outage
from config.infrastructure.events import Event
from config.metrics import meter, port, serving, slots, state
from oauth_bridge.key_models import SigningKey
from oauth_bridge.models import PurgeRun
from tests.peers import wait_until
from tests.server import free_port


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A meter that keeps the calls."""
    monkeypatch.setattr(measures, "meter", recorder := Mock())
    return recorder


@pytest.mark.django_db
def test_a_request_is_counted_by_route_and_status_and_its_refusal_by_code(
    client: Client, told: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get("/oauth/userinfo")
    client.get("/accounts/password/reset/MQ-secret/")
    (method, route, status, seconds), (_, other, *_) = (each.args for each in told.request_answered.call_args_list)
    assert (method, route, status, other) == ("GET", "/oauth/userinfo", 401, "none")
    assert seconds > 0
    assert told.request_refused.call_args_list[0].args == ("/oauth/userinfo", "invalid_token", "token_missing")
    assert "secret" not in str(told.method_calls)
    monkeypatch.setattr("oauth_bridge.activity_recording.record", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        client.get("/oauth/userinfo")
    assert told.request_began.call_count == told.request_ended.call_count == 3, "one that breaks off is not in flight"


def test_events_the_wait_for_a_password_and_an_outage_of_redis_are_told(told: Mock) -> None:
    events.write(Event.HOST_NOT_SERVED, host="stranger.example", allowed_hosts="")
    outage = Outage()
    outage.change(RedisError())
    outage.change(None)
    assert told.method_calls == [call.event_written("host_not_served"), *map(call.redis_is_away, (True, False))]
    hasher = hashing.PasswordHasher()
    assert hasher.verify("correct horse", hasher.encode("correct horse", "saltsaltsalt"))
    waits = [each.args[0] for each in told.password_waited.call_args_list]
    assert len(waits) == 2
    assert min(waits) >= 0


def test_each_label_has_few_values() -> None:
    counted = meter.PrometheusMeter(2)
    for method in ("GET", "POST", "DELETE", "other"):
        counted.request_answered(method, "/oauth/token", 200, 0.01)
    counted.request_refused("/oauth/token", "invalid_grant", "code_expired")
    counted.event_written("signed_in")
    counted.publish()
    found: dict[str, set[str]] = {}
    for sample in (sample for family in meter.registry.collect() for sample in family.samples):
        for label, value in sample.labels.items():
            found.setdefault(label, set()).add(value)
    assert found.keys() == {"method", "route", "status", "error", "code", "event", "le"}
    assert (found["method"], found["status"]) == ({"GET", "POST", "other"}, {"2xx"})
    assert found["event"] == {event.name.lower() for event in Event}


def test_the_files_have_space_for_every_route_so_that_a_full_disk_kills_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    monkeypatch.setattr(values, "ValueClass", values.MultiProcessValue(lambda: 0))
    monkeypatch.setattr(metrics, "meter", meter)  # to be set back
    monkeypatch.delitem(sys.modules, meter.__name__)
    of_worker = import_module(meter.__name__)  # its metrics, in files
    counted = of_worker.PrometheusMeter(2)
    routes = sorted(f"{prefix}{route}" for prefix, route in every_route(get_resolver()))
    assert len(routes) > 80
    for route in routes:
        for method, status in itertools.product(("GET", "POST", "other"), (200, 302, 404, 503)):
            counted.request_answered(method, route, status, 0.01)
        for code in range(20):
            counted.request_refused(route, "temporarily_unavailable", f"credentials_in_the_address_{code}")
    assert {path.name for path in tmp_path.iterdir()} == {f"{kind}_0.db" for kind in slots.BYTES}
    for kind, size in slots.BYTES.items():
        used = int.from_bytes((tmp_path / f"{kind}_0.db").read_bytes()[:4], sys.byteorder)
        assert used <= size


def every_route(resolver: URLResolver, before: str = "/") -> Iterator[tuple[str, str]]:
    for each in resolver.url_patterns:
        if isinstance(each, URLResolver):
            yield from every_route(each, f"{before}{each.pattern}")
        else:
            yield before, str(each.pattern)


TEXT = b"delegated_database_up 1.0\n"


@contextmanager
def served(page: Callable[[], bytes]) -> Iterator[tuple[str, int]]:
    """The address of a server with this page."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = serving.Server(listener, page)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield listener.getsockname()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with served(lambda: TEXT) as found:
        yield found


def url(address: tuple[str, int], path: str) -> str:
    return f"http://{address[0]}:{address[1]}{path}"


def test_the_page_is_plain_text_and_all_else_is_refused_in_one_line(address: tuple[str, int], caplog: Any) -> None:
    answer = requests.get(url(address, "/metrics?name=x"), timeout=60)
    assert (answer.status_code, answer.content) == (200, TEXT)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    for path in ("/", "/metrics/", "/health/live"):
        answer = requests.get(url(address, path), timeout=60)
        assert (answer.status_code, answer.text) == (404, serving.NOT_FOUND)
        assert answer.text.count("\n") == 1
    answer = requests.post(url(address, "/metrics"), timeout=60)
    assert (answer.status_code, answer.text.count("\n")) == (501, 1)

    def broken() -> bytes:
        raise OSError("private")

    with served(broken) as address:
        answer = requests.get(url(address, "/metrics"), timeout=60)
    assert (answer.status_code, answer.text) == (500, "The metrics can't be read. See the log.\n")
    assert "the metrics can't be read" in caplog.text


def is_served(address: tuple[str, int]) -> bool:
    try:
        return requests.get(url(address, "/metrics"), timeout=60).content == TEXT
    except requests.ConnectionError:
        return False


def test_clients_that_say_nothing_are_few_and_are_given_up(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "CONNECTION_SECONDS", 600)
    with ExitStack() as silent:
        for _ in range(serving.MOST_CONNECTIONS):
            silent.enter_context(socket.create_connection(address, timeout=60)).sendall(b"G")
        with socket.create_connection(address, timeout=60) as beyond:
            assert beyond.recv(1) == b"", "the connection is closed"
    monkeypatch.setattr(serving, "CONNECTION_SECONDS", 0.5)
    wait_until(lambda: is_served(address))
    with socket.create_connection(address, timeout=60) as slow:
        slow.sendall(b"G")
        assert slow.recv(1) == b""


# The state of the database -------------------------------------------------------------------------------------------


@pytest.mark.integration
@pytest.mark.django_db
def test_queues_and_ages_are_those_of_the_database(settings: Any, tmp_path: Path, time_machine: Any) -> None:
    empty = state.read()
    assert empty.queues == {"mails": state.Queue(0, 0, 0), "logouts": state.Queue(0, 0, 0)}
    assert (empty.purge_age, empty.key_ages) == ({}, {})
    now = timezone.now().replace(microsecond=0)
    time_machine.move_to(now, tick=False)
    for attempts, due_at in ((3, now + timedelta(minutes=5)), (0, now - timedelta(minutes=5))):
        outbox.add_notice("test", Email("a@example.org", "s", "t", "h"), once=str(attempts))
        OutgoingMail.objects.filter(attempts=0).update(attempts=attempts, due_at=due_at)
    OutgoingMail.objects.create(kind="sent", sealed=b"", due_at=now, expires_at=now)
    PurgeRun.objects.create(finished_at=now - timedelta(hours=2))
    for days, revoked_at in ((100, None), (30, None), (1, now)):
        SigningKey.objects.create(
            kid=str(days), algorithm="ES256", made_at=now - timedelta(days=days), signs_from=now, revoked_at=revoked_at
        )
    found = state.read()
    assert found.queues["mails"] == state.Queue(waiting=2, retried=1, overdue_seconds=300)
    assert found.purge_age == {(): 7200}
    assert found.key_ages == {("ES256",): 30 * 86400}
    settings.SIGNING_KEYS = tmp_path
    assert state.read().key_ages == {}, "keys in files have no age here"


def shown(collector: state.StateCollector) -> dict[str, float]:
    return {sample.name: sample.value for family in collector.collect() for sample in family.samples}


READ = state.State({"mails": state.Queue(3, 1, 60.0)}, {(): 5.0}, {("RS256",): 7.0})


def test_the_database_is_asked_once_in_a_while_and_its_outage_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(state, "read", asked := Mock(return_value=READ))
    collector = state.StateCollector()
    for _ in range(3):
        found = shown(collector)
    assert asked.call_count == 1
    assert found["delegated_database_up"] == found["delegated_build_info"] == 1
    assert found["delegated_queue_waiting"] == 3
    assert found["delegated_queue_overdue_seconds"] == 60
    assert found["delegated_purge_age_seconds"] == 5
    assert found["delegated_signing_key_age_seconds"] == 7
    monkeypatch.setattr(state, "FRESH_SECONDS", 0.0)
    asked.side_effect = OperationalError("could not connect to db.example with password hidden")
    assert [shown(collector)["delegated_database_up"] for _ in range(3)] == [0, 0, 0]
    assert asked.call_count > 1
    assert [record.message for record in caplog.records] == ["metrics lack the database"]
    assert "hidden" not in caplog.text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(port.FOLDER_VARIABLE, "")
    yield tmp_path
    port.close_port()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_the_port_is_open_and_the_folder_is_for_this_user_alone(folder: Path, host: str) -> None:
    number = free_port()
    try:
        port.open_port(f"{host}:{number}")
    except SystemExit:
        assert host == "[::1]"
        pytest.skip("needs IPv6")
    assert port.opened
    socket.create_connection((host.strip("[]"), number), timeout=60).close()
    assert stat.S_IMODE(port.opened.folder.stat().st_mode) == 0o700
    assert os.environ[port.FOLDER_VARIABLE] == str(port.opened.folder)
    assert port.opened.folder.parent == folder
    port.close_port()
    assert list(folder.iterdir()) == []


def test_an_address_or_a_port_that_can_not_be_had_and_a_missing_folder_are_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentence = (
        r"^METRICS_BIND: the service can't listen at 192\.0\.2\.1:9100 \([^(]+\)\. Use an address of this machine"
    )
    with pytest.raises(SystemExit, match=sentence):
        port.open_port("192.0.2.1:9100")
    with socket.create_server(("127.0.0.1", 0)) as other:
        bind = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SystemExit, match=r"\(Address already in use\)\. Use .+ a port that is free\.$"):
            port.open_port(bind)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))
    with pytest.raises(SystemExit, match=r"^METRICS_BIND needs a folder .+\(No such file or directory\)\. Set TMPDIR"):
        port.open_port(f"127.0.0.1:{free_port()}")


def test_the_folder_of_a_killed_master_is_removed_and_those_in_use_new_or_of_others_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, old, new, target = (folder / f"sign-in-metrics-{name}" for name in ("used", "old", "new", "elsewhere"))
    for path in (used, old, new, target):
        path.mkdir()
        (path / "counter_0.db").touch()
    link = folder / "sign-in-metrics-link"
    link.symlink_to(target)
    for path in (used, old, link):
        os.utime(path, (0, 0), follow_symlinks=False)
    lock = port._locked(used)  # as another process has it
    port.remove_abandoned()
    os.close(lock)
    assert [path.exists() for path in (used, new, target, old)] == [True, True, True, False]
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        port.remove_abandoned()
    assert used.exists()


def test_a_worker_has_the_lowest_free_slot_and_the_space_of_its_files_is_taken_at_the_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What becomes of the counts of one that has ended: tests/faults/test_metrics.py."""
    monkeypatch.setattr(slots, "_held", held := [])
    assert [slots.claim(folder), slots.claim(folder), slots.forget_ended(folder)] == [0, 1, 2]
    for kind, size in slots.BYTES.items():
        found = (folder / f"{kind}_0.db").stat()
        assert found.st_size == size
        assert found.st_blocks * 512 >= size
    held[0].close()  # as the kernel does
    assert slots.forget_ended(folder) == 1
    assert not (folder / "gauge_livesum_0.db").exists()
    assert slots.claim(folder) == 0
    for lock in held:
        lock.close()
