"""The limits of second factors in docs/contract.md, tested as attacker and as victim. D21.

The attacker knows the password. As in `test_limits_of_people`, each row of the table has two tests.
"""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail
from django.test import Client
from django.utils import timezone

from accounts.models import FailedFactor, User
from oauth_bridge.management import purging
from tests.factories import PASSWORD, PersonFactory
from tests.grants import ANOTHER, HERS, site_address, statuses, try_password
from tests.pages import (
    PASSKEY,
    SECOND,
    Account,
    Device,
    add,
    add_many,
    browser_of,
    code_of,
    creation,
    deliver_all,
    html_of,
    is_signed_in,
    request_options,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]

CONFIRM = "/accounts/confirm/code"


def guess(browser: Client, address: str = HERS, code: str = "000000") -> Any:
    return browser.post(SECOND, {"code": code}, REMOTE_ADDR=address)


def known(account: Account) -> Client:
    """A browser in which the owner has signed in and out before."""
    account.browser.post("/accounts/sign-out")
    return account.browser


@pytest.fixture(autouse=True)
def two_failures(settings: Any) -> None:
    settings.RATES = {"second_factor": "2/15m"}


@pytest.mark.integration
def test_second_factor_stops_the_attacker(account: Account) -> None:
    answers = [guess(account.browser_before_code(address=HERS)) for _ in range(4)]
    assert statuses(answers) == [200] * 2 + [429] * 2
    assert answers[2]["Retry-After"] == "900"
    assert "Try again in 15 minutes" in html_of(answers[2])
    hers = account.browser_before_code(address=HERS)
    for code in (code_of(account.secret), account.codes[0]):
        assert guess(hers, code=code).status_code == 429
    assert not is_signed_in(hers)


def test_second_factor_lets_the_victim_go_on(account: Account) -> None:
    for _ in range(3):
        guess(account.browser_before_code(address=HERS))
    fresh = account.browser_before_code(address=ANOTHER)
    assert guess(fresh, ANOTHER, account.codes[0]).status_code == 302
    hers = account.browser_before_code(known(account), address=HERS)
    assert guess(hers, HERS, account.codes[1]).status_code == 302


def guess_everywhere(account: Account) -> list[int]:
    addresses = [f"192.0.2.{number}" for number in range(12)]
    return statuses([guess(account.browser_before_code(address=address), address) for address in addresses])


@pytest.mark.integration
def test_second_factor_everywhere_stops_the_attacker(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "1/15m"}
    site = [site_address(1, network) for network in range(2)]
    assert statuses([guess(account.browser_before_code(address=each), each) for each in site]) == [200, 429]
    assert guess_everywhere(account) == [200] * 9 + [429] * 3


def test_second_factor_everywhere_lets_the_victim_go_on(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "1/15m"}
    guess_everywhere(account)
    assert guess(account.browser_before_code(address=ANOTHER), ANOTHER, account.codes[0]).status_code == 429
    hers = account.browser_before_code(known(account), address=ANOTHER)
    assert guess(hers, ANOTHER, account.codes[0]).status_code == 302


def test_the_limit_ends_when_its_failures_are_old(account: Account) -> None:
    for _ in range(2):
        guess(account.browser_before_code(address=HERS))
    with time_machine.travel(time.time() + 899.5, tick=False):
        answer = guess(account.browser_before_code(address=HERS), code=account.codes[0])
        assert (answer.status_code, answer["Retry-After"]) == (429, "1")
    with time_machine.travel(time.time() + 900.5, tick=False):
        assert guess(account.browser_before_code(address=HERS), code=account.codes[0]).status_code == 302


def test_passkeys_that_are_not_accepted_count_too(account: Account) -> None:
    origin = base64.b64encode(b'{"origin":"http://testserver"}').decode()
    passkey = {"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": origin}}
    sent = [
        account.browser_before_code(address=HERS).post(SECOND, form, REMOTE_ADDR=HERS)
        for form in ({"credential": json.dumps(passkey)}, {"code": "000000"}, {"credential": json.dumps(passkey)})
    ]
    assert statuses(sent) == [200, 200, 429]


def test_codes_of_a_confirmation_count_with_those_of_the_sign_in(account: Account) -> None:
    sent = [account.browser.post(CONFIRM, {"code": "000000"}, REMOTE_ADDR=HERS) for _ in range(3)]
    assert statuses(sent) == [200, 200, 429]
    assert guess(account.browser_before_code(known(account), address=HERS), code=account.codes[0]).status_code == 429
    assert guess(account.browser_before_code(address=HERS), code=account.codes[0]).status_code == 302, (
        "an unknown browser counts apart"
    )


