"""Signing keys: none can be used, ten are made at once, one ends while two workers have loaded it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import time_machine
from django.utils import timezone
from joserfc.jwk import RSAKey

from oauth_bridge.key_models import SigningKey
from oauth_bridge.storage import signing_keys
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import PASSWORD, CodeFactory, Registered
from tests.faults.test_concurrent_groups import closing


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


def test_rotations_at_once_leave_one_signer_after_another(committed: None, postgresql: None) -> None:
    """Ten rotations wait for each other; none deadlocks, and from now on some key always signs."""
    signing_keys.signer("ES256")
    with ThreadPoolExecutor(10) as pool:
        rotations = [pool.submit(closing(lambda: signing_keys.rotate("ES256"))) for _ in range(10)]
        made = [rotation.result() for rotation in rotations]
    assert len({row.kid for row in made}) == 10
    open_ended = SigningKey.objects.filter(algorithm="ES256", revoked_at=None, signs_until=None)
    assert open_ended.count() == 1
    with time_machine.travel(timezone.now() + signing_keys.PUBLISHED_BEFORE + timedelta(seconds=1), tick=False):
        assert signing_keys.signer("ES256").kid == open_ended.get().kid


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
