"""Whoever is refused by a page of accounts leaves one line in the log: the fault, the cause, and whose account."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.test import Client

from accounts.errors import AccountFault as Fault
from accounts.factors.authenticators import remove_all
from accounts.models import User
from accounts.passwords.hashing import HashingBusy
from accounts.pictures import reencoder
from accounts.sessions.credential_changes import end_credentials, set_active
from accounts.sign_in import who_may_sign_up
from tests import factors, pages
from tests.events import Log
from tests.factories import PASSWORD, PersonFactory
from tests.factors import SECOND, Device
from tests.pictures import picture, upload
from tests.unit import test_accounts_address_pages as addresses
from tests.unit import test_accounts_passkeys as passkeys
from tests.unit import test_accounts_without_password as first_passkey

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

WRONG, ONCE, NEW = "wrong password", "1/d", "new@example.org"


@dataclass
class World:
    """Alice, a browser, and what can be made to fail."""

    alice: User
    settings: Any
    monkeypatch: pytest.MonkeyPatch
    browser: Client = field(default_factory=Client)
    app: Any = None

    def sign_in(self, password: str = PASSWORD, email: str = "") -> None:
        pages.sign_in(self.browser, email or self.alice.email, password)

    def wrong(self) -> None:
        self.sign_in(WRONG)

    def confirm(self, password: str = WRONG) -> None:
        self.post("/accounts/confirm", password=password)

    def again(self) -> None:
        """In another browser."""
        self.browser = Client()
        self.sign_in()

    def get(self, path: str) -> None:
        self.browser.get(path)

    def post(self, path: str, **fields: Any) -> None:
        self.browser.post(path, fields)

    def code(self, code: str | None = None) -> None:
        """The code, or that of the app, as the second factor."""
        self.post(SECOND, code=factors.code_of(self.app.secret) if code is None else code)

    def no_code(self) -> None:
        self.code("00000000")

    def change(self, **fields: Any) -> None:
        User.objects.filter(pk=self.alice.pk).update(**fields)

    def patch(self, name: str, value: Any) -> None:
        self.monkeypatch.setattr(f"accounts.{name}", value)

    def raising(self, name: str, error: Exception) -> None:
        def fail(*_args: object, **_options: object) -> None:
            raise error

        self.patch(name, fail)

    def set(self, **values: Any) -> None:
        for name, value in values.items():
            setattr(self.settings, name, value)

    def rates(self, **rates: str) -> None:
        self.set(RATES=rates)

    def reach(self, limit: str) -> None:
        self.patch(f"throttling.{limit}_wait", lambda *_args, **_options: 7)

    def reset(self) -> None:
        pages.ask_for_link(self.browser, self.alice.email)

    def ask(self, email: str = NEW) -> None:
        """For a code to a new address."""
        addresses.ask(self.browser, email)

    def type(self, code: str = "") -> None:
        """The mailed code."""
        pages.type_code(self.browser, code or pages.mailed_code())

    def delete_others(self) -> None:
        User.objects.exclude(pk=self.alice.pk).delete()

    def account(self) -> None:
        """Alice has an authenticator app, and has typed the password."""
        self.app = factors.Account(self.alice)
        self.sign_in()

    def unconfirmed(self) -> None:
        """Alice has typed the password, and a code is on its way."""
        self.change(email_verified_at=None)
        self.again()

    def sign_up(self, path: str = pages.SIGN_UP, **changes: str) -> None:
        self.settings.SIGN_UP = "open"
        pages.sign_up(self.browser, path, **changes)

    def answer(self) -> dict[str, Any]:
        """Alice is signed in, and her device has made a passkey."""
        self.sign_in()
        return Device().made(factors.creation(self.browser))

    def add(self) -> None:
        factors.add(self.browser, self.answer())

    def passkey(self) -> None:
        """Alice has a passkey, and has typed the password."""
        self.add()
        self.again()

    def stranger(self, path: str = factors.PASSKEY, options: str = factors.PASSKEY, origin: str = "") -> None:
        """The answer of a device whose passkey is not known."""
        device = Device(origin)
        device.person = "AAAA"
        self.post(path, credential=json.dumps(device.signed(factors.request_options(self.browser, options))))

    def picture(self, content: bytes = b"") -> None:
        self.sign_in()
        self.post("/accounts/profile", nickname="Ali", picture=upload(content or picture()))


Step = Callable[[World], object]


CASES: list[tuple[Fault, str, bool, tuple[Step, ...]]] = []


def refused(fault: Fault, cause: str, *steps: Step, nobody: bool = False) -> None:
    """The last step is refused. `nobody`: the line names no person, otherwise Alice."""
    CASES.append((fault, cause or fault.name.lower(), nobody, steps))


# Passwords ------------------------------------------------------------------------------------------------------------

TOO_OFTEN = (World.wrong, World.sign_in)
BUSY = partial(World.raising, name="passwords.hashing.hashes.raise_if_busy", error=HashingBusy())


def new_password(world: World, old: str = PASSWORD, new: str = pages.NEW_PASSWORD) -> None:
    world.sign_in()
    world.post("/accounts/password/change", oldpassword=old, password1=new, password2=new)


def used_link(world: World) -> None:
    world.reset()
    pages.choose(world.browser, pages.mailed_path())
    Client().get(pages.mailed_path())


refused(Fault.PASSWORD_WRONG, "", World.wrong)
refused(Fault.PASSWORD_WRONG, "account_unknown", lambda w: w.sign_in(WRONG, "nobody@example.com"), nobody=True)
refused(Fault.PASSWORD_WRONG, "account_inactive", lambda w: w.change(is_active=False), World.wrong)
refused(Fault.PASSWORD_WRONG, "account_without_password", lambda w: w.change(password="!" + "a" * 40), World.wrong)
refused(Fault.ACCOUNT_INACTIVE, "", lambda w: w.change(is_active=False), World.sign_in)
refused(Fault.SIGN_IN_LIMITED, "sign_in_limited_account", lambda w: w.rates(sign_in_account=ONCE), *TOO_OFTEN)
refused(Fault.SIGN_IN_LIMITED, "sign_in_limited_address", lambda w: w.rates(sign_in_address=ONCE), *TOO_OFTEN)
refused(Fault.SIGN_IN_LIMITED, "sign_in_limited_everybody", lambda w: w.set(SIGN_IN_FAILURES_OF_ALL=ONCE), *TOO_OFTEN)
refused(
    Fault.SIGN_IN_LIMITED,
    "sign_in_limited_account",
    World.sign_in,
    lambda w: w.rates(sign_in_account=ONCE),
    World.confirm,
    lambda w: w.confirm(PASSWORD),
)
refused(Fault.PRESENT_PASSWORD_WRONG, "password_wrong", World.sign_in, World.confirm)
refused(Fault.PRESENT_PASSWORD_WRONG, "password_wrong", partial(new_password, old=WRONG))
refused(Fault.NEW_PASSWORD_WEAK, "password_too_short", partial(new_password, new="short"))
refused(Fault.PASSWORD_BUSY, "", BUSY, World.sign_in, nobody=True)
refused(Fault.RESET_LINK_INVALID, "", used_link, nobody=True)
refused(
    Fault.RESET_MAIL_LIMITED, "", lambda w: w.patch("throttling.may_send_reset_email", lambda *_: False), World.reset
)

# Limits with a page ---------------------------------------------------------------------------------------------------

for limit, cause, act in (
    ("sign_up", "sign_up_limited", World.sign_up),
    ("mail", "mails_limited", World.sign_up),
    ("reset", "reset_limited", World.reset),
    ("new_password", "new_password_limited", lambda w: w.post("/accounts/password/reset/x-set-password")),
    ("passkey_options", "passkeys_limited", lambda w: w.get(factors.PASSKEY)),
    ("passkey", "passkeys_limited", lambda w: w.post(factors.PASSKEY)),
):
    refused(Fault.REQUESTS_LIMITED, cause, partial(World.reach, limit=limit), act, nobody=True)
refused(Fault.REQUESTS_LIMITED, "new_address_limited", World.sign_in, lambda w: w.reach("new_address"), World.ask)
refused(Fault.REQUESTS_LIMITED, "codes_limited", lambda w: w.reach("code"), World.unconfirmed)
for limit in ("begun", "done"):
    reach = partial(World.reach, limit=f"sign_in_{limit}")
    refused(Fault.ACCOUNT_LIMITED, f"sign_ins_{limit}_limited", reach, World.sign_in)
refused(Fault.REQUESTS_LIMITED, "", World.sign_in, World.ask, World.ask, nobody=True)  # by allauth

# Second factors -------------------------------------------------------------------------------------------------------


def wrong_app_code(world: World) -> None:
    world.code(f"{(int(factors.code_of(world.app.secret)) + 500_000) % 1_000_000:06}")


refused(Fault.APP_CODE_WRONG, "factor_wrong", World.account, wrong_app_code)
refused(Fault.APP_CODE_WRONG, "factor_used", World.account, World.code, World.again, World.code)
refused(Fault.FACTOR_WRONG, "", World.account, World.no_code)
refused(Fault.RECOVERY_CODE_WRONG, "factor_wrong", World.passkey, World.no_code)
refused(Fault.FACTOR_LIMITED, "", World.account, lambda w: w.rates(second_factor=ONCE), World.no_code, World.no_code)
refused(
    Fault.FACTOR_WRONG, "", World.account, lambda w: w.app.browser.post("/accounts/confirm/code", {"code": "00000000"})
)
refused(
    Fault.NEW_APP_CODE_WRONG,
    "",
    World.sign_in,
    lambda w: w.get(factors.APP),
    lambda w: w.post(factors.APP, code="no code"),
)


def ended(world: World, end: Callable[[User], object]) -> None:
    end(User.objects.get(pk=world.alice.pk))


for fault, end in (
    (Fault.SIGN_IN_ENDED, remove_all),
    (Fault.SIGN_IN_ENDED, end_credentials),
    (Fault.ACCOUNT_INACTIVE, lambda alice: set_active(alice, False)),
):
    refused(fault, "", World.account, partial(ended, end=end), lambda w: w.code(w.app.codes[0]))

# Passkeys -------------------------------------------------------------------------------------------------------------


def most_passkeys(world: World) -> None:
    answer = world.answer()
    world.patch("factors.views.MOST_PASSKEYS", 0)
    factors.add(world.browser, answer)


def damaged_passkey(world: World) -> None:
    factors.add(world.browser, passkeys.changed(world.answer(), "response.attestationObject", "AAAA"))


def passkey_that_is_needed(world: World) -> None:
    world.add()
    world.change(password="!")
    world.browser.force_login(User.objects.get(pk=world.alice.pk))
    world.patch("sign_in.reauthentication.is_fresh", lambda *_args, **_options: True)
    world.post(f"/accounts/security/passkeys/{Authenticator.objects.earliest('pk').pk}/remove")


def passkey_of_a_sign_up_that_ended(world: World) -> None:
    world.settings.SIGN_UP = "open"
    first_passkey.up_to_the_passkey(world.browser)
    world.delete_others()
    first_passkey.post(world.browser, {})


refused(Fault.PASSKEY_UNREADABLE, "", lambda w: w.post(factors.PASSKEY, credential="x"), nobody=True)
refused(
    Fault.PASSKEY_UNREADABLE,
    "passkey_of_another_origin",
    lambda w: w.stranger(origin="https://mallory.example"),
    nobody=True,
)
refused(Fault.PASSKEY_UNKNOWN, "", World.stranger, nobody=True)
refused(Fault.PASSKEY_UNKNOWN, "", World.passkey, lambda w: w.stranger(SECOND, f"{SECOND}/passkey"))
refused(Fault.PASSKEY_REFUSED, "", damaged_passkey)
refused(Fault.NEW_PASSKEYS_LIMITED, "", lambda w: w.reach("new_passkey"), World.add)
refused(Fault.PASSKEYS_FULL, "", most_passkeys)
refused(Fault.PASSKEY_NEEDED, "", passkey_that_is_needed)
refused(Fault.SIGN_IN_ENDED, "", passkey_of_a_sign_up_that_ended, nobody=True)

# Sign-up and addresses ------------------------------------------------------------------------------------------------


def invitation_of_another(world: World) -> None:
    world.settings.SIGN_UP = "invitation"
    path = who_may_sign_up.link(NEW).removeprefix("http://testserver")
    pages.sign_up(world.browser, path, email="mallory@example.org")


def address_taken_meanwhile(world: World) -> None:
    world.ask()
    world.monkeypatch.setattr("allauth.account.forms.email_already_exists", lambda **_: PersonFactory(email=NEW))
    world.type()


def old_mail_code(world: World) -> None:
    with time_machine.travel(time.time() + 1801):
        world.type()


refused(Fault.SIGN_UP_CLOSED, "", lambda w: w.get(pages.SIGN_UP), nobody=True)
refused(Fault.SIGN_UP_CLOSED, "invitation_invalid", lambda w: w.get(f"{pages.SIGN_UP}?invitation=x"), nobody=True)
for path in (pages.SIGN_UP, first_passkey.SIGN_UP):
    taken = partial(lambda w, path: w.sign_up(path, email=w.alice.email), path=path)
    refused(Fault.ADDRESS_TAKEN, "address_taken_at_sign_up", taken, nobody=True)
refused(Fault.NOT_INVITED, "", invitation_of_another, nobody=True)
refused(Fault.SAME_ADDRESS, "", World.sign_in, lambda w: w.ask(w.alice.email))
refused(Fault.ADDRESS_TAKEN, "", World.sign_in, lambda w: addresses.change(w.browser, PersonFactory().email))
refused(Fault.ADDRESS_TAKEN, "", World.sign_in, address_taken_meanwhile)
refused(Fault.MAIL_CODE_WRONG, "", World.unconfirmed, lambda w: w.type("WRONG"))
refused(Fault.MAIL_CODE_EXPIRED, "", World.unconfirmed, old_mail_code, nobody=True)
refused(Fault.MAIL_CODE_EXPIRED, "account_deleted", World.sign_up, World.delete_others, World.type, nobody=True)
refused(Fault.SIGN_IN_TOO_SOON, "", World.unconfirmed, World.again, nobody=True)

# The profile ----------------------------------------------------------------------------------------------------------


def while_other_pictures_are_read(world: World) -> None:
    world.patch("pictures.reencoder_runner.WAIT_SECONDS", 0)
    with open(reencoder.__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        world.picture()


refused(Fault.ANOTHER_ADDRESS, "", World.sign_in, lambda w: w.post("/accounts/delete", email="bob@example.org"))
refused(
    Fault.LAST_ADMINISTRATOR,
    "",
    lambda w: w.change(is_staff=True, is_superuser=True),
    World.sign_in,
    lambda w: w.post("/accounts/delete", email=w.alice.email),
)
for fault, name, value in (
    (Fault.PICTURE_FAILED, "reencoder_runner._run", lambda *_: -9),
    (Fault.PICTURE_TOO_MANY_PIXELS, "reencoder_runner._run", lambda *_: reencoder.TOO_MANY_PIXELS),
    (Fault.PICTURE_TOO_COSTLY, "reencoder_runner._run", lambda *_: reencoder.TOO_COSTLY),
):
    refused(fault, "", partial(World.patch, name=f"pictures.{name}", value=value), World.picture)
disk_is_full = partial(World.raising, name="pictures.upload_handler.temporary_file", error=OSError(28, "full"))
refused(Fault.PICTURE_LOST, "", disk_is_full, World.picture)
refused(Fault.PICTURES_LIMITED, "", lambda w: w.reach("picture"), World.picture)
refused(Fault.PICTURE_TOO_LARGE, "", lambda w: w.set(PICTURE_MAX_BYTES=1), World.picture)
refused(Fault.NOT_A_PICTURE, "", lambda w: w.picture(b"no picture"))
refused(Fault.PICTURES_BUSY, "", while_other_pictures_are_read)

# What is logged -------------------------------------------------------------------------------------------------------


@pytest.fixture
def world(alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(alice, settings, monkeypatch)


@pytest.fixture
def last_log(event_log: Log, monkeypatch: pytest.MonkeyPatch) -> Log:
    """Of the last request only."""
    request = Client.request

    def clear_and_request(client: Client, **environment: Any) -> Any:
        event_log.lines.clear()
        return request(client, **environment)

    monkeypatch.setattr(Client, "request", clear_and_request)
    return event_log


@pytest.mark.parametrize(("fault", "cause", "nobody", "steps"), CASES, ids=[case[1] for case in CASES])
def test_a_refusal_is_one_line(
    fault: Fault, cause: str, nobody: bool, steps: tuple[Step, ...], world: World, last_log: Log
) -> None:
    for step in steps:
        step(world)
    [line] = last_log.of("refused")
    person = None if nobody else str(world.alice.pk)
    assert (line["code"], line["cause"], line.get("person")) == (fault.name.lower(), cause, person)
    assert "@" not in str(line)


def test_every_fault_has_its_case() -> None:
    assert {case[0] for case in CASES} == set(Fault)


@pytest.mark.parametrize("succeed", [World.account, World.passkey, World.unconfirmed, World.sign_up, World.picture])
def test_a_success_is_no_refusal(succeed: Step, world: World, event_log: Log) -> None:
    succeed(world)
    assert event_log.of("refused") == []
