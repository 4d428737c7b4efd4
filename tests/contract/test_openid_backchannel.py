"""A sign-out in the browser reaches the applications by the threads of the web workers. Back-Channel Logout 1.0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from tests.contract.test_openid import signed_in, verified
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory, Registered
from tests.peers import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(500).listening() as found:
        found.answers.clear()
        yield found


@pytest.fixture
def told(committed: None, receiver: Receiver) -> Registered:
    application: Registered = ApplicationFactory(backchannel_logout_uri=receiver.url)
    return application


def wait_for(receiver: Receiver, number: int) -> None:
    end = time.monotonic() + 60
    while len(receiver.requests) < number and time.monotonic() < end:
        time.sleep(0.05)
    assert len(receiver.requests) == number


@pytest.mark.integration
@contract("I10.ends", "I10.token")
def test_a_sign_out_is_told_to_the_application_by_a_token_that_is_no_id_token(
    driver: OAuthDriver, told: Registered, receiver: Receiver, alice: Any
) -> None:
    document = driver.call("GET", "/.well-known/openid-configuration").json()
    assert document["backchannel_logout_supported"] is document["backchannel_logout_session_supported"] is True
    sid = verified(driver, told, signed_in(driver, told, alice)["id_token"])["sid"]
    page = driver.open("/accounts/sign-out")
    driver.submit(next(form for form in Page(page).forms if "sign-out" in form.action))
    wait_for(receiver, 1)
    claims = verified(driver, told, receiver.tokens[0])
    assert (claims["sid"], claims["sub"], "nonce" in claims) == (sid, str(alice.pk), False)
    assert jwt.get_unverified_header(receiver.tokens[0])["typ"] == "logout+jwt"
    signed_in(driver, told, alice)
    assert driver.get(f"/oauth/logout?id_token_hint={receiver.tokens[0]}").status_code == 400
