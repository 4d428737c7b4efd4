"""Many people sign in at once, and more requests come than the service can answer. D15, D19.

`make fuzz` measures both.
"""

from __future__ import annotations

import multiprocessing
import re
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from config.infrastructure import request_classes
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, TokenFactory
from tests.faults.load import FORM, Caller, Unanswered
from tests.server import Server

PEOPLE = 32
pytestmark = pytest.mark.usefixtures("real_passwords")
REAL = {"DJANGO_SETTINGS_MODULE": "config.settings"}  # hashes cost what they cost in production
MEMORY_MAX_KB = 300 * 1024
FORKED = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    method: str = "GET"
    body: str | None = None


LIVE = Request("/health/live")


@dataclass
class Sample:
    """The statuses and the seconds of the answers to some callers, each of which asks again and again."""

    statuses: Counter[int] = field(default_factory=Counter)  # 0: no answer
    seconds: list[float] = field(default_factory=list)
    without_time: int = 0  # answers 503 without Retry-After

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def ask(server: Server, request: Request, callers: int, pause: float, end: Any, told: Any) -> None:
    sample = Sample()

    def call() -> None:
        caller = Caller(server)
        while not end.is_set():
            began = time.monotonic()
            try:
                answer = caller.call(request.method, request.path, request.body, request.headers)
            except Unanswered:
                sample.statuses[0] += 1
                continue
            sample.seconds.append(time.monotonic() - began)
            sample.statuses[answer.status] += 1
            sample.without_time += answer.status == 503 and "Retry-After" not in answer.headers
            time.sleep(pause)

    threads = [threading.Thread(target=call) for _ in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told.send(sample)


@contextmanager
def asked(server: Server, request: Request, callers: int = 1, pause: float = 0.02) -> Iterator[Callable[[], Sample]]:
    """Callers in a process of their own. The function ends them."""
    end, (heard, told) = FORKED.Event(), FORKED.Pipe(duplex=False)
    process = FORKED.Process(target=ask, args=(server, request, callers, pause, end, told))
    process.start()

    def finish() -> Sample:
        end.set()
        sample: Sample = heard.recv()
        return sample

    try:
        yield finish
    finally:
        end.set()
        process.join()


def sampled(server: Server, request: Request, seconds: float) -> Sample:
    with asked(server, request) as finish:
        time.sleep(seconds)
        return finish()


def profile_of(person: Any) -> Request:
    return Request("/oauth/userinfo", {"Authorization": f"Bearer {TokenFactory(user=person).raw}"})


def most_memory_kb(server: Server) -> list[int]:
    """The highest resident memory of each worker since its start."""
    found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{worker}/status").read_text()) for worker in server.workers()]
    return [int(line[1]) for line in found if line]


def sign_in_at_once(server: Server, profile: Request) -> tuple[list[tuple[int, float]], Sample]:
    """PEOPLE sign in within a second: the status and seconds of each. And user info meanwhile, which succeeds.

    Nobody is refused who has not waited for as long as a sign-in may.
    """
    people = [(PersonFactory().email, OAuthDriver(server.base_url, server.auth_url)) for _ in range(PEOPLE)]
    forms = [Page(driver.open("/accounts/sign-in")).sign_in for _, driver in people]
    arrived: list[tuple[int, float]] = []

    def sign_in(number: int) -> None:
        (email, driver), form = people[number], forms[number]
        assert form
        time.sleep(number / PEOPLE)
        began = time.monotonic()
        answer = driver.submit(form, login=email, password=PASSWORD)
        arrived.append((answer.status_code, time.monotonic() - began))

    with asked(server, profile) as finish:
        threads = [threading.Thread(target=sign_in, args=(number,)) for number in range(PEOPLE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        beside = finish()
    assert len(arrived) == PEOPLE
    assert all(status == 200 or seconds >= request_classes.SIGN_IN.seconds for status, seconds in arrived), arrived
    assert set(beside.statuses) == {200}
    return arrived, beside


def overload(server: Server, person: Any, seconds: float) -> dict[str, Sample]:
    """Pages of strangers are refused with the time to wait, the liveness probe never, and all others may be."""
    application, browser = ApplicationFactory(), OAuthDriver(server.base_url, server.auth_url)
    form = Page(browser.open("/accounts/sign-in")).sign_in
    assert form
    typed = {**form.fields, "login": "nobody@example.com", "password": PASSWORD}
    cookies = "; ".join(f"{name}={value}" for name, value in browser.browser.cookies.items())
    exchange = {"grant_type": "authorization_code", "code": "x" * 43, "client_id": application.client_id}
    exchange |= {"client_secret": application.client_secret}
    # Ten times as many callers as a class is answered at once, or more than have a place.
    floods = {
        "page": (Request("/accounts/sign-in", {"Accept": "text/html"}), 100),
        "sign-in": (Request("/accounts/sign-in", {**FORM, "Cookie": cookies}, "POST", urlencode(typed)), 20),
        "authorize": (Request(browser.authorization_url(application).removeprefix(server.auth_url)), 20),
        "token": (Request("/oauth/token", FORM, "POST", urlencode(exchange)), 20),
        "user info": (profile_of(person), 20),
    }
    with ExitStack() as stack:
        finish = {name: stack.enter_context(asked(server, *flood, pause=0)) for name, flood in floods.items()}
        finish_live = stack.enter_context(asked(server, LIVE))
        time.sleep(seconds)
        assert server.logged('"status":503'), "nobody was refused"
        samples = {"live": finish_live()} | {name: end() for name, end in finish.items()}
    told = {name: dict(sample.statuses) for name, sample in samples.items()}
    assert all(set(each.statuses) <= {200, 302, 400, 503} and not each.without_time for each in samples.values()), told
    assert samples["page"].statuses[503], told
    assert set(samples["live"].statuses) == {200}, told
    return samples


@contract("D15.hashing")
def test_a_class_signs_in_and_user_info_goes_on(launch: Launch, alice: Any) -> None:
    sign_in_at_once(launch(**REAL), profile_of(alice))


@contract("D19/overloaded")
def test_ten_times_overload_is_refused_in_order_and_the_service_is_alive(launch: Launch, alice: Any) -> None:
    """tests/unit/test_config_thread_pools.py tests the order. Whoever comes afterwards signs in."""
    server = launch(**REAL)
    overload(server, alice, 5)
    OAuthDriver(server.base_url, server.auth_url).signed_in(alice.email, PASSWORD)


@pytest.mark.long
def test_user_info_takes_at_most_twice_as_long_beside_a_class(launch: Launch, alice: Any) -> None:
    """On a quiet machine."""
    server, profile = launch(**REAL), profile_of(alice)
    sampled(server, profile, 0.5)
    ratios, slowest = [], []
    for _ in range(10):
        calm = sampled(server, profile, 2)
        arrived, beside = sign_in_at_once(server, profile)
        ratios.append(beside.median / calm.median)
        slowest.append(max(seconds for _, seconds in arrived))
    print(f"ratios {sorted(ratios)}, slowest {slowest}, memory, KB: {most_memory_kb(server)}")  # noqa: T201 - `-rP`
    assert statistics.median(ratios) <= 2
    assert max(most_memory_kb(server)) < MEMORY_MAX_KB


@pytest.mark.long
def test_a_minute_of_overload_in_figures(launch: Launch, alice: Any) -> None:
    server = launch(**REAL)
    calm = sampled(server, LIVE, 1)
    samples = overload(server, alice, 60)
    served = {name: 1 - each.statuses[503] / each.statuses.total() for name, each in samples.items()}
    medians = {name: each.median for name, each in samples.items()}
    print(f"{served=} {medians=}, memory, KB: {most_memory_kb(server)}")  # noqa: T201 - shown by `-rP`
    shares = [served[name] for name in ("page", "authorize", "token", "user info")]
    assert shares == sorted(shares)
    assert medians["live"] < max(0.1, 5 * calm.median)
    assert max(most_memory_kb(server)) < MEMORY_MAX_KB
