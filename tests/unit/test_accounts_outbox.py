"""E-mails are tried until the mail server has taken them, and no longer than what is in them works."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, override_settings
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.mail.outbox import Outcome
from accounts.models import OutgoingMail, User
from config.infrastructure import work_queue
from tests.contract_coverage import contract
from tests.dump import database_text
from tests.factories import PersonFactory
from tests.pages import deliver_all, sign_in
from tests.smtp import BREAKS, BUSY, HANGS, REFUSES, TAKES, MailServer

pytestmark = pytest.mark.django_db


@pytest.fixture
def mail_server(mail_server: MailServer, settings: Any) -> MailServer:
    """Django sends through it."""
    settings.EMAIL_BACKEND = "config.infrastructure.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", mail_server.port, 20
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    return mail_server


def patience_for(fault: str) -> override_settings:
    """A short time-out while the mail server hangs, otherwise one that a busy machine does not reach."""
    return override_settings(EMAIL_TIMEOUT=0.3 if fault == HANGS else 20)


def notify(person: User, once: str = "") -> OutgoingMail:
    facts = {"now": timezone.now(), "browser": "Firefox", "nickname": person.display_name}
    outbox.add_notice("password_changed", compose("password_changed", person.email, facts), once=once)
    return OutgoingMail.objects.latest("created_at")


def make_due() -> None:
    OutgoingMail.objects.update(due_at=timezone.now())


def text_of(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    assert part
    return str(part.get_content())


def ask_for_link(browser: Client, person: User) -> Any:
    return browser.post("/accounts/password/reset", {"email": person.email}, follow=True)


# Trying again ---------------------------------------------------------------------------------------------------------


def test_a_notice_waits_for_its_turn_is_sent_once_and_deleted(alice: User, mail_server: MailServer) -> None:
    notify(alice)
    assert not mail_server.mails
    assert deliver_all() == 1
    assert [message["To"] for message in mail_server.mails] == [alice.email]
    assert not OutgoingMail.objects.exists()
    assert deliver_all() == 0


@pytest.mark.parametrize("fault", ["away", BUSY, REFUSES, HANGS, BREAKS])
def test_a_notice_arrives_once_the_mail_server_takes_it(
    alice: User, mail_server: MailServer, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    notify(alice)
    mail_server.mode = fault
    if fault == "away":
        mail_server.close()
    with patience_for(fault):
        assert deliver_all() == 1
    row = OutgoingMail.objects.get()
    pause = outbox.LONGEST_PAUSE if fault == REFUSES else work_queue.FIRST_PAUSE
    assert timedelta(0) <= timezone.now() + pause - row.due_at < timedelta(seconds=5)
    assert alice.email not in caplog.text
    assert "was changed" not in caplog.text
    mail_server.close()
    mail_server.mode = TAKES
    mail_server.open()
    assert deliver_all() == 0, "it is not due yet"
    make_due()
    assert deliver_all() == 1
    assert len(mail_server.mails) == 1
    assert not OutgoingMail.objects.exists()


def test_the_pauses_grow_and_the_last_one_ends_with_a_line_in_the_log(
    alice: User, mail_server: MailServer, caplog: pytest.LogCaptureFixture
) -> None:
    mail_server.mode = BUSY
    with time_machine.travel(timezone.now(), tick=False) as clock:
        notify(alice)
        pauses = []
        while row := OutgoingMail.objects.first():
            pauses.append((row.due_at - timezone.now()).total_seconds())
            clock.move_to(row.due_at)
            caplog.clear()
            assert outbox.deliver_next()
        assert pauses[:6] == [0, 30, 60, 120, 240, 480]
        assert max(pauses) == 4 * 3600
        assert timezone.now() - timedelta(seconds=sum(pauses)) + outbox.NOTICE_LIFETIME == timezone.now()
    assert "mail given up" in caplog.text


def test_each_attempt_sends_the_same_headers(alice: User, mail_server: MailServer) -> None:
    row = notify(alice)
    for _ in range(2):
        outbox._attempt(row)
    first, second = mail_server.mails
    for name in ("Message-ID", "Date", "Subject"):
        assert first[name] == second[name]
    assert first["Auto-Submitted"] == "auto-generated"


def test_an_error_of_one_mail_keeps_no_other_from_being_sent(
    alice: User, mail_server: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify(alice)
    notify(PersonFactory())

    def message(row: OutgoingMail, content: Any) -> Any:
        if content.to == alice.email:
            raise ValueError(content.to)
        return real(row, content)

    real = outbox._message
    monkeypatch.setattr(outbox, "_message", message)
    assert deliver_all() == 2
    assert len(mail_server.mails) == 1


def test_a_rollback_sends_nothing(alice: User, mail_server: MailServer) -> None:
    with transaction.atomic():
        notify(alice)
        later = timezone.now() + timedelta(hours=1)
        outbox.send_now("password_set", compose("password_set", alice.email, {}), later, "192.0.2.1", lambda _: None)
        transaction.set_rollback(True)
    assert deliver_all() == 0
    assert not mail_server.mails


def test_a_worker_claims_a_row_that_no_other_has(alice: User) -> None:
    row = notify(alice)
    claimed = work_queue.claim(OutgoingMail, outbox.LEASE)
    assert claimed
    assert (claimed.pk, claimed.attempts) == (row.pk, 1)
    assert work_queue.claim(OutgoingMail, outbox.LEASE) is None
    with time_machine.travel(timezone.now() + outbox.LEASE + timedelta(seconds=1)):
        again = work_queue.claim(OutgoingMail, outbox.LEASE)
    assert again
    assert (again.pk, again.attempts) == (row.pk, 2)


def test_no_other_process_sends_a_mail_while_an_attempt_may_be_under_way(alice: User, settings: Any) -> None:
    notify(alice)
    assert work_queue.claim(OutgoingMail, outbox.LEASE)
    longest = settings.EMAIL_TIMEOUT + 60  # the conversation, and the search for the server's address
    with time_machine.travel(timezone.now() + timedelta(seconds=longest)):
        assert work_queue.claim(OutgoingMail, outbox.LEASE) is None


def test_an_attempt_that_fails_after_another_process_claimed_the_mail_changes_nothing(
    alice: User, mail_server: MailServer
) -> None:
    mail_server.mode = BUSY
    notify(alice)
    late = work_queue.claim(OutgoingMail, outbox.LEASE)
    assert late
    with time_machine.travel(timezone.now() + outbox.LEASE + timedelta(seconds=1)):
        newer = work_queue.claim(OutgoingMail, outbox.LEASE)
        assert newer
        assert outbox._attempt(late) == Outcome.LATER
    row = OutgoingMail.objects.get()
    assert (row.due_at, row.turn) == (newer.due_at, newer.turn)


# Where a person waits -------------------------------------------------------------------------------------------------


def test_a_link_is_sent_at_once(client: Client, alice: User, mail_server: MailServer) -> None:
    page = ask_for_link(client, alice)
    assert len(mail_server.mails) == 1
    assert b"could not be sent" not in page.content
    assert not OutgoingMail.objects.exists()


@pytest.mark.parametrize("fault", [BUSY, HANGS, BREAKS])
def test_a_link_that_could_not_be_sent_arrives_later_and_the_page_says_so(
    client: Client, alice: User, mail_server: MailServer, fault: str
) -> None:
    mail_server.mode = fault
    with patience_for(fault):
        page = ask_for_link(client, alice)
    assert page.status_code == 200
    until = OutgoingMail.objects.get().expires_at
    assert f"The mail could not be sent yet. We keep trying until {until:%H:%M} UTC." in page.content.decode()
    mail_server.mode = TAKES
    make_due()
    assert deliver_all() == 1
    link = re.search(
        r"https?://\S+/accounts/password/reset/\S+", mail_server.mails[0].get_body(("plain",)).get_content()
    )
    assert link
    assert client.get(link[0], follow=True).status_code == 200
    assert not OutgoingMail.objects.exists()


def test_a_link_that_is_refused_is_dropped_and_the_page_says_so(
    client: Client, alice: User, mail_server: MailServer
) -> None:
    mail_server.mode = REFUSES
    assert b"the mail server of that address did not take it" in ask_for_link(client, alice).content
    assert not OutgoingMail.objects.exists()


def test_nobody_learns_from_a_mail_server_that_is_away_whether_an_account_exists(
    client: Client, alice: User, mail_server: MailServer
) -> None:
    for mode in (BUSY, REFUSES):
        mail_server.mode = mode
        with time_machine.travel(timezone.now(), tick=False):  # the page tells until which minute it is tried
            known, unknown = (ask_for_link(Client(), person) for person in (alice, PersonFactory.build()))
        assert known.content == unknown.content


def test_a_link_is_tried_every_two_minutes_while_it_works(client: Client, alice: User, mail_server: MailServer) -> None:
    mail_server.mode = BUSY
    with time_machine.travel(timezone.now(), tick=False) as clock:
        ask_for_link(client, alice)
        while row := OutgoingMail.objects.first():
            clock.move_to(row.due_at)
            outbox.deliver_next()
    assert mail_server.connections > 3600 / 120


@pytest.mark.parametrize(
    ("ask", "seconds"), [("link", 3600), ("code", 1800)], ids=["a link for an hour", "a code for half an hour"]
)
def test_a_credential_is_kept_no_longer_than_it_works(
    client: Client, mail_server: MailServer, ask: str, seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    mail_server.mode = BUSY
    person = PersonFactory(email_verified_at=None)
    if ask == "link":
        ask_for_link(client, person)
    else:
        sign_in(client, person.email)
    row = OutgoingMail.objects.get()
    assert abs((row.expires_at - row.created_at).total_seconds() - seconds) < 2
    assert row.holds_credential
    mail_server.mode = TAKES
    with time_machine.travel(row.expires_at):
        make_due()
        assert deliver_all() == 1
    assert not mail_server.mails
    assert not OutgoingMail.objects.exists()
    assert "mail given up: it has expired" in caplog.text


# What is stored -------------------------------------------------------------------------------------------------------


@contract("D15.dump")
def test_the_table_shows_no_code_no_link_no_address(client: Client, mail_server: MailServer) -> None:
    mail_server.mode = BUSY
    person = PersonFactory(email_verified_at=None)
    ask_for_link(client, person)
    sign_in(client, person.email)
    rows = list(OutgoingMail.objects.all())
    texts = [content.text for row in rows if (content := outbox._open(row))]
    found = re.findall(r"/reset/(\S+)", "".join(texts)) + re.findall(r"^ {4}(\S+)$", "".join(texts), re.MULTILINE)
    assert len(found) == len(rows) == 2
    User.objects.filter(pk=person.pk).delete()
    dump = database_text()
    for value in [*found, person.email, "accounts/password/reset", "is your code"]:
        assert value not in dump
        assert value.encode().hex() not in dump


@pytest.mark.parametrize("change", ["another SECRET_KEY", "another row"])
def test_a_row_that_cannot_be_opened_is_dropped_and_logged(
    alice: User, mail_server: MailServer, settings: Any, change: str, caplog: pytest.LogCaptureFixture
) -> None:
    row = notify(alice)
    if change == "another row":
        other = notify(PersonFactory())
        OutgoingMail.objects.filter(pk=row.pk).update(sealed=other.sealed)
        other.delete()
    else:
        settings.SECRET_KEY = "x" * 50
    assert deliver_all() == 1
    assert not mail_server.mails
    assert not OutgoingMail.objects.exists()
    assert "mail given up" in caplog.text


def test_an_earlier_secret_key_opens_rows_for_as_long_as_it_is_a_fallback(
    alice: User, mail_server: MailServer, settings: Any
) -> None:
    notify(alice)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "x" * 50
    deliver_all()
    assert len(mail_server.mails) == 1


def test_an_event_is_told_once(alice: User, mail_server: MailServer) -> None:
    for _ in range(3):
        notify(alice, once="an event")
        deliver_all()
    assert len(mail_server.mails) == 1
    row = OutgoingMail.objects.get()
    assert bytes(row.sealed) == b""
    with time_machine.travel(row.expires_at):
        deliver_all()
        assert not OutgoingMail.objects.exists()
        notify(alice, once="an event")
        deliver_all()
    assert len(mail_server.mails) == 2


def test_after_a_restore_no_credential_is_sent_but_notices_are(
    client: Client, alice: User, mail_server: MailServer
) -> None:
    mail_server.mode = BUSY
    ask_for_link(client, alice)
    notify(alice)
    connection.check_constraints()  # PostgreSQL truncates no table with a check to come
    call_command("after-restore", verbosity=0)
    assert [row.kind for row in OutgoingMail.objects.all()] == ["password_changed"]


def test_a_purge_deletes_what_nobody_sent_a_day_after_it_expired(alice: User, rewind: Callable[..., None]) -> None:
    from oauth_bridge.maintenance import purging

    row = notify(alice)
    for hours, left in ((23, 1), (25, 0)):
        list(purging.batches(row.expires_at + timedelta(hours=hours)))
        assert OutgoingMail.objects.count() == left


def test_the_list_counts_and_shows_nobody(alice: User, mail_server: MailServer, capsys: Any) -> None:
    call_command("deliver", "--list")
    assert capsys.readouterr().out == "No e-mail waits.\n"
    notify(alice)
    notify(alice, once="sent before")
    call_command("deliver", "--list")
    printed = capsys.readouterr().out
    assert printed.startswith("password_changed: 2 waiting")
    assert alice.email not in printed
    call_command("deliver", "--once")
    call_command("deliver", "--list")
    assert capsys.readouterr().out == "No e-mail waits.\n"
    assert len(mail_server.mails) == 2


def test_an_outcome_is_reported_once_the_transaction_is_committed(alice: User) -> None:
    reported: list[Outcome] = []
    with transaction.atomic():
        later = timezone.now() + timedelta(hours=1)
        outbox.send_now("password_set", compose("password_set", alice.email, {}), later, "192.0.2.1", reported.append)
        assert reported == []
        assert not mail.outbox
    assert reported == [Outcome.SENT]
