"""The limits of authorize, token and user info in docs/contract.md, tested as attacker and as victim. D21.

As in `test_limits_of_people`, each row of the table has two tests.
"""

from __future__ import annotations

from secrets import token_hex
from typing import Any
from urllib.parse import urlencode

import pytest
from django.core import mail
from django.test import Client

from accounts.models import User
from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, Registered, TokenFactory
from tests.grants import (
    ANOTHER,
    FORM,
    HERS,
    PAGE,
    VERIFIER,
    ask_for_reset,
    authorize,
    exchange,
    logout,
    site_address,
    statuses,
    try_password,
    userinfo,
)

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.usefixtures("one_moment")]


@pytest.fixture
def public() -> Registered:
    application: Registered = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    return application


@contract("D21.authorize", "8/rate", "D19.page")
def test_authorize_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"authorize": "3/m"}
    assert [authorize(HERS) for _ in range(5)] == [400] * 3 + [429] * 2
    page = Client().get("/oauth/authorize", headers=PAGE, REMOTE_ADDR=HERS)
    assert (page.status_code, 1 <= int(page["Retry-After"]) <= 60) == (429, True)
    assert ("Please wait" in page.text, "can't go on" in page.text) == (True, False)


def test_authorize_lets_the_victim_go_on(settings: Any) -> None:
    settings.RATES = {"authorize": "3/m"}
    assert [authorize(HERS) for _ in range(4)] == [400] * 3 + [429]
    assert authorize(ANOTHER) == 400


@contract("D21.token", "D22.errors", "D22.uncounted", "7/429", "8/rate", "D19/rate_limited")
def test_token_stops_the_attacker(settings: Any, application: Registered) -> None:
    settings.RATES = {"token": "3/m"}
    preflight = {"origin": "https://app.example", "access-control-request-method": "POST"}
    assert {Client().options("/oauth/token", headers=preflight).status_code for _ in range(12)} == {200}
    assert statuses([exchange(application, code="wrong", address=f"192.0.2.{n}") for n in range(3)]) == [400] * 3
    code = CodeFactory(application=application).raw
    answer = exchange(application, code=code)
    assert (answer.status_code, answer.json()["error"]) == (429, "rate_limited")
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert 1 <= int(answer["Retry-After"]) <= 60
    settings.RATES = {}
    assert exchange(application, code=code).status_code == 200, "the code was not spent"


def test_token_lets_the_victim_go_on(settings: Any, application: Registered) -> None:
    settings.RATES = {"token": "3/m"}
    for _ in range(5):
        exchange(ApplicationFactory())
        exchange(application, client_secret="wrong")
    assert statuses([exchange(application) for _ in range(4)]) == [200] * 3 + [429]


@contract("D21.allowance")
def test_token_of_a_public_client_stops_the_attacker(settings: Any, public: Registered) -> None:
    settings.RATES = {"token": "1000/m", "token_failures": "3/m"}
    answers = [exchange(public, address=HERS, code="nonsense") for _ in range(4)]
    answers.append(exchange(public, address=HERS, code_verifier="w" * 43))
    assert statuses(answers) == [400] * 3 + [429] * 2
    assert all(int(answer["Retry-After"]) >= 1 for answer in answers[3:])


@contract("D21.allowance", "D21.token")
def test_token_of_a_public_client_lets_the_victim_go_on(settings: Any, public: Registered) -> None:
    settings.RATES = {"token": "3/m", "token_failures": "3/m"}
    for _ in range(10):
        exchange(public, address=HERS, code="nonsense")
    code = CodeFactory(application=public, code_challenge=challenge_of(VERIFIER)).raw
    assert statuses([exchange(public, address=HERS), exchange(public), exchange(public)]) == [200] * 3
    assert exchange(public, code=code).status_code == 429
    settings.RATES = {}
    assert exchange(public, code=code).status_code == 200, "the code was not spent"


@contract("D21.token-failures", "D19/missing-secret", "8/rate")
def test_token_failures_stops_the_attacker(settings: Any, application: Registered) -> None:
    settings.RATES = {"token_failures": "3/m"}
    answers = [exchange(application, address=HERS, client_secret=each) for each in ("wrong", "", "wrong", "wrong", "")]
    assert statuses(answers) == [401] * 3 + [429] * 2


@contract("D21.token-failures")
def test_token_failures_lets_the_victim_go_on(settings: Any, application: Registered) -> None:
    settings.RATES = {"token_failures": "3/m"}
    for _ in range(5):
        exchange(application, address=HERS, client_secret="wrong")
    assert exchange(application, address=HERS).status_code == 200
    assert exchange(application, address=ANOTHER, client_secret="wrong").status_code == 401
    assert exchange(ApplicationFactory(), address=HERS, client_secret="wrong").status_code == 401


@contract("D21.invented")
def test_token_failures_of_an_address_stops_the_attacker(settings: Any, application: Registered) -> None:
    settings.RATES = {"token_failures": "1/m"}
    answers = [exchange(application, address=HERS, client_id=f"invented{n}") for n in range(12)]
    assert statuses(answers) == [401] * 10 + [429] * 2


@contract("D21.invented")
def test_token_failures_of_an_address_lets_the_victim_go_on(settings: Any, application: Registered) -> None:
    settings.RATES = {"token_failures": "1/m"}
    for number in range(12):
        exchange(application, address=HERS, client_id=f"invented{number}")
    assert exchange(application, address=HERS).status_code == 200
    assert exchange(application, address=ANOTHER, client_secret="wrong").status_code == 401


