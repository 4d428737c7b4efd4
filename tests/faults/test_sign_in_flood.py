"""Sign-ins for unknown e-mail addresses, as fast as possible."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD
from tests.server import Server

STRANGERS = 12
SECONDS = 3
MEMORY_MAX_KB = 300 * 1024


@contract("D15.hashing")
def test_a_flood_of_sign_ins_takes_little_memory_and_people_sign_in_after_it(launch: Launch, alice: Any) -> None:
    server = launch()
    answered: Counter[int] = Counter()

    def flood() -> None:
        driver, end = OAuthDriver(server.base_url), time.monotonic() + SECONDS
        form = Page(driver.open("/accounts/sign-in")).sign_in
        assert form
        while time.monotonic() < end:
            email = f"{secrets.token_hex(8)}@example.com"
            response = driver.submit(form, login=email, password=secrets.token_hex(8))
            answered[response.status_code] += 1
            assert response.status_code == 200 or int(response.headers["Retry-After"]) >= 1

    strangers = [threading.Thread(target=flood) for _ in range(STRANGERS)]
    for stranger in strangers:
        stranger.start()
    for stranger in strangers:
        stranger.join()
    assert answered[200]
    assert set(answered) <= {200, 503}
    assert max(most_memory_kb(server)) < MEMORY_MAX_KB
    driver = OAuthDriver(server.base_url)
    response = driver.sign_in(driver.open("/accounts/sign-in"), alice.email, PASSWORD)
    assert response.url == f"{server.auth_url}/accounts/profile"


def most_memory_kb(server: Server) -> list[int]:
    """The highest resident memory of each worker since its start."""
    found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{worker}/status").read_text()) for worker in server.workers()]
    return [int(line[1]) for line in found if line]
