"""mod_auth_openidc, with the lines of docs/connect.md: it signs people in, and out when the service tells it to."""

from __future__ import annotations

import time
from typing import Any

import pytest
import requests

from tests.clients.apache import apache
from tests.clients.conftest import Answer, code_of
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory
from tests.server import free_port

TOLD_SECONDS = 120


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_mod_auth_openidc(driver: OAuthDriver, answer: Answer, alice: Any, algorithm: str) -> None:
    """The module verifies the logout token that a worker of the service delivers, and ends its own session."""
    port = free_port()
    address = f"http://localhost:{port}"
    application = ApplicationFactory(
        redirect_uris=f"{address}/protected/callback",
        backchannel_logout_uri=f"http://127.0.0.1:{port}/protected/callback?logout=backchannel",
        id_token_alg=algorithm,
    )
    code = code_of("mod-auth-openidc", application).replace("https://{YOUR_HOST}", address)
    with apache(port, code.replace("{PASSPHRASE}", "p" * 32)):
        browser = requests.Session()
        away = browser.get(f"{address}/protected/page.txt", allow_redirects=False)
        page = browser.get(answer(away.headers["Location"]).url)
        assert (page.status_code, page.text, page.url) == (200, "protected", f"{address}/protected/page.txt")
        assert (page.headers["X-Sub"], page.headers["X-Email"]) == (str(alice.pk), alice.email)
        assert browser.get(page.url, allow_redirects=False).status_code == 200
        driver.submit(next(form for form in Page(driver.open("/accounts/sign-out")).forms if "sign-out" in form.action))
        assert is_signed_out(browser, page.url)


def is_signed_out(browser: requests.Session, address: str) -> bool:
    """Whether the page asks for a sign-in, within the time in which a worker tells of a sign-out."""
    end = time.monotonic() + TOLD_SECONDS
    while (status := browser.get(address, allow_redirects=False).status_code) == 200 and time.monotonic() < end:
        time.sleep(0.1)
    return status == 302