@contract("D21.userinfo", "8/rate")
def test_userinfo_stops_the_attacker(settings: Any, application: Registered) -> None:
    settings.RATES = {"userinfo": "3/m"}
    assert [userinfo(TokenFactory(application=application).raw) for _ in range(4)] == [200] * 3 + [429]


def test_userinfo_lets_the_victim_go_on(settings: Any, application: Registered) -> None:
    settings.RATES = {"userinfo": "3/m"}
    for _ in range(5):
        userinfo(TokenFactory(application=ApplicationFactory()).raw)
        userinfo("bad")
    assert userinfo(TokenFactory(application=application).raw) == 200


@contract("D21.allowance")
def test_userinfo_of_one_person_stops_the_attacker(settings: Any, public: Registered, alice: User) -> None:
    settings.RATES = {"userinfo": "20/m"}
    answers = [userinfo(TokenFactory(application=public, user=alice).raw) for _ in range(4)]
    assert answers == [200] * 2 + [429] * 2


@contract("D21.allowance")
def test_userinfo_of_one_person_lets_the_victim_go_on(settings: Any, public: Registered, alice: User) -> None:
    settings.RATES = {"userinfo": "20/m"}
    hers = TokenFactory(application=public).raw
    assert [userinfo(hers) for _ in range(22)] == [200] * 2 + [429] * 20
    assert userinfo(TokenFactory(application=public, user=alice).raw) == 200


@contract("D21.userinfo-failures", "8/rate")
def test_userinfo_failures_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"userinfo_failures": "3/m"}
    assert [userinfo(token_hex(32), HERS) for _ in range(5)] == [401] * 3 + [429] * 2


def test_userinfo_failures_lets_the_victim_go_on(settings: Any) -> None:
    settings.RATES = {"userinfo_failures": "3/m"}
    for _ in range(5):
        userinfo("bad", HERS)
    assert userinfo(TokenFactory().raw, HERS) == 200
    assert userinfo("bad", ANOTHER) == 401


def test_logout_stops_the_attacker(settings: Any) -> None:
    settings.RATES = {"logout": "3/m"}
    assert [logout(HERS) for _ in range(5)] == [400] * 3 + [429] * 2
    assert logout(site_address(1, 1)) == 400


def test_logout_lets_the_victim_go_on(settings: Any) -> None:
    settings.RATES = {"authorize": "3/m", "logout": "3/m"}
    for _ in range(5):
        logout(HERS)
    assert logout(ANOTHER) == authorize(HERS) == 400


@contract("D21.site")
@pytest.mark.parametrize("limit", ["authorize", "token_failures", "userinfo_failures", "sign_in_address"])
def test_ipv6_site_stops_the_attacker(settings: Any, application: Registered, limit: str) -> None:
    settings.RATES = {limit: "1/m"}
    send = {
        "authorize": authorize,
        "token_failures": lambda address: exchange(application, client_id=token_hex(8), address=address),
        "userinfo_failures": lambda address: userinfo("bad", address),
        "sign_in_address": lambda address: try_password("nobody@example.com", address=address),
    }[limit]
    allowed = 40 if limit == "token_failures" else 4
    answers = statuses([send(site_address(1, network)) for network in range(allowed + 2)])
    assert 429 not in answers[:allowed]
    assert answers[allowed:] == [429] * 2
    assert statuses([send(site_address(2, 1))]) != [429], "another site goes on"


@contract("D21.site")
def test_ipv6_site_lets_the_victim_go_on(settings: Any) -> None:
    settings.RATES = {"authorize": "2/m", "userinfo_failures": "2/m"}
    for _ in range(20):
        authorize(site_address(2, 1))
        userinfo("bad", site_address(2, 1))
    for neighbour in (site_address(2, 2), site_address(3, 1)):
        assert authorize(neighbour) == 400
        assert userinfo("bad", neighbour) == 401


@contract("D21.off")
def test_off_switches_off_every_one_of_them(settings: Any, application: Registered, public: Registered) -> None:
    settings.RATES = {}
    assert {exchange(public, code="nonsense").status_code for _ in range(25)} == {400}
    assert {exchange(application, client_secret="wrong").status_code for _ in range(25)} == {401}
    assert {userinfo("bad") for _ in range(70)} == {401}
    assert {authorize(HERS) for _ in range(125)} == {400}
    assert {ask_for_reset("nobody@example.com").status_code for _ in range(25)} == {302}
    assert len(mail.outbox) == 25


@contract("I8.rate")
def test_revocation_and_introspection_count_as_user_info_each_by_itself(settings: Any, application: Registered) -> None:
    settings.RATES = {"userinfo": "2/m", "revoke": "2/m", "introspect": "2/m"}
    for operation in ("revoke", "introspect"):
        assert [state_of_token(operation, application) for _ in range(3)] == [200, 200, 429]
    assert userinfo(TokenFactory(application=application).raw) == 200
    assert state_of_token("introspect", ApplicationFactory()) == 200


def state_of_token(operation: str, application: Registered) -> int:
    form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": "x"}
    return Client().post(f"/oauth/{operation}", urlencode(form), content_type=FORM).status_code
