"""Workers count in Redis: together, never more than a limit admits, and not at all while Redis is away. D21, L9."""

from __future__ import annotations

import os
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from allauth.mfa.models import Authenticator
from redis import Redis

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import OwnRedis
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import Caller, Redemptions, Unanswered, codes_for
from tests.peers import wait_until
from tests.server import Server, serve

# Large limits are counted in blocks of 1 % ----------------------------------------------------------------------------

WORKERS, THREADS = 2, 10
LIMIT, BLOCK = 600, 6  # of a smaller limit, each event is counted in Redis
SPENT = 480
LIMIT_SECONDS = 40  # for the requests of one test, on a busy machine


def application_within_a_window() -> Registered:
    """Its window, which django-ratelimit places by a checksum of its key, does not end during the test."""
    while True:
        application: Registered = ApplicationFactory()
        if (zlib.crc32(str(application.row.pk).encode()) - int(time.time())) % 60 > LIMIT_SECONDS:
            return application


def launch_limited(launch: Launch, redis: OwnRedis, name: str) -> Server:
    rates = {"RATE_LIMITS": "on", f"RATE_{name}": f"{LIMIT}/m"}
    return launch(WEB_CONCURRENCY=str(WORKERS), REDIS_URL=redis.url, **rates)


def spend_most(redis: OwnRedis) -> Callable[[], int]:
    """Count SPENT events of others. Returns a function that tells how often a worker has counted since."""
    with Redis(port=redis.port) as client:
        [key] = [key for key in client.scan_iter() if client.get(key) == str(BLOCK).encode()]
        client.incrby(key, SPENT)

    def commands() -> int:
        with Redis(port=redis.port) as client:
            return int(client.info("commandstats")["cmdstat_incrby"]["calls"])

    before = commands()
    return lambda: commands() - before


def at_once(call: Callable[[str], int], values: list[str]) -> list[int]:
    """The statuses of ten callers; 0 for no answer."""

    def status_of(value: str) -> int:
        try:
            return call(value)
        except Unanswered:
            return 0

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(status_of, values))


@contract("D21.userinfo", "D21.redis", "D21.blocks")
def test_a_worker_that_is_killed_loses_less_than_a_block(launch: Launch, redis_server: OwnRedis) -> None:
    """And no event more than the limit is admitted. Each call has a connection of its own."""
    server = launch_limited(launch, redis_server, "USERINFO")
    token = TokenFactory(application=application_within_a_window().row).raw

    def read(requests: int) -> Counter[int]:
        return Counter(at_once(lambda token: Caller(server, keeps=False).userinfo(token).status, [token] * requests))

    seen = read(1)
    counted = spend_most(redis_server)
    seen += read(40)
    assert seen == {200: 41}
    assert counted() < 40
    os.kill(min(server.workers()), signal.SIGKILL)
    seen += read(160)
    left = LIMIT - SPENT
    # The killed worker, and each of the two that are left at the end, may have an unused rest of a block.
    assert left - (WORKERS + 1) * (BLOCK - 1) - seen[0] <= seen[200] <= left
    assert seen[429] > 0


@contract("D21.token", "D21.blocks")
def test_the_code_of_an_exchange_beyond_the_limit_is_not_spent(launch: Launch, redis_server: OwnRedis) -> None:
    server, application = launch_limited(launch, redis_server, "TOKEN"), application_within_a_window()

    def exchange(code: str) -> int:
        return Caller(server, keeps=False).exchange(application, code).status

    first, *codes = codes_for(application, 161)
    assert exchange(first) == 200
    counted = spend_most(redis_server)
    answers = dict(zip(codes, at_once(exchange, codes), strict=True))
    left = LIMIT - SPENT - 1
    assert left - WORKERS * (BLOCK - 1) <= list(answers.values()).count(200) <= left
    assert counted() < len(codes)
    refused = next(code for code, status in answers.items() if status == 429)
    limited = Caller(server).exchange(application, refused)
    assert limited.status == 429
    assert 1 <= int(limited.headers["Retry-After"]) <= 60
    with Redis(port=redis_server.port) as client:
        client.flushall()
    answers_again = [exchange(refused) for _ in range(WORKERS * BLOCK)]
    assert answers_again.count(200) == 1


# Redis stops or does not answer: one server for all tests, which starts while its Redis is away -----------------------

SECOND_FACTORS, PASSWORDS = 3, 4


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
        go_away()
        redemptions.go_on(75)
        come_back()

    redemptions.run_during(fault)
    redemptions.check_that_none_failed()
    wait_until_limits_are_counted(driver)