def test_a_right_code_ends_no_limit(account: Account) -> None:
    """Otherwise whoever has a few recovery codes could go on."""
    sent = [
        guess(account.browser_before_code(address=HERS), code=code)
        for code in ("000000", account.codes[0], "000000", "000000")
    ]
    assert statuses(sent) == [200, 302, 200, 429]


def test_failures_are_bounded_and_purged_and_name_no_address(account: Account) -> None:
    for address in [f"192.0.2.{number}" for number in range(1, 13)] * 2:
        guess(account.browser_before_code(address=address), address)
    assert FailedFactor.objects.count() == 20
    assert HERS not in str(FailedFactor.objects.values_list())
    with time_machine.travel(time.time() + 901, tick=False):
        guess(account.browser_before_code(address=HERS))
        assert FailedFactor.objects.count() == 1, "the person's old ones are deleted"
    with time_machine.travel(time.time() + 1802, tick=False):
        list(purging.batches(timezone.now()))
    assert not FailedFactor.objects.exists()


BAD = '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "e30"}}'


def ask_for_options(address: str) -> Any:
    return Client().get(PASSKEY, REMOTE_ADDR=address)


def answer_badly(address: str) -> Any:
    return Client().post(PASSKEY, {"credential": BAD}, REMOTE_ADDR=address)


def test_passkey_options_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"passkey_options": "4/m"}
    assert statuses([ask_for_options(HERS), ask_for_options(HERS)]) == [200] * 2
    assert statuses([answer_badly(HERS), answer_badly(HERS)]) == [302] * 2
    assert statuses([ask_for_options(HERS), answer_badly(HERS)]) == [429] * 2


def test_passkey_options_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"passkey_options": "4/m"}
    assert statuses([answer_badly(HERS) for _ in range(5)]) == [302] * 4 + [429]
    assert ask_for_options(ANOTHER).status_code == 200
    assert try_password(alice.email, PASSWORD, address=HERS).status_code == 302


@pytest.mark.usefixtures("passkeys_over_http")
def test_new_passkey_stops_the_attacker(settings: Any, browser: Client) -> None:
    settings.RATES = {"new_passkey": "2/h"}
    for _ in range(2):
        assert add_many(browser, 1) == [302]
        Authenticator.objects.filter(type="webauthn").delete()
    answer = add(browser, Device().made(creation(browser)))
    assert answer.status_code == 429
    assert "Try again in" in html_of(answer)
    assert 1 <= int(answer["Retry-After"]) <= 3600


@pytest.mark.usefixtures("passkeys_over_http")
def test_new_passkey_lets_the_victim_go_on(settings: Any, browser: Client) -> None:
    settings.RATES = {"new_passkey": "1/h"}
    device = Device()
    add(browser, device.made(creation(browser)))
    assert add_many(browser, 1) == [429]
    fresh = Client()
    fresh.post(PASSKEY, {"credential": json.dumps(device.signed(request_options(fresh)))})
    assert is_signed_in(fresh)
    another = browser_of(PersonFactory())
    assert add_many(another, 1) == [302]


def mails() -> list[Any]:
    deliver_all()
    return [each for each in mail.outbox if each.subject.startswith("Somebody may know your password")]


def test_from_the_third_failure_in_a_new_browser_the_owner_is_told_once_a_day(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "10/15m"}
    User.objects.update(language="en")
    told = []
    for _ in range(4):
        account.browser_before_code(address=HERS).post(SECOND, {"code": "000000"}, headers={"accept-language": "de"})
        told.append(len(mails()))
    assert told == [0, 0, 1, 1]
    letter = mails()[0]  # which is in the language of the owner and not of the request
    assert letter.to == [account.person.email]
    assert "/accounts/password/reset" in letter.body
    with time_machine.travel(time.time() + 24 * 3600, tick=False):
        for _ in range(3):
            guess(account.browser_before_code(address=HERS))
        assert len(mails()) == 2


def test_nobody_is_told_of_failures_in_a_known_browser_or_at_a_confirmation(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "10/15m"}
    for _ in range(3):
        account.browser.post(CONFIRM, {"code": "000000"})
    hers = known(account)
    for _ in range(3):
        guess(account.browser_before_code(hers, address=HERS))
    assert mails() == []
