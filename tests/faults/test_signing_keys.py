"""A key can't sign, or is revoked while two workers have loaded it. Races: test_configuration_races."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jwt
from joserfc.jwk import RSAKey

from oauth_bridge.storage import signing_keys
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import PASSWORD, CodeFactory, Registered


@contract("I3.unspent")
def test_a_code_is_not_spent_while_no_key_can_sign(
    launch: Launch, application: Registered, alice: Any, tmp_path: Path
) -> None:
    file = tmp_path / "key.pem"
    key = RSAKey.generate_key(2048).as_pem(private=True)
    file.write_bytes(key)
    server = launch(SIGNING_KEYS=str(tmp_path))
    driver = OAuthDriver(server.base_url, server.auth_url)
    url = driver.authorization_url(application, scope="openid")
    code = driver.authorize(url, alice.email, PASSWORD).parameters["code"]
    file.write_bytes(b"")
    error_of(driver.exchange(application, code), 500, "server_error")
    plain = CodeFactory(application=application, user=alice).raw
    assert driver.exchange(application, plain).status_code == 200
    file.write_bytes(key)
    assert driver.exchange(application, code).json()["id_token"]


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
