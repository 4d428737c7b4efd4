"""The limits of sign-up and its mails in docs/contract.md, tested as attacker and as victim. D21."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.test import Client

from accounts.models import User
from tests.factories import PASSWORD, PersonFactory
from tests.grants import ANOTHER, HERS, ask_for_reset, choose_password_by_mail, site_address, statuses, try_password
from tests.pages import NEW, browser_of, known_browser, sign_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]


def ask_for_accounts(addresses: list[str], name: str) -> list[int]:
    emails = (f"{name}-{number}@example.net" for number in range(len(addresses)))
    pairs = zip(emails, addresses, strict=True)
    return statuses([sign_up(Client(), email=email, address=address) for email, address in pairs])


@pytest.mark.usefixtures("sign_up_is_open")
def test_sign_up_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_up": "3/m", "sign_up_day": "5/d"}
    before = User.objects.count()
    assert ask_for_accounts([HERS] * 5, "one") == [302] * 3 + [429] * 2
    assert ask_for_accounts([site_address(6, number) for number in range(14)], "site") == [302] * 12 + [429] * 2
    with time_machine.travel(time.time() + 60, tick=False):
        assert ask_for_accounts([HERS] * 3, "later") == [302] * 2 + [429]
        answer = sign_up(Client(), email="last@example.net", address=HERS)
    assert int(answer["Retry-After"]) > 7200
    assert "Try again in 24 hours." in answer.content.decode()
    assert User.objects.count() == before + 17


@pytest.mark.usefixtures("sign_up_is_open")
def test_sign_up_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_up": "3/m"}
    ask_for_accounts([HERS] * 4, "hers")
    assert ask_for_accounts([ANOTHER], "victim") == [302]
    assert try_password(alice.email, PASSWORD, address=HERS).status_code == 302


def sign_up_often(email: str, number: int) -> list[Any]:
    """The answers of so many sign-ups, each from another address and 11 seconds after the one before."""
    answers = []
    for each in range(number):
        with time_machine.travel(time.time() + 11 * each, tick=False):
            answers.append(sign_up(Client(), email=email, address=f"192.0.2.{each}"))
    return answers


@pytest.fixture
def hour(settings: Any, monkeypatch: Any) -> Any:
    """Two minutes that lie in one hour, while anybody may sign up. Every limit's hour begins with that of the clock."""
    settings.SIGN_UP = "open"
    monkeypatch.setattr("django_ratelimit.core.zlib", SimpleNamespace(crc32=lambda _key: 0))
    with time_machine.travel(datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC), tick=False):
        yield


def ask_for_mails(address: str, name: str) -> list[int]:
    """One for each way in which a stranger has mails sent to others."""
    bob, hers = PersonFactory(email_verified_at=None), browser_of(PersonFactory())
    new = {"email": f"new-{name}@example.org"}
    answers = [
        *ask_for_accounts([address], name),
        try_password(bob.email, PASSWORD, address=address),
        ask_for_reset(f"{name}@example.org", address=address),
        hers.post("/accounts/email", new, REMOTE_ADDR=address),
        ask_for_reset(PersonFactory().email, address=address),
    ]
    return statuses(answers)


@pytest.mark.usefixtures("hour")
def test_mail_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"mail": "3/h"}
    assert ask_for_mails(HERS, "mallory") == [302] * 3 + [429] * 2
    assert len(mail.outbox) == 3
    site = [ask_for_reset(f"{number}@example.org", address=site_address(8, number)) for number in range(14)]
    assert statuses(site) == [302] * 12 + [429] * 2


@pytest.mark.usefixtures("hour")
def test_mail_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"mail": "3/h"}
    known = known_browser(alice)
    ask_for_mails(HERS, "mallory")
    assert ask_for_reset(alice.email, address=HERS).status_code == 429
    choose_password_by_mail(alice, known, HERS)
    assert ask_for_reset(alice.email, address=ANOTHER).status_code == 302


@pytest.mark.usefixtures("hour")
def test_addresses_with_a_tag_count_as_one_mailbox_for_mails_and_for_nothing_else(alice: User) -> None:
    name, _at, host = alice.email.partition("@")
    for number in range(8):
        ask_for_reset(f"{name}+{number}@{host}", address=HERS)
    assert len(mail.outbox) == 5
    assert mail.outbox[0].to == [f"{name}+0@{host}"]
    ask_for_reset(f"x{name}@{host}", address=HERS)
    assert len(mail.outbox) == 6
    for number in range(12):
        sign_up_often(f"{name}+{number}@{host}", 1)
    assert len(mail.outbox) == 16
    for _ in range(10):
        try_password(f"{name}+1@{host}")
    assert try_password(alice.email, PASSWORD).status_code == 302


@pytest.mark.usefixtures("hour")
def test_taken_mail_stops_the_attacker(alice: User) -> None:
    answers = sign_up_often(alice.email, 8)
    assert statuses(answers) == [302] * 8
    assert len({each["Location"] for each in answers}) == 1
    assert len(mail.outbox) == 5


@pytest.mark.usefixtures("hour")
def test_taken_mail_lets_the_victim_go_on(alice: User) -> None:
    sign_up_often(alice.email, 8)
    assert try_password(alice.email, PASSWORD).status_code == 302
    choose_password_by_mail(alice, Client())


def take(victim: str) -> Any:
    """Mallory signs up with the address of somebody else, and then signs in again and again."""
    sign_up_often(victim, 1)
    for each in range(1, 13):
        with time_machine.travel(time.time() + 11 * each, tick=False):
            answer = try_password(victim, NEW["password1"])
    return answer


@pytest.mark.usefixtures("hour")
def test_code_mail_stops_the_attacker() -> None:
    answer = take("victim@example.org")
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 3600
    assert len(mail.outbox) == 10


@pytest.mark.usefixtures("hour")
def test_code_mail_lets_the_victim_go_on() -> None:
    take("victim@example.org")
    choose_password_by_mail(User.objects.get(email="victim@example.org"), Client())
    browser = browser_of(PersonFactory())
    with time_machine.travel(time.time() + 300):
        assert browser.post("/accounts/email", {"email": "another@example.org"}).status_code == 302
