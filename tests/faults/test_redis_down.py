"""Redis stops or does not answer: requests are answered, the outage is logged, and no answer is a 500. D21.

One server for all tests, which starts while its Redis is away.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from allauth.mfa.models import Authenticator

from tests.contract_coverage import contract
from tests.databases import OwnRedis
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.faults.load import Redemptions
from tests.peers import wait_until
from tests.server import Server, serve

SECOND_FACTORS, PASSWORDS, WORKERS = 3, 4, 2


@pytest.fixture(scope="module")
def redis(shared_redis: OwnRedis) -> OwnRedis:
    shared_redis.kill()
    return shared_redis


@pytest.fixture(scope="module")
def limited(redis: OwnRedis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    rates = {
        "RATE_SECOND_FACTOR": f"{SECOND_FACTORS}/h",
        "RATE_SIGN_IN_ACCOUNT": f"{PASSWORDS}/h",
        "RATE_TOKEN": "100000/h",
        "RATE_USERINFO_FAILURES": "2/h",
    }
    variables = {"RATE_LIMITS": "on", "WEB_CONCURRENCY": str(WORKERS), "REDIS_URL": redis.url}
    with serve(tmp_path_factory.mktemp("limited"), **variables, **rates) as server:
        yield server


@pytest.fixture
def server(committed: None, limited: Server, redis: OwnRedis) -> Iterator[Server]:
    """While Redis is away."""
    yield limited
    redis.kill()


@pytest.fixture
def driver(server: Server) -> OAuthDriver:
    return OAuthDriver(server.base_url, server.auth_url)


def wait_until_limits_are_counted(driver: OAuthDriver) -> None:
    wait_until(lambda: driver.userinfo("bad").status_code == 429)


@contract("D21.away", "D21.redis")
def test_a_server_that_starts_without_its_redis_serves_and_counts_when_redis_comes(
    server: Server, driver: OAuthDriver, redis: OwnRedis
) -> None:
    application = ApplicationFactory()
    assert [driver.userinfo("bad").status_code for _ in range(4)] == [401] * 4
    url = driver.authorization_url(application, state="s")
    code = driver.authorize(url, PersonFactory().email, PASSWORD).parameters["code"]
    token = driver.exchange(application, code).json()["access_token"]
    assert driver.userinfo(token).status_code == 200
    assert driver.exchange(application, "x", client_secret="wrong").status_code == 401
    assert server.logged("Redis is away")
    assert driver.call("GET", "/health/ready").status_code == 200
    assert "Traceback" not in server.log
    redis.start()
    wait_until_limits_are_counted(driver)
    assert driver.userinfo(token).status_code == 200
    assert driver.call("GET", "/health/ready").json()["redis"] == "ok"


def test_guesses_are_limited_while_redis_is_away(server: Server, driver: OAuthDriver) -> None:
    """Those at a second factor as ever, in all workers together, and those at a password by each worker."""
    alice, victim = PersonFactory(), PersonFactory()
    Authenticator.objects.create(user=alice, type="totp", data={"secret": "AAAA"})
    page = driver.sign_in(driver.open("/accounts/sign-in"), alice.email, PASSWORD)
    form = next(each for each in Page(page).forms if "code" in each.fields)
    answers = [driver.submit(form, code=f"{number:06}").status_code for number in range(2 * SECOND_FACTORS)]
    assert answers == [200] * SECOND_FACTORS + [429] * SECOND_FACTORS

    guesser = OAuthDriver(server.base_url, server.auth_url)
    guesses = [
        guesser.sign_in(guesser.open("/accounts/sign-in"), victim.email, "wrong password").status_code
        for _ in range(WORKERS * PASSWORDS + 2)
    ]
    assert set(guesses) == {200, 429}
    assert PASSWORDS <= guesses.count(200) <= WORKERS * PASSWORDS


@contract("D21.away")
@pytest.mark.parametrize("away", ["killed", "silent"])
def test_no_exchange_fails_while_redis_is_away_and_comes_back(
    away: str, server: Server, driver: OAuthDriver, redis: OwnRedis
) -> None:
    redis.start()
    wait_until_limits_are_counted(driver)
    redemptions = Redemptions(server, ApplicationFactory(), 300)

    def fault() -> None:
        go_away, come_back = {"killed": (redis.kill, redis.start), "silent": (redis.pause, redis.go_on)}[away]
        seen = redemptions.done
        go_away()
        redemptions.wait_until(lambda: redemptions.done > seen + 75)
        come_back()

    redemptions.run_during(fault)
    redemptions.check_that_none_failed()
    wait_until_limits_are_counted(driver)
