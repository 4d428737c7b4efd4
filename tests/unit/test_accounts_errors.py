"""Whoever is refused by a page of accounts leaves one line in the log: the fault, the cause, and whose account."""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.test import Client

from accounts.errors import AccountFault as Fault
from accounts.models import User
from accounts.pictures import reencoder
from accounts.pictures.stored_files import NotStored
from accounts.sign_in import who_may_sign_up
from tests import factors, pages
from tests.events import Log
from tests.factories import PersonFactory
from tests.factors import Device
from tests.pictures import picture, upload
from tests.unit import test_accounts_address_pages as addresses
from tests.unit import test_accounts_passkeys as passkeys
from tests.unit import test_accounts_without_password as first_passkey
from tests.unit.account_refusals import CASES, Case, World, refuses, sign_up, unconfirmed

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("passkeys_over_http")]

DELETE, PROFILE = "/accounts/delete", "/accounts/profile"


# Passkeys -------------------------------------------------------------------------------------------------------------


def stranger(world: World, path: str = factors.PASSKEY, origin: str = "") -> str:
    """The answer of a device whose passkey is not known."""
    device = Device(origin)
    device.person = "AAAA"
    return json.dumps(device.signed(factors.request_options(world.browser, path)))


@refuses(Fault.PASSKEY_UNREADABLE)
def no_passkey(world: World) -> None:
    world.post(factors.PASSKEY, credential="x")


@refuses(Fault.PASSKEY_UNREADABLE, "passkey_of_another_origin")
def passkey_of_another_origin(world: World) -> None:
    world.post(factors.PASSKEY, credential=stranger(world, origin="https://mallory.example"))


@refuses(Fault.PASSKEY_UNKNOWN)
def unknown_passkey(world: World) -> None:
    world.post(factors.PASSKEY, credential=stranger(world))


@refuses(Fault.PASSKEY_UNKNOWN, alice=True)
def unknown_passkey_after_the_password(world: World) -> None:
    world.passkey()
    world.post(factors.SECOND, credential=stranger(world, f"{factors.SECOND}/passkey"))


@refuses(Fault.PASSKEY_REFUSED, alice=True)
def refused_passkey(world: World) -> None:
    factors.add(world.browser, passkeys.changed(world.answer(), "response.attestationObject", "AAAA"))


@refuses(Fault.NEW_PASSKEYS_LIMITED, alice=True)
def many_passkeys(world: World) -> None:
    answer = world.answer()
    world.reach("new_passkey")
    factors.add(world.browser, answer)


@refuses(Fault.PASSKEYS_FULL, alice=True)
def most_passkeys(world: World) -> None:
    answer = world.answer()
    world.patch("factors.views.MOST_PASSKEYS", 0)
    factors.add(world.browser, answer)


@refuses(Fault.PASSKEY_NEEDED, alice=True)
def last_passkey(world: World) -> None:
    factors.add(world.browser, world.answer())
    world.change(password="!")
    world.browser.force_login(User.objects.get(pk=world.alice.pk))
    world.patch("sign_in.reauthentication.is_fresh", lambda *_args, **_options: True)
    world.post(f"/accounts/security/passkeys/{Authenticator.objects.earliest('pk').pk}/remove")


@refuses(Fault.SIGN_IN_ENDED)
def sign_up_by_passkey_ended(world: World) -> None:
    world.settings.SIGN_UP = "open"
    first_passkey.up_to_the_passkey(world.browser)
    User.objects.exclude(pk=world.alice.pk).delete()
    first_passkey.post(world.browser, {})


# Sign-up and addresses ------------------------------------------------------------------------------------------------

refuses(Fault.SIGN_UP_CLOSED)(lambda world: world.browser.get(pages.SIGN_UP))
refuses(Fault.SIGN_UP_CLOSED, "invitation_invalid")(lambda world: world.browser.get(f"{pages.SIGN_UP}?invitation=x"))
refuses(Fault.ADDRESS_TAKEN, "address_taken_at_sign_up")(lambda world: sign_up(world, email=world.alice.email))
refuses(Fault.ADDRESS_TAKEN, "address_taken_at_sign_up")(
    lambda world: sign_up(world, first_passkey.SIGN_UP, email=world.alice.email)
)


@refuses(Fault.NOT_INVITED)
def invitation_of_another(world: World) -> None:
    world.settings.SIGN_UP = "invitation"
    path = who_may_sign_up.link("new@example.org").removeprefix("http://testserver")
    pages.sign_up(world.browser, path, email="mallory@example.org")


@refuses(Fault.SAME_ADDRESS, alice=True)
def same_address(world: World) -> None:
    world.sign_in()
    addresses.ask(world.browser, world.alice.email)


