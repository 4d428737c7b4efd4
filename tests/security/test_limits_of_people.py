"""The limits of sign-in, reset and codes by mail in docs/contract.md, tested as attacker and as victim. D21.

`tests.project.test_documents` requires two tests of each row: `test_<row>_stops_the_attacker` and
`test_<row>_lets_the_victim_go_on`. The row states what the victim can still do.
"""

from __future__ import annotations

import fcntl
import io
import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone
from PIL import Image

from accounts import decoder, pictures, throttling
from accounts.models import User
from config.infrastructure import limits
from config.infrastructure.limits import Counter
from tests.factories import PASSWORD, PersonFactory
from tests.matrix import contract
from tests.security.sending import (
    ANOTHER,
    HERS,
    ask_for_reset,
    choose_password_by_mail,
    known_browser,
    sign_in,
    site_address,
    statuses,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]


# Sign-in --------------------------------------------------------------------------------------------------------------


@contract("D21.sign-in-account")
def test_sign_in_account_stops_the_attacker(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    assert statuses([sign_in(alice.email, address=HERS) for _ in range(4)]) == [200] * 2 + [429] * 2
    assert sign_in(alice.email, PASSWORD, address=HERS).status_code == 429


@contract("D21.sign-in-account", "D21.known")
def test_sign_in_account_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    """In a new browser, and during the attack in a browser where she signed in before."""
    settings.RATES = {"sign_in_account": "2/15m"}
    known = known_browser(alice)
    for _ in range(4):
        sign_in(alice.email, address=HERS)
    assert sign_in(alice.email, PASSWORD, address=ANOTHER).status_code == 302
    assert sign_in(alice.email, PASSWORD, address=HERS, browser=known).status_code == 302


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_password_is_guessed_no_more_often_at_sign_up(settings: Any, is_confirmed: bool) -> None:
    """Nor is it visible there whether the address of an account is confirmed."""
    settings.RATES, settings.SIGN_UP = {"sign_in_account": "2/15m"}, "open"
    bob = PersonFactory(email_verified_at=timezone.now() if is_confirmed else None)
    for each, password in enumerate(["a guessed phrase", "another guessed phrase", PASSWORD]):
        form = {"email": bob.email, "nickname": "Mallory", "password1": password}
        with time_machine.travel(time.time() + 11 * each, tick=False):
            answer = Client().post("/accounts/sign-up", form, REMOTE_ADDR=HERS)
        assert (answer.status_code, answer["Location"]) == (302, "/accounts/confirm-email")
    assert {each.subject[:16] for each in mail.outbox} == {"You already have"}
    assert sign_in(bob.email, PASSWORD, address=HERS).status_code == 429


@contract("D21.rotating")
def test_sign_in_account_everywhere_stops_the_attacker(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    answers = [sign_in(alice.email, address=f"192.0.2.{number}") for number in range(12)]
    assert statuses(answers) == [200] * 10 + [429] * 2


@contract("D21.rotating", "D21.known")
def test_sign_in_account_everywhere_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    known = known_browser(alice)
    for number in range(11):
        sign_in(alice.email, address=f"192.0.2.{number}")
    assert sign_in(alice.email, PASSWORD, browser=known).status_code == 302
    fresh = Client()
    told = sign_in(alice.email, PASSWORD, browser=fresh)
    assert told.status_code == 429
    assert "choose a new password with the link below" in told.content.decode()
    choose_password_by_mail(alice, fresh)


def test_one_machine_with_an_ipv6_site_locks_no_account(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    for network in range(12):
        sign_in(alice.email, address=site_address(4, network))
    assert sign_in(alice.email, PASSWORD).status_code == 302


def test_sign_in_address_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_address": "2/15m"}
    answers = [sign_in(f"person{number}@example.com", address=HERS) for number in range(4)]
    assert statuses(answers) == [200] * 2 + [429] * 2


@contract("D21.known")
def test_sign_in_address_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_address": "2/15m"}
    known = known_browser(alice)
    for number in range(3):
        sign_in(f"person{number}@example.com", address=HERS)
    assert sign_in(alice.email, PASSWORD, address=ANOTHER).status_code == 302
    assert sign_in(alice.email, PASSWORD, address=HERS, browser=known).status_code == 302
    choose_password_by_mail(alice, Client(), HERS)


def flood(failures: int = 1200) -> None:
    """Count so many failed sign-ins in this minute, from all addresses together."""
    for _ in range(failures):
        limits.count(Counter("sign_in", "all", rate=throttling.ALL_FAILURES))


@contract("D21.all-sign-ins")
def test_sign_in_of_all_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m", "sign_in_address": "50/15m"}
    flood(1199)
    answers = [sign_in(f"person{number}@example.com", address=f"192.0.2.{number}") for number in range(3)]
    assert statuses(answers) == [200] + [429] * 2
    assert 1 <= int(answers[1]["Retry-After"]) <= 60


@contract("D21.all-sign-ins", "D21.known")
def test_sign_in_of_all_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    """A known browser is not limited; a new one keeps her input, and a reset by mail signs her in."""
    settings.RATES = {"sign_in_account": "10/15m", "sign_in_address": "50/15m"}
    known = known_browser(alice)
    flood()
    assert sign_in(alice.email, PASSWORD, browser=known).status_code == 302
    fresh = Client()
    told = sign_in(alice.email, PASSWORD, browser=fresh)
    assert told.status_code == 429
    assert f'value="{alice.email}"' in told.content.decode()
    choose_password_by_mail(alice, fresh)


def test_one_machine_never_reaches_the_limit_of_all(settings: Any) -> None:
    """From one IPv4 address and one IPv6 site, in a minute in which all their windows start."""
    assert (settings.RATES["sign_in_address"], throttling.ALL_FAILURES) == ("50/15m", "1200/m")
    widest = [limits.by_address("sign_in_address", address)[-1] for address in ("192.0.2.1", "2001:db8::/64")]
    assert sum(2 * 50 * counter.times for counter in widest) < 1200


# Reset ----------------------------------------------------------------------------------------------------------------


def test_reset_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    answers = [ask_for_reset(f"person{number}@example.com", address=HERS) for number in range(22)]
    assert statuses(answers) == [302] * 20 + [429] * 2
    assert 1 <= int(answers[21]["Retry-After"]) <= 60
    rotating = [ask_for_reset(f"person{n}@example.com", address=site_address(5, n)) for n in range(82)]
    assert statuses(rotating) == [302] * 80 + [429] * 2


def test_reset_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    for number in range(22):
        ask_for_reset(f"person{number}@example.com", address=HERS)
    choose_password_by_mail(alice, Client(), ANOTHER)


def test_reset_mail_stops_the_attacker(settings: Any, alice: User) -> None:
    """From one address she sends five mails, from any number of them fifteen."""
    settings.RATES = {"sign_in_account": "10/15m"}
    for _ in range(8):
        ask_for_reset(alice.email, address=HERS)
    assert len(mail.outbox) == 5
    for number in range(20):
        ask_for_reset(alice.email, address=f"203.0.113.{number}")
    assert len(mail.outbox) == 15


@contract("D21.known")
def test_reset_mail_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    """She gets a mail in a known browser in any case; in a new one she gets a mail or an earlier link works."""
    settings.RATES = {"sign_in_account": "10/15m"}
    known = known_browser(alice)
    for _ in range(8):
        ask_for_reset(alice.email, address=HERS)
    ask_for_reset(alice.email, address=ANOTHER)
    assert len(mail.outbox) == 6
    for number in range(20):
        ask_for_reset(alice.email, address=f"203.0.113.{number}")
    ask_for_reset(alice.email, browser=known)
    assert len(mail.outbox) == 16
    mail.outbox[15:] = []
    choose_password_by_mail(alice, Client(), HERS)


# Limits of allauth ----------------------------------------------------------------------------------------------------


@pytest.fixture
def library_limits(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}


def test_new_password_stops_the_attacker(library_limits: None) -> None:
    path = "/accounts/password/reset/1-set-password"
    answers = [Client().post(path, {"password1": "x"}, REMOTE_ADDR=HERS) for _ in range(22)]
    assert statuses(answers) == [200] * 20 + [429] * 2
    assert int(answers[21]["Retry-After"]) >= 1


def test_new_password_lets_the_victim_go_on(library_limits: None, alice: User) -> None:
    for _ in range(22):
        Client().post("/accounts/password/reset/1-set-password", {"password1": "x"}, REMOTE_ADDR=HERS)
    choose_password_by_mail(alice, Client(), ANOTHER)


def test_code_by_mail_stops_the_attacker(library_limits: None) -> None:
    """She knows the password and not the mailbox: three attempts for a code, and a code every ten seconds."""
    bob = PersonFactory(email_verified_at=None)
    hers = Client()
    assert sign_in(bob.email, PASSWORD, browser=hers)["Location"] == "/accounts/confirm-email"
    attempts = [hers.post("/accounts/confirm-email", {"code": "WRONG1"}) for _ in range(4)]
    assert statuses(attempts) == [200, 200, 302, 302]
    assert attempts[3]["Location"] == "/accounts/sign-in"
    assert sign_in(bob.email, PASSWORD, browser=hers).get("Location") != "/accounts/confirm-email"
    assert len(mail.outbox) == 1


def test_code_by_mail_lets_the_victim_go_on(library_limits: None) -> None:
    """Failures count for the attacker's session only; without the password no code is sent at all."""
    bob = PersonFactory(email_verified_at=None)
    for _ in range(5):
        sign_in(bob.email, address=HERS)
    assert not mail.outbox
    his = Client()
    assert sign_in(bob.email, PASSWORD, browser=his)["Location"] == "/accounts/confirm-email"
    code = next(line.strip() for line in mail.outbox[0].body.splitlines() if line.startswith("    "))
    assert his.post("/accounts/confirm-email", {"code": code})["Location"] == "/accounts/profile"


# A new address --------------------------------------------------------------------------------------------------------


def ask_for_codes(person: User, number: int) -> list[Any]:
    browser = Client()
    sign_in(person.email, PASSWORD, browser=browser)
    return [browser.post("/accounts/email", {"email": f"{each}-{person.email}"}) for each in range(number)]


def test_new_address_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    assert statuses(ask_for_codes(PersonFactory(), 7)) == [302] * 5 + [429] * 2
    assert len(mail.outbox) == 5


def test_new_address_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    ask_for_codes(PersonFactory(), 7)
    assert statuses(ask_for_codes(alice, 1)) == [302]


# Pictures -------------------------------------------------------------------------------------------------------------


def small_picture() -> bytes:
    output = io.BytesIO()
    Image.new("RGB", (4, 4)).save(output, "PNG")
    return output.getvalue()


def upload(browser: Client, content: bytes) -> Any:
    return browser.post("/accounts/profile", {"nickname": "N", "picture": SimpleUploadedFile("me.png", content)})


@pytest.fixture
def three_pictures(settings: Any, monkeypatch: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    monkeypatch.setattr(throttling, "PICTURES", "3/h")


@pytest.mark.usefixtures("three_pictures")
def test_picture_stops_the_attacker(client: Client) -> None:
    """Also pictures that can't be decoded count: the attempt takes the time of others."""
    mallory = PersonFactory()
    client.force_login(mallory)
    answers = [upload(client, b"not a picture") for _ in range(5)]
    assert statuses(answers) == [200] * 3 + [429] * 2
    assert 1 <= int(answers[4]["Retry-After"]) <= 3600
    assert "You have tried many pictures in a short time." in answers[4].content.decode()


@pytest.mark.usefixtures("three_pictures")
def test_picture_lets_the_victim_go_on(client: Client, alice: User, monkeypatch: Any) -> None:
    """Another person, and the same one without a picture. What was not decoded does not count."""
    mallory = PersonFactory()
    client.force_login(mallory)
    for _ in range(4):
        upload(client, b"not a picture")
    assert client.post("/accounts/profile", {"nickname": "New"}).status_code == 302
    client.force_login(alice)
    with monkeypatch.context() as patched, open(decoder.__file__, "rb") as other_worker:
        patched.setattr(pictures, "WAIT_SECONDS", 0)
        fcntl.flock(other_worker, fcntl.LOCK_EX)
        assert statuses([upload(client, small_picture()) for _ in range(4)]) == [503] * 4
    assert statuses([upload(client, small_picture()) for _ in range(4)]) == [302] * 3 + [429]
    assert User.objects.get(pk=alice.pk).avatar


NEW_ACCOUNT = {"nickname": "Mallory", "password1": "a long enough phrase"}


def sign_up(email: str, number: int) -> list[Any]:
    """The answers of so many sign-ups, each from another address and 11 seconds after the one before."""
    answers = []
    for each in range(number):
        with time_machine.travel(time.time() + 11 * each, tick=False):
            answers.append(
                Client().post("/accounts/sign-up", NEW_ACCOUNT | {"email": email}, REMOTE_ADDR=f"192.0.2.{each}")
            )
    return answers


@pytest.fixture
def hour(settings: Any, monkeypatch: Any) -> Any:
    """Two minutes that lie in one hour, while anybody may sign up. Every limit's hour begins with that of the clock."""
    settings.RATES, settings.SIGN_UP = {"sign_in_account": "10/15m"}, "open"
    monkeypatch.setattr("django_ratelimit.core.zlib", SimpleNamespace(crc32=lambda _key: 0))
    with time_machine.travel(datetime(2026, 1, 1, 12, 0, 30, tzinfo=UTC), tick=False):
        yield


@pytest.mark.usefixtures("hour")
def test_taken_mail_stops_the_attacker(alice: User) -> None:
    answers = sign_up(alice.email, 8)
    assert statuses(answers) == [302] * 8
    assert len({each["Location"] for each in answers}) == 1
    assert len(mail.outbox) == 5


@pytest.mark.usefixtures("hour")
def test_taken_mail_lets_the_victim_go_on(alice: User) -> None:
    sign_up(alice.email, 8)
    assert sign_in(alice.email, PASSWORD).status_code == 302
    choose_password_by_mail(alice, Client())


@pytest.mark.usefixtures("hour")
def test_code_mail_stops_the_attacker() -> None:
    """Mallory signs up with the address of somebody else, and then signs in again and again."""
    victim = "victim@example.org"
    sign_up(victim, 1)
    for each in range(1, 13):
        with time_machine.travel(time.time() + 11 * each, tick=False):
            answer = sign_in(victim, NEW_ACCOUNT["password1"])
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 3600
    assert len(mail.outbox) == 10


@pytest.mark.usefixtures("hour")
def test_code_mail_lets_the_victim_go_on() -> None:
    """The owner takes the account over by a reset link, and codes to a new address are counted apart."""
    victim = "victim@example.org"
    sign_up(victim, 1)
    for each in range(1, 13):
        with time_machine.travel(time.time() + 11 * each, tick=False):
            sign_in(victim, NEW_ACCOUNT["password1"])
    choose_password_by_mail(User.objects.get(email=victim), Client())
    browser = Client()
    sign_in(PersonFactory().email, PASSWORD, browser=browser)
    with time_machine.travel(time.time() + 300):
        assert browser.post("/accounts/email", {"email": "another@example.org"}).status_code == 302
