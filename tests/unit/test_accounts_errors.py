"""Whoever is refused by a page of accounts leaves one line in the log: the fault, the cause, and whose account."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine
from django.test import Client

from accounts.errors import AccountFault as Fault
from accounts.factors.authenticators import remove_all
from accounts.models import User
from accounts.passwords.hashing import HashingBusy
from accounts.sessions.credential_changes import set_active
from config.infrastructure import rate_limits
from tests import pages
from tests.factories import PASSWORD, PersonFactory
from tests.grants import Log
from tests.pages import Device

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

WRONG, ONCE, NEW = "wrong password", "1/d", "new@example.org"


class World:
    """Alice, a browser, and what can be made to fail."""

    app: pages.Account

    def __init__(self, alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.alice, self.settings, self.monkeypatch, self.browser = alice, settings, monkeypatch, Client()

    def sign_in(self, password: str = PASSWORD) -> None:
        pages.sign_in(self.browser, self.alice.email, password)

    def in_another_browser(self) -> None:
        self.browser = Client()
        self.sign_in()

    def post(self, path: str, **fields: Any) -> None:
        self.browser.post(path, fields)

    def second_factor(self, code: str = "00000000") -> None:
        self.post(pages.SECOND, code=code)

    def new_password(self, old: str = PASSWORD, new: str = pages.NEW_PASSWORD) -> None:
        self.sign_in()
        self.post("/accounts/password/change", oldpassword=old, password1=new, password2=new)

    def change(self, **fields: Any) -> None:
        User.objects.filter(pk=self.alice.pk).update(**fields)

    def reach(self, limit: str) -> None:
        counted = rate_limits.attempt
        reached: Callable[..., int] = lambda *counters: 7 if counters[0].name == limit else counted(*counters)  # noqa: E731
        self.monkeypatch.setattr(rate_limits, "attempt", reached)

    def ask_for_code(self, email: str = NEW) -> None:
        self.post("/accounts/email", email=email)

    def type_code(self, code: str = "") -> None:
        pages.type_code(self.browser, code or pages.mailed_code())

    def with_app(self) -> None:
        """Alice has an authenticator app, and has typed the password."""
        self.app = pages.Account(self.alice)
        self.sign_in()

    def unconfirmed(self) -> None:
        """Alice has typed the password, and a code is on its way."""
        self.change(email_verified_at=None)
        self.in_another_browser()

    def sign_up(self, **changes: str) -> None:
        self.settings.SIGN_UP = "open"
        pages.sign_up(self.browser, **changes)

    def add_passkey(self) -> None:
        self.sign_in()
        pages.add(self.browser, Device().made(pages.creation(self.browser)))

    def unknown_passkey(self, origin: str = "") -> None:
        device = Device(origin)
        device.person = "AAAA"
        self.post(pages.PASSKEY, credential=json.dumps(device.signed(pages.request_options(self.browser))))


def rates(**limits: str) -> Step:
    return lambda world: setattr(world.settings, "RATES", limits)


def old_mail_code(world: World) -> None:
    with time_machine.travel(time.time() + 1801):
        world.type_code()


def code_of_the_app(world: World) -> None:
    world.second_factor(pages.code_of(world.app.secret))


def recovery_code(world: World) -> None:
    world.second_factor(world.app.codes[0])


Step = Callable[[World], object]
CASES: list[tuple[Fault, str, bool, tuple[Step, ...]]] = []


def refused(fault: Fault, cause: str, *steps: Step, nobody: bool = False) -> None:
    """The last step is refused. `nobody`: the line names no person, otherwise Alice."""
    CASES.append((fault, cause or fault.name.lower(), nobody, steps))


# Passwords
for cause, fields in (("account_inactive", {"is_active": False}), ("account_without_password", {"password": "!none"})):
    refused(Fault.PASSWORD_WRONG, cause, lambda w, fields=fields: w.change(**fields), lambda w: w.sign_in(WRONG))
refused(Fault.ACCOUNT_INACTIVE, "", lambda w: w.change(is_active=False), World.sign_in)
for limit in ("account", "address"):
    steps = (rates(**{f"sign_in_{limit}": ONCE}), lambda w: w.sign_in(WRONG), World.sign_in)
    refused(Fault.SIGN_IN_LIMITED, f"sign_in_limited_{limit}", *steps)
refused(Fault.PRESENT_PASSWORD_WRONG, "password_wrong", lambda w: w.new_password(old=WRONG))
refused(Fault.NEW_PASSWORD_WEAK, "password_too_short", lambda w: w.new_password(new="short"))
busy = Mock(side_effect=HashingBusy())
set_busy: Step = lambda w: w.monkeypatch.setattr("accounts.passwords.hashing.in_turn", busy)  # noqa: E731
refused(Fault.PASSWORD_BUSY, "", set_busy, World.sign_in, nobody=True)

# Limits with a page
for limit, cause, act in (
    ("sign_up", "sign_up_limited", World.sign_up),
    ("mail", "mails_limited", World.sign_up),
    ("reset", "reset_limited", lambda w: pages.ask_for_link(w.browser, w.alice.email)),
    ("passkey_options", "passkeys_limited", lambda w: w.post(pages.PASSKEY)),
):
    refused(Fault.REQUESTS_LIMITED, cause, lambda w, limit=limit: w.reach(limit), act, nobody=True)
new_address = lambda w: w.reach("new_address")  # noqa: E731
refused(Fault.REQUESTS_LIMITED, "new_address_limited", World.sign_in, new_address, World.ask_for_code)
refused(Fault.REQUESTS_LIMITED, "codes_limited", lambda w: w.reach("code_mail"), World.unconfirmed)
refused(Fault.ACCOUNT_LIMITED, "sign_ins_done_limited", lambda w: w.reach("sign_in_done"), World.sign_in)

# Second factors and passkeys
again = World.in_another_browser
refused(Fault.APP_CODE_WRONG, "factor_used", World.with_app, code_of_the_app, again, code_of_the_app)
refused(Fault.FACTOR_WRONG, "", World.with_app, World.second_factor)
guess = World.second_factor
refused(Fault.FACTOR_LIMITED, "", World.with_app, rates(second_factor=ONCE), guess, guess)
refused(Fault.SIGN_IN_ENDED, "", World.with_app, lambda w: remove_all(w.alice), recovery_code)
refused(Fault.ACCOUNT_INACTIVE, "", World.with_app, lambda w: set_active(w.alice, False), recovery_code)
refused(Fault.SIGN_IN_ENDED, "", World.with_app, lambda _: User.objects.all().delete(), recovery_code, nobody=True)
refused(Fault.PASSKEY_UNREADABLE, "", lambda w: w.post(pages.PASSKEY, credential="x"), nobody=True)
elsewhere = "https://mallory.example"
refused(Fault.PASSKEY_UNREADABLE, "passkey_of_another_origin", lambda w: w.unknown_passkey(elsewhere), nobody=True)
refused(Fault.PASSKEY_UNKNOWN, "", World.unknown_passkey, nobody=True)

# Sign-up and addresses
refused(Fault.SIGN_UP_CLOSED, "", lambda w: w.browser.get(pages.SIGN_UP), nobody=True)
invited = f"{pages.SIGN_UP}?invitation=x"
refused(Fault.SIGN_UP_CLOSED, "invitation_invalid", lambda w: w.browser.get(invited), nobody=True)
refused(Fault.ADDRESS_TAKEN, "address_taken_at_sign_up", lambda w: w.sign_up(email=w.alice.email), nobody=True)
ask_for_taken = lambda w: w.ask_for_code(PersonFactory().email)  # noqa: E731
refused(Fault.ADDRESS_TAKEN, "", World.sign_in, ask_for_taken, World.type_code)
refused(Fault.MAIL_CODE_WRONG, "", World.unconfirmed, lambda w: w.type_code("WRONG"))
refused(Fault.MAIL_CODE_EXPIRED, "", World.unconfirmed, old_mail_code, nobody=True)
refused(Fault.SIGN_IN_TOO_SOON, "", World.unconfirmed, again, nobody=True)


@pytest.fixture
def world(alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(alice, settings, monkeypatch)


@pytest.mark.parametrize(("fault", "cause", "nobody", "steps"), CASES, ids=[case[1] for case in CASES])
def test_a_refusal_is_one_line(
    fault: Fault, cause: str, nobody: bool, steps: tuple[Step, ...], world: World, event_log: Log
) -> None:
    *before, last = steps
    for step in before:
        step(world)
    event_log.lines.clear()
    last(world)
    [line] = event_log.of("refused")
    person = None if nobody else str(world.alice.pk)
    assert (line["code"], line["cause"], line.get("person")) == (fault.name.lower(), cause, person)
    assert "@" not in str(line)


@pytest.mark.parametrize("succeed", [World.with_app, World.add_passkey, World.unconfirmed, World.sign_up])
def test_a_success_is_no_refusal(succeed: Step, world: World, event_log: Log) -> None:
    succeed(world)
    assert event_log.of("refused") == []