@refuses(Fault.ADDRESS_TAKEN, alice=True)
def address_of_another(world: World) -> None:
    world.sign_in()
    addresses.change(world.browser, PersonFactory().email)


@refuses(Fault.ADDRESS_TAKEN, alice=True)
def address_taken_meanwhile(world: World) -> None:
    world.sign_in()
    addresses.ask(world.browser, "new@example.org")
    take = partial(PersonFactory, email="new@example.org")
    world.monkeypatch.setattr("allauth.account.forms.email_already_exists", lambda **_: take())
    pages.type_code(world.browser, pages.mailed_code())


@refuses(Fault.MAIL_CODE_WRONG, alice=True)
def wrong_mail_code(world: World) -> None:
    unconfirmed(world)
    pages.type_code(world.browser, "WRONG")


@refuses(Fault.MAIL_CODE_EXPIRED)
def old_mail_code(world: World) -> None:
    unconfirmed(world)
    with time_machine.travel(time.time() + 1801):
        pages.type_code(world.browser, pages.mailed_code())


@refuses(Fault.MAIL_CODE_EXPIRED, "account_deleted")
def code_of_a_deleted_account(world: World) -> None:
    world.settings.SIGN_UP = "open"
    pages.sign_up(world.browser)
    User.objects.exclude(pk=world.alice.pk).delete()
    pages.type_code(world.browser, pages.mailed_code())


@refuses(Fault.SIGN_IN_TOO_SOON)
def next_sign_in_too_soon(world: World) -> None:
    unconfirmed(world)
    world.again()


# The profile ----------------------------------------------------------------------------------------------------------


@refuses(Fault.ANOTHER_ADDRESS, alice=True)
def deletion_with_another_address(world: World) -> None:
    world.sign_in()
    world.post(DELETE, email="bob@example.org")


@refuses(Fault.LAST_ADMINISTRATOR, alice=True)
def deletion_of_the_last_administrator(world: World) -> None:
    world.change(is_staff=True, is_superuser=True)
    world.sign_in()
    world.post(DELETE, email=world.alice.email)


def send_picture(world: World, content: bytes = b"") -> None:
    world.sign_in()
    world.post(PROFILE, nickname="Ali", picture=upload(content or picture()))


def failing(error: Exception) -> Callable[..., None]:
    def fail(*_args: object, **_options: object) -> None:
        raise error

    return fail


for fault, name, value in (
    (Fault.PICTURE_LOST, "pictures.upload_handler.temporary_file", failing(OSError(28, "full"))),
    (Fault.PICTURE_FAILED, "pictures.reencoder_runner._run", lambda *_: -9),
    (Fault.PICTURE_TOO_MANY_PIXELS, "pictures.reencoder_runner._run", lambda *_: reencoder.TOO_MANY_PIXELS),
    (Fault.PICTURE_TOO_COSTLY, "pictures.reencoder_runner._run", lambda *_: reencoder.TOO_COSTLY),
    (Fault.PICTURES_LIMITED, "throttling.picture_wait", lambda _person: 7),
    (Fault.PICTURE_NOT_STORED, "pictures.current_picture.set_picture", failing(NotStored())),
):

    @refuses(fault, alice=True)
    def picture_refused(world: World, name: str = name, value: Any = value) -> None:
        world.patch(name, value)
        send_picture(world)


@refuses(Fault.PICTURE_TOO_LARGE, alice=True)
def picture_with_too_many_bytes(world: World) -> None:
    world.settings.PICTURE_MAX_BYTES = 1
    send_picture(world)


refuses(Fault.NOT_A_PICTURE, alice=True)(lambda world: send_picture(world, b"no picture"))


@refuses(Fault.PICTURES_BUSY, alice=True)
def other_pictures_are_read(world: World) -> None:
    world.patch("pictures.reencoder_runner.WAIT_SECONDS", 0)
    with open(reencoder.__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        send_picture(world)


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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.cause)
def test_a_refusal_is_one_line(case: Case, world: World, last_log: Log) -> None:
    case.act(world)
    [line] = last_log.of("refused")
    person = str(world.alice.pk) if case.names_alice else None
    assert (line["code"], line["cause"], line.get("person")) == (case.fault.name.lower(), case.cause, person)
    assert "@" not in str(line)


def test_every_fault_has_its_case() -> None:
    assert {case.fault for case in CASES} == set(Fault)


@pytest.mark.parametrize("succeed", [World.sign_in, World.account, World.passkey, unconfirmed, sign_up, send_picture])
def test_a_success_is_no_refusal(succeed: Callable[[World], object], world: World, event_log: Log) -> None:
    succeed(world)
    assert event_log.of("refused") == []
