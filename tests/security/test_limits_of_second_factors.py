"""The limits of second factors in docs/contract.md, tested as attacker and as victim. D21.

The attacker knows the password. As in `test_limits_of_people`, each row of the table has two tests.
"""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import time_machine
from allauth.mfa.models import Authenticator
from django.core import mail
from django.test import Client

from accounts import throttling
from accounts.models import FailedFactor, User
from config.infrastructure import rate_limits
from oauth_bridge.maintenance import purging
from tests.factories import PASSWORD, PersonFactory
from tests.factors import SECOND, Account, Device, add, add_many, code_of, creation, request_options
from tests.pages import browser_of, deliver_all, html_of, is_signed_in
from tests.sending import ANOTHER, HERS, site_address, statuses, try_password

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("one_moment")]

CONFIRM = "/accounts/confirm/code"


def guess(browser: Client, address: str = HERS, code: str = "000000") -> Any:
    return browser.post(SECOND, {"code": code}, REMOTE_ADDR=address)


def known(account: Account) -> Client:
    """A browser in which the owner has signed in and out before."""
    account.browser.post("/accounts/sign-out")
    return account.browser


def test_second_factor_stops_the_attacker(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    answers = [guess(account.browser_before_code(address=HERS)) for _ in range(4)]
    assert statuses(answers) == [200] * 2 + [429] * 2
    assert answers[2]["Retry-After"] == "900"
    assert "Try again in 15 minutes" in html_of(answers[2])
    hers = account.browser_before_code(address=HERS)
    for code in (code_of(account.secret), account.codes[0]):
        assert guess(hers, code=code).status_code == 429
    assert not is_signed_in(hers)


def test_second_factor_lets_the_victim_go_on(settings: Any, account: Account) -> None:
    """In her own browser at the attacker's address, and elsewhere in a new one."""
    settings.RATES = {"second_factor": "2/15m"}
    for _ in range(3):
        guess(account.browser_before_code(address=HERS))
    fresh = account.browser_before_code(address=ANOTHER)
    assert guess(fresh, ANOTHER, account.codes[0]).status_code == 302
    hers = account.browser_before_code(known(account), address=HERS)
    assert guess(hers, HERS, account.codes[1]).status_code == 302


def test_second_factor_everywhere_stops_the_attacker(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "1/15m"}
    addresses = [f"192.0.2.{number}" for number in range(12)]
    answers = [guess(account.browser_before_code(address=address), address) for address in addresses]
    assert statuses(answers) == [200] * 10 + [429] * 2


def test_second_factor_everywhere_lets_the_victim_go_on(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "1/15m"}
    for address in [f"192.0.2.{number}" for number in range(12)]:
        guess(account.browser_before_code(address=address), address)
    assert guess(account.browser_before_code(address=ANOTHER), ANOTHER, account.codes[0]).status_code == 429
    assert (
        guess(account.browser_before_code(known(account), address=ANOTHER), ANOTHER, account.codes[0]).status_code
        == 302
    )


def test_a_site_of_ipv6_counts_as_one_address(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    addresses = [site_address(1, network) for network in range(3)]
    assert statuses([guess(account.browser_before_code(address=each), each) for each in addresses]) == [200, 200, 429]


def test_the_limit_ends_when_its_failures_are_old(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    for _ in range(2):
        guess(account.browser_before_code(address=HERS))
    with time_machine.travel(time.time() + 899.5, tick=False):
        answer = guess(account.browser_before_code(address=HERS), code=account.codes[0])
        assert (answer.status_code, answer["Retry-After"]) == (429, "1")
    with time_machine.travel(time.time() + 900.5, tick=False):
        assert guess(account.browser_before_code(address=HERS), code=account.codes[0]).status_code == 302


def test_passkeys_that_are_not_accepted_count_too(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    answer = (
        '{"id": "AA", "rawId": "AA", "type": "public-key",'
        ' "response": {"clientDataJSON": "eyJvcmlnaW4iOiJodHRwOi8vdGVzdHNlcnZlciJ9"}}'
    )
    sent = [
        account.browser_before_code(address=HERS).post(SECOND, {"credential": answer}, REMOTE_ADDR=HERS),
        guess(account.browser_before_code(address=HERS)),
        account.browser_before_code(address=HERS).post(SECOND, {"credential": answer}, REMOTE_ADDR=HERS),
    ]
    assert statuses(sent) == [200, 200, 429]


def test_codes_of_a_confirmation_count_with_those_of_the_sign_in(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    sent = [account.browser.post(CONFIRM, {"code": "000000"}, REMOTE_ADDR=HERS) for _ in range(3)]
    assert statuses(sent) == [200, 200, 429]
    assert guess(account.browser_before_code(known(account), address=HERS), code=account.codes[0]).status_code == 429
    assert guess(account.browser_before_code(address=HERS), code=account.codes[0]).status_code == 302, (
        "an unknown browser counts apart"
    )


def test_a_right_code_ends_no_limit(settings: Any, account: Account) -> None:
    """Otherwise whoever has a few recovery codes could go on."""
    settings.RATES = {"second_factor": "2/15m"}
    sent = [
        guess(account.browser_before_code(address=HERS), code=code)
        for code in ("000000", account.codes[0], "000000", "000000")
    ]
    assert statuses(sent) == [200, 302, 200, 429]


def test_with_the_limits_off_no_code_is_counted(settings: Any, account: Account) -> None:
    settings.RATES = {}
    assert {guess(account.browser_before_code(address=HERS)).status_code for _ in range(12)} == {200}
    assert not FailedFactor.objects.exists()


def test_failures_are_bounded_and_purged(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    addresses = [f"192.0.2.{number}" for number in range(40)]
    for address in addresses:
        guess(account.browser_before_code(address=address), address)
        guess(account.browser_before_code(address=address), address)
    assert FailedFactor.objects.count() == 20
    with time_machine.travel(time.time() + 901, tick=False):
        guess(account.browser_before_code(address=HERS))
        assert FailedFactor.objects.count() == 1, "the person's old ones are deleted"
    with time_machine.travel(time.time() + 1802, tick=False):
        list(purging.batches(purging.timezone.now()))
    assert not FailedFactor.objects.exists()


def test_no_row_of_a_failure_names_the_address(settings: Any, account: Account) -> None:
    settings.RATES = {"second_factor": "2/15m"}
    guess(account.browser_before_code(address=HERS))
    assert HERS not in str(FailedFactor.objects.values_list())


# Passkeys -------------------------------------------------------------------------------------------------------------

OPTIONS = "/accounts/sign-in/passkey"
BAD = '{"id": "AA", "rawId": "AA", "type": "public-key", "response": {"clientDataJSON": "e30"}}'


def answer_badly(address: str) -> Any:
    return Client().post(OPTIONS, {"credential": BAD}, REMOTE_ADDR=address)


def test_passkey_options_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    asked = [Client().get(OPTIONS, REMOTE_ADDR=HERS).status_code for _ in range(30)]
    answered = [answer_badly(HERS).status_code for _ in range(30)]
    assert (set(asked), set(answered)) == ({200}, {302})
    assert Client().get(OPTIONS, REMOTE_ADDR=HERS).status_code == 429
    assert answer_badly(HERS).status_code == 429


def test_passkey_options_lets_the_victim_go_on(settings: Any, alice: User) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    for _ in range(61):
        answer_badly(HERS)
    assert Client().get(OPTIONS, REMOTE_ADDR=ANOTHER).status_code == 200
    assert try_password(alice.email, PASSWORD, address=HERS).status_code == 302


@pytest.fixture
def owner(alice: User, passkeys_over_http: None) -> Client:
    return browser_of(alice)


def test_new_passkey_stops_the_attacker(settings: Any, owner: Client) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    for _ in range(20):
        assert add_many(owner, 1) == [302]
        Authenticator.objects.filter(type="webauthn").delete()
    answer = add(owner, Device().made(creation(owner)))
    assert answer.status_code == 429
    assert "Try again in" in html_of(answer)
    assert 1 <= int(answer["Retry-After"]) <= 3600


def test_new_passkey_lets_the_victim_go_on(settings: Any, owner: Client, alice: User) -> None:
    """The passkeys that are there go on working, and so do other people's."""
    settings.RATES = {"sign_in_account": "10/15m"}
    device = Device()
    add(owner, device.made(creation(owner)))
    rate_limits.count(*[throttling.Counter("new_passkey", str(alice.pk), rate=settings.NEW_PASSKEYS_PER_PERSON)] * 20)
    assert add_many(owner, 1) == [429]
    browser = Client()
    browser.post(OPTIONS, {"credential": json.dumps(device.signed(request_options(browser)))})
    assert is_signed_in(browser)
    another = browser_of(PersonFactory())
    assert add_many(another, 1) == [302]


# The mail to the owner ------------------------------------------------------------------------------------------------


def mails() -> list[Any]:
    deliver_all()
    return [each for each in mail.outbox if each.subject.startswith("Somebody may know your password")]


def test_from_the_third_failure_of_an_unknown_browser_the_owner_is_told_once_a_day(account: Account) -> None:
    told = []
    for _ in range(4):
        guess(account.browser_before_code(address=HERS))
        told.append(len(mails()))
    assert told == [0, 0, 1, 1]
    letter = mails()[0]
    assert letter.to == [account.person.email]
    assert "/accounts/password/reset" in letter.body
    with time_machine.travel(time.time() + 24 * 3600, tick=False):
        for _ in range(3):
            guess(account.browser_before_code(address=HERS))
        assert len(mails()) == 2


def test_the_mail_is_in_the_language_of_the_owner_and_not_of_the_request(account: Account) -> None:
    User.objects.update(language="en")
    for _ in range(3):
        account.browser_before_code(address=HERS).post(SECOND, {"code": "000000"}, headers={"accept-language": "de"})
    assert len(mails()) == 1


def test_nobody_is_told_of_failures_in_a_known_browser_or_where_a_signed_in_person_confirms(account: Account) -> None:
    for _ in range(4):
        account.browser.post(CONFIRM, {"code": "000000"})
    hers = known(account)
    for _ in range(4):
        guess(account.browser_before_code(hers, address=HERS))
    assert mails() == []
