"""Whose e-mail is sent next, which page waits for it, and until when it is tried."""

from __future__ import annotations

import re
import ssl
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from smtplib import SMTPException
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.mail import EmailMessage
from django.core.management import call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.mail.outbox import Outcome
from accounts.mail.smtp import EmailBackend
from accounts.models import OutgoingMail, User
from config.infrastructure.worker import Worker
from oauth_bridge.management import purging
from tests.contract_coverage import contract
from tests.factories import PersonFactory, database_text
from tests.pages import deliver_all, html_of, sign_in
from tests.peers import BREAKS, BUSY, HANGS, REFUSES, REFUSES_GREETING, TAKES, MailServer, certificate_for

pytestmark = pytest.mark.django_db

MALLORY, ALICE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def mail_server(mail_server: MailServer, settings: Any) -> MailServer:
    settings.EMAIL_BACKEND = "accounts.mail.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_TIMEOUT = "127.0.0.1", mail_server.port, 20
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    return mail_server


def notify(person: User, once: str = "") -> OutgoingMail:
    facts = {"now": timezone.now(), "browser": "Firefox", "nickname": person.display_name}
    outbox.add_notice("password_changed", compose("password_changed", person.email, facts), once=once)
    return OutgoingMail.objects.latest("created_at")


def make_due() -> None:
    OutgoingMail.objects.update(due_at=timezone.now())


