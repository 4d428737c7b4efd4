"""Redis goes away in the middle of a sign-in. D21: requests go on, the outage is logged, never a 500."""

from __future__ import annotations

import time
from typing import Any

from tests.conftest import Launch
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, CodeFactory, Registered, TokenFactory
from tests.matrix import contract


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
    deadline = time.monotonic() + 15
    while driver.userinfo("bad").status_code != 429:
        assert time.monotonic() < deadline, "limits are counted again"
        time.sleep(0.2)
    assert driver.userinfo(TokenFactory().raw).status_code == 200
