"""How passwords, limits and second factors refuse somebody: functions whose last request is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.test import Client

from accounts.errors import AccountFault as Fault
from accounts.factors.authenticators import remove_all
from accounts.models import User
from accounts.passwords import hashing
from accounts.sessions.credential_changes import end_credentials, set_active
from tests import factors, pages
from tests.factories import PASSWORD
from tests.factors import Device
from tests.unit import test_accounts_address_pages as addresses

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

CONFIRM, PROFILE, SIGN_IN = "/accounts/confirm", "/accounts/profile", "/accounts/sign-in"
CHANGE, DELETE = "/accounts/password/change", "/accounts/delete"
NEW_PASSWORDS = dict.fromkeys(("password1", "password2"), pages.NEW_PASSWORD)
WRONG, ONCE = "wrong password", "1/d"


@dataclass
class World:
    """Alice, a browser, and what can be made to fail."""

    alice: User
    settings: Any
    monkeypatch: pytest.MonkeyPatch
    browser: Client = field(default_factory=Client)

    def sign_in(self, password: str = PASSWORD, email: str = "") -> None:
        self.browser.post(SIGN_IN, {"login": email or self.alice.email, "password": password})

    def again(self) -> None:
        """In another browser."""
        self.browser = Client()
        self.sign_in()

    def post(self, path: str, **fields: Any) -> None:
        self.browser.post(path, fields)

    def change(self, **fields: Any) -> None:
        User.objects.filter(pk=self.alice.pk).update(**fields)

    def patch(self, name: str, value: Any) -> None:
        self.monkeypatch.setattr(f"accounts.{name}", value)

    def reach(self, limit: str) -> None:
        self.patch(f"throttling.{limit}_wait", lambda *_args, **_options: 7)

    def account(self) -> factors.Account:
        """Alice has an authenticator app, and has typed the password."""
        account = factors.Account(self.alice)
        self.sign_in()
        return account

    def answer(self) -> dict[str, Any]:
        """Alice is signed in, and her device has made a passkey."""
        self.sign_in()
        return Device().made(factors.creation(self.browser))

    def passkey(self) -> None:
        """Alice has a passkey, and has typed the password."""
        factors.add(self.browser, self.answer())
        self.again()


class Case(NamedTuple):
    fault: Fault
    cause: str
    names_alice: bool
    act: Callable[[World], object]


CASES: list[Case] = []


def refuses(fault: Fault, cause: str = "", *, alice: bool = False) -> Callable[[Any], Any]:
    """For a function whose last request is refused. `alice`: the line names her."""

    def add(act: Callable[..., object]) -> Callable[..., object]:
        CASES.append(Case(fault, cause or fault.name.lower(), alice, act))
        return act

    return add


# Passwords ------------------------------------------------------------------------------------------------------------

refuses(Fault.PASSWORD_WRONG, alice=True)(lambda world: world.sign_in(WRONG))
refuses(Fault.PASSWORD_WRONG, "account_unknown")(lambda world: world.sign_in(WRONG, "nobody@example.com"))


@refuses(Fault.PASSWORD_WRONG, "account_inactive", alice=True)
def wrong_password_of_an_inactive_account(world: World) -> None:
    world.change(is_active=False)
    world.sign_in(WRONG)


@refuses(Fault.PASSWORD_WRONG, "account_without_password", alice=True)
def password_of_an_account_without_one(world: World) -> None:
    world.change(password="!" + "a" * 40)
    world.sign_in(WRONG)


@refuses(Fault.ACCOUNT_INACTIVE, alice=True)
def right_password_of_an_inactive_account(world: World) -> None:
    world.change(is_active=False)
    world.sign_in()


@refuses(Fault.SIGN_IN_LIMITED, "sign_in_limited_account", alice=True)
def account_limited(world: World) -> None:
    world.settings.RATES = {"sign_in_account": ONCE}
    world.sign_in(WRONG)
    world.sign_in()


@refuses(Fault.SIGN_IN_LIMITED, "sign_in_limited_address", alice=True)
def address_limited(world: World) -> None:
    world.settings.RATES = {"sign_in_address": ONCE}
    world.sign_in(WRONG)
    world.sign_in()


@refuses(Fault.SIGN_IN_LIMITED, "sign_in_limited_everybody", alice=True)
def everybody_limited(world: World) -> None:
    world.settings.SIGN_IN_FAILURES_OF_ALL = ONCE
    world.sign_in(WRONG)
    world.sign_in()


@refuses(Fault.SIGN_IN_LIMITED, "sign_in_limited_account", alice=True)
def password_typed_again_too_often(world: World) -> None:
    world.sign_in()
    world.settings.RATES = {"sign_in_account": ONCE}
    world.post(CONFIRM, password=WRONG)
    world.post(CONFIRM, password=PASSWORD)


@refuses(Fault.PRESENT_PASSWORD_WRONG, "password_wrong", alice=True)
def wrong_password_typed_again(world: World) -> None:
    world.sign_in()
    world.post(CONFIRM, password=WRONG)


@refuses(Fault.PRESENT_PASSWORD_WRONG, "password_wrong", alice=True)
def new_password_with_a_wrong_one(world: World) -> None:
    world.sign_in()
    world.post(CHANGE, oldpassword=WRONG, **NEW_PASSWORDS)


@refuses(Fault.NEW_PASSWORD_WEAK, "password_too_short", alice=True)
def weak_password(world: World) -> None:
    world.sign_in()
    world.post(CHANGE, oldpassword=PASSWORD, password1="short", password2="short")


@refuses(Fault.PASSWORD_BUSY)
def busy(world: World) -> None:
    def raise_busy() -> None:
        raise hashing.HashingBusy

    world.patch("passwords.hashing.hashes.raise_if_busy", raise_busy)
    world.sign_in()


@refuses(Fault.RESET_LINK_INVALID)
def used_link(world: World) -> None:
    pages.ask_for_link(world.browser, world.alice.email)
    pages.choose(world.browser, pages.mailed_path())
    Client().get(pages.mailed_path())


@refuses(Fault.RESET_MAIL_LIMITED, alice=True)
def many_links(world: World) -> None:
    world.patch("throttling.may_send_reset_email", lambda *_: False)
    pages.ask_for_link(world.browser, world.alice.email)


# Limits with a page ---------------------------------------------------------------------------------------------------


def limited(limit: str, act: Callable[[World], object], world: World) -> None:
    world.sign_in()
    world.reach(limit)
    act(world)


def unconfirmed(world: World) -> None:
    """Alice has typed the password, and a code is on its way."""
    world.change(email_verified_at=None)
    world.again()


def sign_up(world: World, path: str = pages.SIGN_UP, **changes: str) -> None:
    world.settings.SIGN_UP = "open"
    pages.sign_up(Client(), path, **changes)


for limit, cause, act in (
    ("sign_up", "sign_up_limited", sign_up),
    ("mail", "mails_limited", sign_up),
    ("reset", "reset_limited", lambda world: pages.ask_for_link(Client(), world.alice.email)),
    ("new_password", "new_password_limited", lambda _world: Client().post("/accounts/password/reset/x-set-password")),
    ("passkey_options", "passkeys_limited", lambda _world: Client().get(factors.PASSKEY)),
    ("passkey", "passkeys_limited", lambda _world: Client().post(factors.PASSKEY)),
    ("new_address", "new_address_limited", lambda world: addresses.ask(world.browser, "new@example.org")),
):
    refuses(Fault.REQUESTS_LIMITED, cause, alice=limit == "new_address")(partial(limited, limit, act))
refuses(Fault.REQUESTS_LIMITED, "codes_limited", alice=True)(partial(limited, "code", unconfirmed))
for limit in ("begun", "done"):
    refuses(Fault.ACCOUNT_LIMITED, f"sign_ins_{limit}_limited", alice=True)(
        partial(limited, f"sign_in_{limit}", World.again)
    )


@refuses(Fault.REQUESTS_LIMITED)
def limit_of_the_library(world: World) -> None:
    world.sign_in()
    addresses.ask(world.browser, "new@example.org")
    addresses.ask(world.browser, "new@example.org")


# Second factors -------------------------------------------------------------------------------------------------------


@refuses(Fault.APP_CODE_WRONG, "factor_wrong", alice=True)
def wrong_app_code(world: World) -> None:
    code = int(factors.code_of(world.account().secret))
    world.post(factors.SECOND, code=f"{(code + 500_000) % 1_000_000:06}")


@refuses(Fault.APP_CODE_WRONG, "factor_used", alice=True)
def used_app_code(world: World) -> None:
    code = factors.code_of(world.account().secret)
    world.post(factors.SECOND, code=code)
    world.again()
    world.post(factors.SECOND, code=code)


@refuses(Fault.FACTOR_WRONG, alice=True)
def wrong_recovery_code_beside_an_app(world: World) -> None:
    world.account()
    world.post(factors.SECOND, code="00000000")


@refuses(Fault.RECOVERY_CODE_WRONG, "factor_wrong", alice=True)
def wrong_recovery_code(world: World) -> None:
    world.passkey()
    world.post(factors.SECOND, code="00000000")


@refuses(Fault.FACTOR_LIMITED, alice=True)
def factor_limited(world: World) -> None:
    world.account()
    world.settings.RATES = {"second_factor": ONCE}
    world.post(factors.SECOND, code="000000")
    world.post(factors.SECOND, code="000000")


@refuses(Fault.FACTOR_WRONG, alice=True)
def wrong_factor_before_a_change(world: World) -> None:
    world.account().browser.post("/accounts/confirm/code", {"code": "00000000"})


@refuses(Fault.NEW_APP_CODE_WRONG, alice=True)
def wrong_code_of_a_new_app(world: World) -> None:
    world.sign_in()
    world.browser.get(factors.APP)
    world.post(factors.APP, code="no code")


for fault, end in (
    (Fault.SIGN_IN_ENDED, remove_all),
    (Fault.SIGN_IN_ENDED, end_credentials),
    (Fault.ACCOUNT_INACTIVE, lambda alice: set_active(alice, False)),
):

    @refuses(fault, alice=True)
    def ended_before_the_second_factor(world: World, end: Callable[[User], object] = end) -> None:
        code = world.account().codes[0]
        end(User.objects.get(pk=world.alice.pk))
        world.post(factors.SECOND, code=code)
