"""A key is revoked while two workers have loaded it. Races: test_configuration_races."""

from __future__ import annotations

from typing import Any

import jwt

from oauth_bridge.openid import signing_keys
from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, Registered


def test_a_key_that_ends_in_one_worker_ends_in_the_other(
    launch: Launch, application: Registered, alice: Any, redis_server: Any
) -> None:
    """Both workers have loaded the key. Whichever answers next signs with another."""
    server = launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(alice.email, PASSWORD)

    def kid() -> str:
        code = driver.authorize(driver.authorization_url(application, scope="openid"), "", "").parameters["code"]
        header = jwt.get_unverified_header(driver.exchange(application, code).json()["id_token"])
        driver.backend.close()
        return str(header["kid"])

    old = {kid() for _ in range(6)}
    assert len(old) == 1
    signing_keys.revoke(*old)
    assert not old & {kid() for _ in range(6)}
