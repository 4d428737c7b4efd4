"""Many people sign in at once. D15. `make attack` measures attacks behind nginx."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory, TokenFactory
from tests.faults.load import Caller

PEOPLE = 32
pytestmark = pytest.mark.usefixtures("real_passwords")
REAL = {"DJANGO_SETTINGS_MODULE": "config.settings"}  # hashes cost what they cost in production


@contract("D15.hashing")
def test_a_class_signs_in_and_user_info_goes_on(launch: Launch, alice: Any) -> None:
    """Within a second. Whoever is asked to wait sends the form again, and is signed in."""
    server = launch(**REAL)
    people = [(PersonFactory().email, OAuthDriver(server.base_url, server.auth_url)) for _ in range(PEOPLE)]
    pages = [driver.open("/accounts/sign-in") for _, driver in people]
    met: Counter[int] = Counter()

    def sign_in(number: int) -> None:
        (email, driver), page = people[number], pages[number]
        time.sleep(number / PEOPLE)
        while form := Page(page).sign_in:
            page = driver.submit(form, login=email, password=PASSWORD)
            met[page.status_code] += 1
            if page.status_code == 503:
                assert Page(page).sign_in.fields["login"] == email  # type: ignore[union-attr]
                time.sleep(min(int(page.headers["Retry-After"]), 1))

    caller, token = Caller(server), TokenFactory(user=alice).raw
    with ThreadPoolExecutor(PEOPLE) as pool:
        signing_in = [pool.submit(sign_in, number) for number in range(PEOPLE)]
        while not all(each.done() for each in signing_in):
            assert caller.userinfo(token).status == 200
            time.sleep(0.02)
    assert met[200] == PEOPLE, [each.exception() for each in signing_in]
    assert met.keys() <= {200, 503}
