"""While no key can sign, a code with `openid` stays what it is, and plain OAuth 2.0 goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from joserfc.jwk import RSAKey

from tests.conftest import Launch
from tests.driver import OAuthDriver, error_of
from tests.factories import PASSWORD, CodeFactory, Registered


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
