"""Many people sign in at once. D15. `make attack` measures attacks behind nginx."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory, TokenFactory
from tests.faults.load import Caller
from tests.server import Server

PEOPLE = 32
pytestmark = pytest.mark.usefixtures("real_passwords")
REAL = {"DJANGO_SETTINGS_MODULE": "config.settings"}  # hashes cost what they cost in production


@contextmanager
def profiles_are_read(server: Server, token: str) -> Iterator[Counter[int]]:
    """Somebody reads user info again and again: the number of answers with each status."""
    statuses: Counter[int] = Counter()
    is_over = threading.Event()

    def read() -> None:
        caller = Caller(server)
        while not is_over.wait(0.02):
            statuses[caller.userinfo(token).status] += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        yield statuses
    finally:
        is_over.set()
        reader.join()


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

    with profiles_are_read(server, TokenFactory(user=alice).raw) as profiles:
        threads = [threading.Thread(target=sign_in, args=(number,)) for number in range(PEOPLE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert met[200] == PEOPLE
    assert met.keys() <= {200, 503}
    assert profiles.keys() == {200}
