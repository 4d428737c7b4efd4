"""The mail server hangs, workers are killed, the database is away: each e-mail arrives, and no page waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.outbox import Email
from accounts.models import OutgoingMail
from tests.conftest import Launch
from tests.databases import Cluster
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.faults.people import form_with
from tests.peers import BUSY, HANGS, TAKES, MailServer
from tests.server import PATIENCE_SECONDS, ROOT, Server, environment, wait_until

MAILS = 20


@pytest.fixture
def launch_with_mail(own_postgresql: Cluster, launch: Launch, mail_server: MailServer) -> Launch:
    """On a database that no other server uses: its thread would claim the e-mails, and has another SECRET_KEY."""
    OutgoingMail.objects.all().delete()

    def start(**changes: Any) -> Server:
        return launch(EMAIL_URL=mail_server.url, SECRET_KEY=settings.SECRET_KEY, **changes)

    return start


def notify(number: int) -> None:
    outbox.add_notice("password_changed", Email(f"alice-{number}@example.com", "Subject", "Text", "<p>Text</p>"))


def make_due() -> None:
    OutgoingMail.objects.update(due_at=timezone.now())


def test_a_mail_arrives_although_it_is_refused_first_and_then_its_worker_is_killed_while_it_sends(
    launch_with_mail: Launch, mail_server: MailServer
) -> None:
    """The log says what waits, and never for whom."""
    mail_server.mode = BUSY
    server = launch_with_mail()
    notify(0)
    assert server.logged('"mail":"password_changed","attempts":1,"error":"SMTPRecipientsRefused"')
    mail_server.mode, seen = HANGS, mail_server.connections
    make_due()
    wait_until(lambda: mail_server.connections == seen + 1)
    before = server.workers()
    for worker in before:
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: bool(server.workers()) and not server.workers() & before)
    row = OutgoingMail.objects.get()
    assert (row.attempts, row.due_at > timezone.now()) == (2, True), "the lease of the worker that is gone"
    mail_server.mode = TAKES
    make_due()
    wait_until(lambda: not OutgoingMail.objects.exists())
    assert 1 <= len(mail_server.mails) <= 2
    assert "alice-0" not in server.log


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
        wait_until(lambda: not OutgoingMail.objects.exists())
    finally:
        command.send_signal(signal.SIGTERM)
        _output, errors = command.communicate(timeout=PATIENCE_SECONDS)
    assert (command.returncode, errors) == (0, b"")
    assert len({message["To"] for message in mail_server.mails}) == len(mail_server.mails) == 2 * MAILS


def test_neither_page_nor_stop_waits_for_a_mail_server_that_hangs(
    launch_with_mail: Launch, mail_server: MailServer
) -> None:
    mail_server.mode = HANGS
    server = launch_with_mail()
    alice, application = PersonFactory(), ApplicationFactory()
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.consent_page(application, alice.email, PASSWORD)
    # The mail server hangs until it is closed, so whatever is answered did not wait for it.
    code = driver.callback(driver.decide(page)).parameters["code"]
    assert driver.exchange(application, code).status_code == 200
    wait_until(lambda: mail_server.connections == 1)
    form = form_with(driver.open("/accounts/password/reset"), "email")
    assert "The mail is on its way. It can take a few minutes." in driver.submit(form, email=alice.email).text
    assert driver.call("GET", "/health/ready").status_code == 200
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(PATIENCE_SECONDS) == 0
    assert OutgoingMail.objects.filter(kind="application_allowed").exists()
    assert mail_server.mails == []