def ask_for_link(browser: Client, email: str, **options: str) -> Any:
    return browser.post("/accounts/password/reset", {"email": email}, follow=True, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", ["away", BUSY, REFUSES, REFUSES_GREETING, HANGS, BREAKS])
def test_a_notice_arrives_once_when_the_mail_server_takes_it(
    alice: User, mail_server: MailServer, settings: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    notify(alice)
    mail_server.mode = fault
    if fault == "away":
        mail_server.close()
    elif fault == HANGS:
        settings.EMAIL_TIMEOUT = 0.3
    with time_machine.travel(timezone.now(), tick=False):
        assert deliver_all() == 1
        row = OutgoingMail.objects.get()
        assert row.due_at == timezone.now() + (outbox.LONGEST_PAUSE if fault == REFUSES else outbox.FIRST_PAUSE)
        assert deliver_all() == 0, "it is not due yet"
    assert alice.email not in caplog.text
    assert "was changed" not in caplog.text
    settings.EMAIL_TIMEOUT = 20
    mail_server.close()
    mail_server.mode = TAKES
    mail_server.open()
    make_due()
    assert deliver_all() == 1
    assert [message["To"] for message in mail_server.mails] == [alice.email]
    assert not OutgoingMail.objects.exists()
    outbox._attempt(row)  # a second process: the mailbox recognizes a duplicate by its headers
    first, second = mail_server.mails
    assert [first[name] == second[name] for name in ("Message-ID", "Date", "Subject")] == [True] * 3
    assert first["Auto-Submitted"] == "auto-generated"


@pytest.mark.parametrize(
    ("ask", "lifetime", "longest"),
    [
        (lambda _client, email: notify(PersonFactory.build(email=email)), 3 * 24 * 3600, 4 * 3600),
        (ask_for_link, 3600, 120),
        (sign_in, 1800, 120),
    ],
)
def test_the_pauses_grow_and_the_last_one_ends_with_a_line_in_the_log(
    client: Client,
    mail_server: MailServer,
    caplog: pytest.LogCaptureFixture,
    ask: Any,
    lifetime: int,
    longest: int,
) -> None:
    """A mail for which somebody waits is tried every two minutes, and no longer than its link or code works."""
    begun = timezone.now()
    with time_machine.travel(begun, tick=False) as clock:
        mail_server.mode, pauses = BUSY, []
        ask(client, PersonFactory(email_verified_at=None).email)
        while row := OutgoingMail.objects.first():
            pauses.append((row.due_at - timezone.now()).total_seconds())
            clock.move_to(row.due_at)
            caplog.clear()
            mail_server.mode = TAKES if row.due_at == row.expires_at else BUSY
            assert outbox.deliver_next()
        assert timezone.now() - begun == timedelta(seconds=lifetime)
    assert ([each for each in pauses if each][:3], max(pauses)) == ([30, 60, 120], longest)
    assert ("mail given up" in caplog.text, mail_server.mails) == (True, [])


def test_a_mail_is_sent_and_its_outcome_told_once_the_transaction_is_committed(alice: User) -> None:
    told: list[Outcome] = []
    later = timezone.now() + timedelta(hours=1)
    for is_rolled_back, outcomes in ((True, []), (False, [Outcome.SENT])):
        with transaction.atomic():
            notify(alice)
            outbox.send_now("password_set", compose("password_set", alice.email, {}), later, MALLORY, told.append)
            assert (told, mail.outbox) == ([], [])
            transaction.set_rollback(is_rolled_back)
        assert told == outcomes
        assert deliver_all() == len(outcomes)


def test_an_attempt_that_fails_after_another_process_claimed_the_mail_changes_nothing(
    alice: User, mail_server: MailServer
) -> None:
    mail_server.mode = BUSY
    row = notify(alice)
    list(purging.batches(row.expires_at + timedelta(hours=23)))
    late = outbox.claim()
    assert late, "it is purged only a day after it expired"
    with time_machine.travel(timezone.now() + outbox.LEASE + timedelta(seconds=1)):
        newer = outbox.claim()
        assert newer
        assert outbox._attempt(late) == Outcome.LATER
    row = OutgoingMail.objects.get()
    assert (row.due_at, row.turn) == (newer.due_at, newer.turn)
    list(purging.batches(row.expires_at + timedelta(hours=25)))
    assert not OutgoingMail.objects.exists()


def test_a_page_that_sends_a_link_says_what_became_of_it_and_not_whether_an_account_exists(
    alice: User, mail_server: MailServer
) -> None:
    """A link that was not taken yet arrives later. A refusal of our greeting (504) says nothing about the address."""
    refused, later = "the mail server of that address did not take it", "The mail could not be sent yet"
    sentences = {TAKES: set(), REFUSES: {refused}, REFUSES_GREETING: {later}, BUSY: {later}}
    for mode, waiting in ((TAKES, 0), (REFUSES, 0), (REFUSES_GREETING, 2), (BUSY, 4)):
        mail_server.mode = mode
        with time_machine.travel(timezone.now(), tick=False):  # the page tells until which minute it is tried
            people = PersonFactory.build(), alice
            unknown, known = (html_of(ask_for_link(Client(), each.email)) for each in people)
        assert known == unknown
        assert {sentence for sentence in (refused, later) if sentence in known} == sentences[mode]
        assert OutgoingMail.objects.count() == waiting
        assert len(mail_server.mails) == 2
    ends_at = OutgoingMail.objects.latest("created_at").expires_at
    assert f'We keep trying until <time datetime="{ends_at:%Y-%m-%dT%H:%M}' in known
    mail_server.mode = TAKES
    make_due()
    assert deliver_all() == 4
    letter, _other = [each for each in mail_server.mails[2:] if each["To"] == alice.email]
    link = re.search(r"https?://\S+/accounts/password/reset/\S+", str(letter))
    assert link
    assert Client().get(link[0], follow=True).status_code == 200
    assert not OutgoingMail.objects.exists()


@pytest.mark.integration
@contract("D15.dump")
def test_the_table_shows_no_code_no_link_no_address(client: Client, mail_server: MailServer) -> None:
    mail_server.mode = BUSY
    person = PersonFactory(email_verified_at=None)
    ask_for_link(client, person.email, REMOTE_ADDR=MALLORY)
    sign_in(client, person.email, address=MALLORY)
    rows = list(OutgoingMail.objects.all())
    texts = [content.text for row in rows if (content := outbox._open(row))]
    found = re.findall(r"/reset/(\S+)", "".join(texts)) + re.findall(r"^ {4}(\S+)$", "".join(texts), re.MULTILINE)
    assert len(found) == len(rows) == 2
    User.objects.filter(pk=person.pk).delete()
    dump = database_text()
    for value in [*found, person.email, "accounts/password/reset", "is your code", MALLORY]:
        assert value not in dump
        assert value.encode().hex() not in dump


def test_a_row_that_cannot_be_opened_is_dropped_and_logged_and_an_earlier_key_opens_one(
    alice: User, mail_server: MailServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    row, other = notify(alice), notify(PersonFactory())
    OutgoingMail.objects.filter(pk=row.pk).update(sealed=other.sealed)
    other.delete()
    for given_up in (1, 2):
        assert deliver_all() == 1
        assert (mail_server.mails, OutgoingMail.objects.exists()) == ([], False)
        assert caplog.text.count("mail given up") == given_up
        notify(alice)
        settings.SECRET_KEY = f"another {given_up}" * 5
    settings.SECRET_KEY_FALLBACKS = ["another 1" * 5]
    assert deliver_all() == 1
    assert len(mail_server.mails) == 1


def test_an_event_is_told_once(alice: User, mail_server: MailServer) -> None:
    for _ in range(3):
        notify(alice, once="an event")
        deliver_all()
    row = OutgoingMail.objects.get()
    assert (len(mail_server.mails), bytes(row.sealed)) == (1, b"")
    with time_machine.travel(row.expires_at):
        deliver_all()
        notify(alice, once="an event")
        deliver_all()
    assert len(mail_server.mails) == 2


@pytest.mark.integration
def test_after_a_restore_no_credential_is_sent_but_notices_are(
    client: Client, alice: User, mail_server: MailServer
) -> None:
    mail_server.mode = BUSY
    ask_for_link(client, alice.email)
    notify(alice)
    call_command("after-restore", verbosity=0)
    assert [row.kind for row in OutgoingMail.objects.all()] == ["password_changed"]


def test_the_list_counts_and_shows_nobody(alice: User, mail_server: MailServer, capsys: Any) -> None:
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


def ask(address: str, to: str) -> None:
    later = timezone.now() + timedelta(hours=1)
    outbox.send_now("password_set", compose("password_set", to, {}), later, address, lambda _outcome: None)


@pytest.mark.parametrize("second", [MALLORY, "2001:db8:1:2::/64"])
def test_no_more_than_one_mail_of_a_requester_stands_before_another_persons(
    second: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an address, an IPv6 site, or the recipient of notices. A mail that was not taken stands behind others."""
    monkeypatch.setattr(outbox, "_thread", Worker("never started", lambda: False))
    monkeypatch.setattr(outbox, "PAGE_SECONDS", 0.0)
    for number in range(3):
        ask(second.replace(":2::", ":1::"), f"a-{number}@example.com")
        ask(second, f"b-{number}@example.com")
        notify(PersonFactory.build(email="mallory@example.com"))
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_message", lambda *_given: None)  # an error of this attempt
        outbox.deliver_next()
    with time_machine.travel(timezone.now() + outbox.FIRST_PAUSE):
        ask(ALICE, "alice@example.com")
        notify(PersonFactory.build(email="bob@example.com"))
        deliver_all()
    sent = [message.to[0] for message in mail.outbox]
    assert sent[0] == "alice@example.com"
    assert sent.index("a-0@example.com") < sent.index("bob@example.com") < sent.index("b-2@example.com")
    assert len(sent) == 11


# A conversation with the mail server ----------------------------------------------------------------------------------


def send_through(server: MailServer, timeout: float, **options: Any) -> None:
    backend = EmailBackend(**{"host": "127.0.0.1", **options}, port=server.port, timeout=timeout)  # type: ignore[arg-type]
    backend.send_messages([EmailMessage("Subject", "Text", "from@example.com", ["to@example.com"])])


@pytest.mark.parametrize(
    ("mode", "use_ssl", "step_seconds"), [(HANGS, False, 0), (HANGS, True, 0), (TAKES, False, 0.2)]
)
def test_a_slow_conversation_ends_at_the_bound(
    mail_server: MailServer, mode: str, use_ssl: bool, step_seconds: float
) -> None:
    """Also if no single step is too slow."""
    mail_server.mode, mail_server.step_seconds = mode, step_seconds
    with pytest.raises((SMTPException, OSError), match=r"timed out|took too long"):
        send_through(mail_server, timeout=0.5, use_ssl=use_ssl)
    assert not mail_server.mails


def test_the_service_greets_with_the_host_of_its_pages(mail_server: MailServer, settings: Any) -> None:
    for host in ("sign-in.example.com", "192.0.2.1:8000", "[2001:db8::1]"):
        settings.AUTH_URL = f"https://{host}"
        send_through(mail_server, timeout=60)
    assert mail_server.greetings == ["sign-in.example.com", "[192.0.2.1]", "[IPv6:2001:db8::1]"]


def test_a_certificate_that_is_not_trusted_is_the_error_and_the_close_hides_it_not(
    mail_server: MailServer, tmp_path: Path
) -> None:
    mail_server.certificate = certificate_for(tmp_path, days=2)
    backend = EmailBackend(host="localhost", port=mail_server.port, timeout=60, use_tls=True)
    with pytest.raises(ssl.SSLCertVerificationError), closing(backend):  # type: ignore[type-var]
        backend.open()
