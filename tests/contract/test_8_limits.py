"""Specification 8 and D21: rate limits. Each test uses its own addresses."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import requests

from tests.contract.test_4_3_other_origins import allows_every_origin, preflight
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered
from tests.server import Server, serve

# With REDIS_URL the counters are there.
pytestmark = pytest.mark.integration

# Long, so that hardly ever a window ends in the middle of a test.
WINDOW_SECONDS = 30 * 24 * 3600
RATES = {
    "RATE_TOKEN": "3/30d",
    "RATE_USERINFO_FAILURES": "3/30d",
}


@pytest.fixture(scope="module")
def limited(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with low limits that takes the address of a request from a proxy's header."""
    with serve(tmp_path_factory.mktemp("limited"), RATE_LIMITS="on", TRUSTED_PROXIES="127.0.0.1", **RATES) as server:
        yield server


@pytest.fixture
def client(limited: Server, committed: None) -> OAuthDriver:
    driver = OAuthDriver(limited.base_url, limited.auth_url)
    moved(driver, address())
    return driver


def moved(driver: OAuthDriver, forwarded: str) -> None:
    """Send the driver's further requests from this address."""
    for session in (driver.browser, driver.backend):
        session.headers["X-Forwarded-For"] = forwarded


def address() -> str:
    return f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(1, 255)}"


def registered() -> Registered:
    """A random key: a Redis that is used for several runs would still count for the keys 1, 2, 3."""
    return ApplicationFactory(id=random.randrange(10**6, 2 * 10**9))


def too_many(response: requests.Response) -> None:
    error_of(response, 429, "rate_limited")
    assert 1 <= int(response.headers["Retry-After"]) <= WINDOW_SECONDS


@contract("D21.token", "D22.errors", "D22.uncounted", "7/429", "8/rate", "D19/rate_limited")
def test_the_exchanges_of_one_application_are_limited_and_preflights_are_not(client: OAuthDriver) -> None:
    application, other = registered(), registered()
    for path in ("/oauth/token", "/oauth/userinfo") * 12:
        assert preflight(client, path, "POST").status_code == 200
    for _ in range(3):
        token = client.exchange(application, CodeFactory(application=application).raw).json()["access_token"]
    assert client.userinfo(token).status_code == 200
    code = CodeFactory(application=application).raw
    too_many(client.exchange(application, code))
    moved(client, address())
    answer = client.exchange(application, code)
    too_many(answer)
    assert allows_every_origin(answer)
    assert client.exchange(other, CodeFactory(application=other).raw).status_code == 200


@contract("D21.proxy", "D21.ipv6", "D21.userinfo-failures")
def test_behind_a_proxy_the_right_most_untrusted_address_counts_and_ipv6_by_its_64_network(client: OAuthDriver) -> None:
    mine, number = address(), random.randrange(65536)
    site = f"2001:db8:{random.randrange(65536):x}"
    network, next_to_it = f"{site}:{number:x}", f"{site}:{number ^ 1:x}"
    for allowed, stopped, another in (
        (
            [f"{lie}, {mine}, 127.0.0.1" for lie in ("1.2.3.4", "5.6.7.8, 127.0.0.1", "nonsense")],
            f"9.9.9.9, {mine}",
            f"{mine}, {address()}",
        ),
        (
            [f"{network}{host}" for host in ("::1", "::2", ":aaaa:bbbb:cccc:dddd")],
            f"{network}::3",
            f"{next_to_it}::3",
        ),
    ):
        for forwarded in allowed:
            moved(client, forwarded)
            error_of(client.userinfo("bad"), 401, "invalid_token")
        moved(client, stopped)
        too_many(client.userinfo("bad"))
        moved(client, another)
        error_of(client.userinfo("bad"), 401, "invalid_token")
