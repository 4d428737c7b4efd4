"""Whose e-mail is sent next, and which page waits for it."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.mail.outbox import Outcome, Page
from accounts.models import OutgoingMail
from config.infrastructure import work_queue
from tests.pages import deliver_all

MALLORY, ALICE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def no_attempt_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mails only wait: in this process there is a thread that sends them, which never runs, and no page waits."""
    monkeypatch.setattr(outbox, "_thread", work_queue.Worker("never started", lambda: False))
    monkeypatch.setattr(outbox, "PAGE_SECONDS", 0.0)


def ask(address: str, to: str) -> None:
    later = timezone.now() + timedelta(hours=1)
    outbox.send_now("password_set", compose("password_set", to, {}), later, address, lambda _outcome: None)


def delivered() -> list[str]:
    """The recipients, in the order of delivery."""
    deliver_all()
    return [message.to[0] for message in mail.outbox]


# Turns ----------------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
@pytest.mark.parametrize(
    ("first", "second"),
    [(MALLORY, MALLORY), ("2001:db8:1:1::/64", "2001:db8:1:2::/64")],
    ids=["one address", "addresses of one IPv6 site"],
)
def test_no_more_than_one_mail_of_a_requester_stands_before_another_persons(first: str, second: str) -> None:
    for number in range(3):
        ask(first, f"a-{number}@example.com")
        ask(second, f"b-{number}@example.com")
    ask(ALICE, "alice@example.com")
    assert delivered()[:2] == ["a-0@example.com", "alice@example.com"]
    assert len(delivered()) == 7


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_notices_stand_behind_codes() -> None:
    facts = {"now": timezone.now(), "browser": "Firefox", "nickname": "Bob"}
    outbox.add_notice("password_changed", compose("password_changed", "bob@example.com", facts))
    ask(ALICE, "alice@example.com")
    assert delivered() == ["alice@example.com", "bob@example.com"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_many_notices_to_one_person_do_not_delay_those_to_others() -> None:
    facts = {"now": timezone.now(), "browser": "Firefox", "nickname": "Bob"}
    for to in ("mallory@example.com",) * 3 + ("bob@example.com",):
        outbox.add_notice("password_changed", compose("password_changed", to, facts))
    assert delivered()[1] == "bob@example.com"


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_of_mails_that_are_stored_at_the_same_moment_one_at_most_comes_first() -> None:
    rows = [outbox._row("kind", compose("password_set", "a@example.com", {}), timezone.now(), MALLORY) for _ in "12"]
    OutgoingMail.objects.bulk_create(rows)
    for row in rows:
        outbox._queue(row, first_turn=0)
    assert list(OutgoingMail.objects.filter(turn=0)) == []


@pytest.mark.django_db
def test_a_mail_that_was_not_taken_stands_behind_the_first_attempt_of_others(
    client: Client, no_attempt_here: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(MALLORY, "busy@example.com")
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "_message", lambda *_given: None)  # an error of this attempt
        outbox.deliver_next()
    with time_machine.travel(timezone.now() + work_queue.FIRST_PAUSE):
        ask(ALICE, "alice@example.com")
        assert delivered() == ["alice@example.com", "busy@example.com"]


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_the_table_shows_no_network_address(client: Client) -> None:
    client.post("/accounts/password/reset", {"email": "alice@example.com"}, REMOTE_ADDR=MALLORY)
    row = OutgoingMail.objects.get()
    assert MALLORY.encode() not in bytes(row.requester or b"")
    assert len(bytes(row.requester or b"")) == 32


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_a_row_of_the_release_before_is_sent_first() -> None:
    ask(ALICE, "alice@example.com")
    row = outbox._row("kind", compose("password_set", "before@example.com", {}), timezone.now(), "")
    row.expires_at = timezone.now() + timedelta(hours=1)
    row.requester, row.turn = None, 0
    row.due_at = timezone.now() - timedelta(seconds=1)
    row.save(force_insert=True)
    assert delivered() == ["before@example.com", "alice@example.com"]


# The page that waits --------------------------------------------------------------------------------------------------


def test_a_page_gets_the_outcome_of_its_own_mail() -> None:
    page, key = Page(), uuid.uuid4()

    def begin() -> None:
        page.tell(uuid.uuid4(), Outcome.GIVEN_UP)
        page.tell(key, Outcome.SENT)

    assert page.wait(key, begin) is Outcome.SENT
    page.tell(key, Outcome.GIVEN_UP)  # too late: nobody waits
    assert page.wait(key, lambda: page.tell(key, Outcome.LATER)) is Outcome.LATER


def test_while_one_page_waits_no_other_does() -> None:
    page, first, second = Page(), uuid.uuid4(), uuid.uuid4()
    outcomes: list[Outcome] = []

    def begin() -> None:
        other = threading.Thread(target=lambda: outcomes.append(page.wait(second, lambda: None)))
        other.start()
        other.join()  # it has not waited for the first
        page.tell(first, Outcome.SENT)

    assert page.wait(first, begin) is Outcome.SENT
    assert outcomes == [Outcome.ON_ITS_WAY]


def test_after_a_wait_in_vain_no_page_waits_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "PAGE_SECONDS", 0.0)
    now = 1000.0
    page, key = Page(lambda: now), uuid.uuid4()
    assert page.wait(key, lambda: None) is Outcome.ON_ITS_WAY
    now += outbox.PAUSE_OF_PAGES_SECONDS - 1
    assert page.wait(key, lambda: page.tell(key, Outcome.SENT)) is Outcome.ON_ITS_WAY
    now += 1
    assert page.wait(key, lambda: page.tell(key, Outcome.SENT)) is Outcome.SENT


@pytest.mark.django_db
@pytest.mark.usefixtures("no_attempt_here")
def test_a_page_that_does_not_wait_says_that_the_mail_is_on_its_way(client: Client) -> None:
    page = client.post("/accounts/password/reset", {"email": "alice@example.com"}, follow=True)
    assert "The mail is on its way. It can take a few minutes." in page.content.decode()
