"""The mail server hangs, workers are killed, the database is away: each e-mail arrives, and no page waits for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.models import OutgoingMail
from config.infrastructure import work_queue
from tests.conftest import Launch
from tests.databases import Cluster, in_use
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory
from tests.server import ROOT, Server, environment, stop
from tests.smtp import BUSY, HANGS, TAKES, MailServer, wait_until

MAILS = 40
ON_ITS_WAY = "The mail is on its way. It can take a few minutes."


@pytest.fixture
def own_database(
    request: pytest.FixtureRequest, committed: None, sqlite_template: Path, tmp_path: Path
) -> Iterator[None]:
    """A database that no other server uses: its thread would claim the e-mails, and has another SECRET_KEY."""
    if connection.vendor == "postgresql":
        request.getfixturevalue("own_postgresql")
        OutgoingMail.objects.all().delete()
        yield
    else:
        shutil.copy(sqlite_template, tmp_path / "own.sqlite3")
        with in_use(f"sqlite:///{tmp_path / 'own.sqlite3'}"):
            yield


@pytest.fixture
def launch_with_mail(own_database: None, launch: Launch, mail_server: MailServer) -> Launch:
    def start(**changes: Any) -> Server:
        return launch(EMAIL_URL=mail_server.url, SECRET_KEY=settings.SECRET_KEY, **changes)

    return start


def notify(number: int = 0) -> None:
    facts = {"now": timezone.now(), "browser": "Firefox", "nickname": "Alice"}
    outbox.add_notice("password_changed", compose("password_changed", f"alice-{number}@example.com", facts))


def make_due() -> None:
    OutgoingMail.objects.update(due_at=timezone.now())


def is_empty() -> bool:
    return not OutgoingMail.objects.exists()


@pytest.mark.parametrize("fault", ["worker", "server"])
def test_a_mail_arrives_although_its_worker_is_killed_while_it_sends(
    launch_with_mail: Launch, mail_server: MailServer, fault: str
) -> None:
    server = launch_with_mail()
    mail_server.mode = HANGS
    notify()
    wait_until(lambda: mail_server.connections == 1)
    if fault == "worker":
        before = server.workers()
        for worker in before:
            os.kill(worker, signal.SIGKILL)
        wait_until(lambda: bool(server.workers()) and not server.workers() & before)
    else:
        stop(server.process)
    row = OutgoingMail.objects.get()
    assert row.attempts == 1
    assert row.due_at > timezone.now(), "the lease of the worker that is gone"
    mail_server.mode = TAKES
    make_due()
    if fault == "server":
        launch_with_mail()
    wait_until(is_empty)
    assert 1 <= len(mail_server.mails) <= 2


def test_two_workers_and_a_command_at_once_send_each_mail_once(
    launch_with_mail: Launch, mail_server: MailServer, redis_server: Any, tmp_path: Path
) -> None:
    for number in range(MAILS):
        notify(number)
    env = environment(tmp_path, EMAIL_URL=mail_server.url, SECRET_KEY=settings.SECRET_KEY)
    command = subprocess.Popen([sys.executable, "manage.py", "deliver"], cwd=ROOT, env=env, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: mail_server.mails)  # until then a signal would end the command at once
        launch_with_mail(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
        for number in range(MAILS, 2 * MAILS):
            notify(number)
        wait_until(is_empty)
    finally:
        command.send_signal(signal.SIGTERM)
        _output, errors = command.communicate(timeout=60)
    assert (command.returncode, errors) == (0, b"")
    sent = Counter(message["To"] for message in mail_server.mails)
    assert len(sent) == 2 * MAILS
    assert set(sent.values()) == {1}


def test_no_page_waits_for_a_mail_server_that_hangs(launch_with_mail: Launch, mail_server: MailServer) -> None:
    mail_server.mode = HANGS
    server = launch_with_mail()
    alice, application = PersonFactory(), ApplicationFactory()
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.consent_page(application, alice.email, PASSWORD)
    began = time.monotonic()
    code = driver.callback(driver.decide(page)).parameters["code"]
    assert driver.exchange(application, code).status_code == 200
    wait_until(lambda: mail_server.connections == 1)
    for _ in range(5):
        code = CodeFactory(application=application, user=alice).raw
        assert driver.exchange(application, code).status_code == 200
    assert driver.call("GET", "/health/ready").status_code == 200
    assert time.monotonic() - began < 8, "the time-out for the mail server is 20 seconds"
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(15) == 0
    assert time.monotonic() - began < 8, "a stop does not wait for the mail server either"
    assert OutgoingMail.objects.get().kind == "application_allowed"


def test_a_notice_of_a_page_arrives_within_a_second(launch_with_mail: Launch, mail_server: MailServer) -> None:
    server = launch_with_mail()
    alice, application = PersonFactory(), ApplicationFactory()
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.consent_page(application, alice.email, PASSWORD)
    notify()
    wait_until(is_empty)  # the worker has just looked, and looks again by itself after POLL_SECONDS
    driver.decide(page)
    wait_until(lambda: len(mail_server.mails) == 2, seconds=work_queue.POLL_SECONDS - 1)
    assert mail_server.mails[1]["To"] == alice.email
    assert alice.email not in server.log


def test_the_log_says_what_waits_and_never_for_whom(launch_with_mail: Launch, mail_server: MailServer) -> None:
    mail_server.mode = BUSY
    server = launch_with_mail()
    notify()
    assert server.logged('"mail":"password_changed","attempts":1,"error":"SMTPRecipientsRefused"')
    assert "alice-0" not in server.log


def test_mails_are_sent_once_the_database_is_back(
    own_postgresql: Cluster, launch_with_mail: Launch, mail_server: MailServer
) -> None:
    server = launch_with_mail()
    own_postgresql.kill()
    wait_until(lambda: server.log.count("waiting for the database") == 2)  # each thread looks for itself
    own_postgresql.start()
    connection.close()
    notify()
    wait_until(is_empty)
    assert len(mail_server.mails) == 1
    said = [line for line in server.log.splitlines() if "waiting for the database" in line]
    assert sorted(line.partition('"worker":"')[2].partition('"')[0] for line in said) == ["logout", "outbox"]


def test_a_mail_server_that_answers_late_slows_no_page(launch_with_mail: Launch, mail_server: MailServer) -> None:
    """It takes nine seconds for a mail, and six connections of one address ask for links without a pause."""
    mail_server.data_seconds = 9
    server = launch_with_mail(WEB_THREADS="4", TRUSTED_PROXIES="127.0.0.1")
    alice, application = PersonFactory(), ApplicationFactory()
    flooding, answers = threading.Event(), Counter[bool]()

    def browser(address: str) -> OAuthDriver:
        driver = OAuthDriver(server.base_url, server.auth_url)
        driver.browser.headers["X-Forwarded-For"] = address
        return driver

    def ask_for_link(driver: OAuthDriver, email: str) -> str:
        form = next(form for form in Page(driver.open("/accounts/password/reset")).forms if form.of_type("email"))
        began = time.monotonic()
        page = driver.submit(form, email=email)
        assert time.monotonic() - began < 5
        return page.text

    def flood(number: int) -> None:
        driver = browser("192.0.2.1")
        while not flooding.is_set():
            answers[ON_ITS_WAY in ask_for_link(driver, f"{number}-{len(mail_server.mails)}@example.net")] += 1

    with ThreadPoolExecutor(6) as pool:
        floods = [pool.submit(flood, number) for number in range(6)]
        try:
            wait_until(lambda: answers.total() > 12)
            began, driver = time.monotonic(), browser("192.0.2.2")
            page = driver.consent_page(application, alice.email, PASSWORD)
            code = driver.callback(driver.decide(page)).parameters["code"]
            assert driver.exchange(application, code).status_code == 200
            assert time.monotonic() - began < 8, "the mail server takes nine seconds for one mail"
            began = time.monotonic()
            ask_for_link(browser("192.0.2.3"), alice.email)
            wait_until(lambda: alice.email in [message["To"] for message in mail_server.mails])
            assert time.monotonic() - began < 2 * 9, "it stands behind one other at most"
        finally:
            flooding.set()
        for each in floods:
            each.result()
    assert set(answers) == {True}
    assert OutgoingMail.objects.count() > 12, "the mails of the flood wait"
