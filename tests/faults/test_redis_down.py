"""Redis stops or does not answer: requests are answered, the outage is logged, and no answer is a 500. D21."""

from __future__ import annotations

import time
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from redis import Redis

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import (
    PASSWORD,
    ApplicationFactory,
    CodeFactory,
    PersonFactory,
    Registered,
    TokenFactory,
)
from tests.load import Redemptions, statuses
from tests.own_redis import OwnRedis


@contract("D21.away")
def test_a_sign_in_goes_on_when_redis_is_killed_in_the_middle(
    launch: Launch, redis_server: Any, application: Registered, alice: Any
) -> None:
    server = launch(RATE_LIMITS="on", REDIS_URL=redis_server.url)
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.open(driver.authorization_url(application, state="s"))
    assert Page(page).sign_in
    redis_server.kill()

    started = time.monotonic()
    consent_page = driver.sign_in(page, alice.email, PASSWORD)
    code = driver.callback(driver.decide(consent_page)).parameters["code"]
    token = driver.exchange(application, code).json()["access_token"]
    assert driver.userinfo(token).status_code == 200
    assert time.monotonic() - started < 10
    assert driver.userinfo("bad").status_code == 401
    assert driver.exchange(application, "x", client_secret="wrong").status_code == 401
    assert server.logged("Redis")
    assert driver.call("GET", "/health/ready").status_code == 200
    assert "Traceback" not in server.log


def test_guesses_are_limited_while_redis_is_away(launch: Launch, redis_server: OwnRedis, alice: Any) -> None:
    """Those at a second factor as ever, in all workers together, and those at a password by each worker."""
    rates = {"RATE_SECOND_FACTOR": "3/h", "RATE_SIGN_IN_ACCOUNT": "4/h"}
    server = launch(RATE_LIMITS="on", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url, **rates)
    Authenticator.objects.create(user=alice, type="totp", data={"secret": "AAAA"})
    driver = OAuthDriver(server.base_url, server.auth_url)
    page = driver.sign_in(driver.open("/accounts/sign-in"), alice.email, PASSWORD)
    redis_server.kill()
    form = next(each for each in Page(page).forms if "code" in each.fields)
    assert [driver.submit(form, code=f"{number:06}").status_code for number in range(6)] == [200] * 3 + [429] * 3

    guesser, victim = OAuthDriver(server.base_url, server.auth_url), PersonFactory()
    guesses = [
        guesser.sign_in(guesser.open("/accounts/sign-in"), victim.email, "wrong password").status_code
        for _ in range(20)
    ]
    assert set(guesses) == {200, 429}
    assert 4 <= guesses.count(200) <= 8
    assert server.logged("Redis is away")


@contract("D21.away", "D21.redis")
def test_a_server_that_starts_without_its_redis_serves_and_counts_when_redis_comes(
    launch: Launch, redis_server: Any, application: Registered
) -> None:
    redis_server.kill()
    server = launch(RATE_LIMITS="on", RATE_USERINFO_FAILURES="2/h", REDIS_URL=redis_server.url)
    driver = OAuthDriver(server.base_url, server.auth_url)
    assert [driver.userinfo("bad").status_code for _ in range(4)] == [401] * 4
    assert driver.exchange(application, CodeFactory(application=application).raw).status_code == 200

    redis_server.start()
    deadline = time.monotonic() + 60
    while driver.userinfo("bad").status_code != 429:
        assert time.monotonic() < deadline, "limits are not counted again"
        time.sleep(0.2)
    assert driver.userinfo(TokenFactory().raw).status_code == 200


@contract("D21.away")
@pytest.mark.parametrize("away", ["killed", "silent"])
def test_no_exchange_fails_while_redis_is_away_and_comes_back(
    away: str, launch: Launch, redis_server: OwnRedis
) -> None:
    server = launch(RATE_LIMITS="on", RATE_TOKEN="100000/h", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), 600)

    def fault() -> None:
        go_away, come_back = {
            "killed": (redis_server.kill, redis_server.start),
            "silent": (redis_server.pause, redis_server.go_on),
        }[away]
        seen = redemptions.done
        go_away()
        redemptions.wait_until(lambda: redemptions.done > seen + 150)
        come_back()
        counters.flushall()

    with Redis(port=redis_server.port) as counters:
        redemptions.run_during(fault)
        assert redemptions.trouble == {}
        assert redemptions.refused == 0
        redemptions.check_books()
        assert server.logged("Redis is away")
        counters.flushall()
        redemptions.wait_until(lambda: statuses(server, ["bad"]) == {401: 1} and bool(counters.keys("*:rl:*")))
