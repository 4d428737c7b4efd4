"""Response times do not reveal whether a client (D19) or an account (D15) exists.

In `make fuzz` only: it takes minutes and needs an otherwise idle machine. Each round sends every kind of request twice,
in random order. The time of a kind is the fastest twentieth of its requests, because other load only ever makes a
request slower. The noise is the largest difference between two random halves of one kind.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from accounts.sign_in import verification
from oauth_bridge.models import Application, ApplicationSecret
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory, PersonFactory
from tests.faults.load import FORM
from tests.server import Server

ROUNDS = 4000
CLIENTS = 20
RECORDS_OF_A_CALLER = 120
RATES = dict.fromkeys(("RATE_TOKEN", "RATE_TOKEN_FAILURES", "RATE_USERINFO"), "999999999/d") | {"RATE_LIMITS": "on"}
# Reading a row takes longer than finding none, but too little to be measured over a network.
TOLERATED_MICROSECONDS = 5
# An account is read from its row; an unknown one is not: less than 0.1 ms. A sign-in stops revealing this after 50
# failures, a reset after five mails an hour: too few requests to measure it over a network.
TOLERATED_PAGE_MICROSECONDS = 150
Maker = Callable[[int], str]

pytestmark = pytest.mark.long


def measured(
    server: Server, forms: Mapping[str, Maker], rounds: int, path: str = "/oauth/token", **headers: str
) -> dict[str, list[float]]:
    """Microseconds until the complete response, by kind."""
    kinds, order = [*forms, *forms], random.Random(0)
    taken: dict[str, list[float]] = {kind: [] for kind in forms}
    statuses = set()
    netloc = urlsplit(server.base_url).netloc
    connection = HTTPConnection("127.0.0.1", int(netloc.rpartition(":")[2]), timeout=20)
    for number in range(rounds):
        order.shuffle(kinds)
        # All are made before one is sent: a request that is sent right after it was made takes 8 µs longer.
        for kind, form in [(kind, forms[kind](number)) for kind in kinds]:
            began = time.perf_counter_ns()
            connection.request("POST", path, form, {"Host": netloc, **FORM, **headers})
            answer = connection.getresponse()
            answer.read()
            taken[kind].append((time.perf_counter_ns() - began) / 1000)
            statuses.add(answer.status)
    assert max(statuses) < 429, statuses
    return taken


def speed(taken: list[float]) -> float:
    return sorted(taken)[len(taken) // 20]


def noise_of(taken: list[float]) -> float:
    chance, half = random.Random(0), len(taken) // 2
    mixed = (chance.sample(taken, len(taken)) for _ in range(1000))
    return max(abs(speed(each[:half]) - speed(each[half:])) for each in mixed)


def check(taken: Mapping[str, list[float]], one: str, tolerated: float = TOLERATED_MICROSECONDS) -> None:
    """Prints the comparison of `one` with each other kind."""
    wrong = []
    for other in taken.keys() - {one}:
        difference, noise = speed(taken[one]) - speed(taken[other]), max(noise_of(taken[one]), noise_of(taken[other]))
        print(f"{one} - {other}: {difference:+7.1f} µs (noise {noise:4.1f})")  # noqa: T201 - shown by `-rP`
        if abs(difference) > noise + tolerated:
            wrong.append(other)
    assert wrong == []


@pytest.mark.parametrize("with_secret", [True, False])
def test_every_failed_authentication_takes_equally_long(launch: Launch, with_secret: bool) -> None:
    """Once the activity log has its records of each application: authorize tells strangers anyway which exist.

    Each client_id is used equally often, so that all counters are equal.
    """

    def made(**values: Any) -> list[str]:
        return [each.client_id for each in ApplicationFactory.create_batch(CLIENTS, **values)]

    def calling(clients: list[str], others: list[str] | None = None) -> Maker:
        def make(number: int) -> str:
            secret = others[number % CLIENTS] if others else secrets.token_urlsafe(32)
            form = (
                f"grant_type=authorization_code&code={secrets.token_urlsafe(32)}&client_id={clients[number % CLIENTS]}"
            )
            return form + (f"&client_secret={secret}" if with_secret else "")

        return make

    unknown, length = "unknown client", len(ApplicationFactory().client_id)
    calls = {
        unknown: calling([secrets.token_hex(length)[:length] for _ in range(CLIENTS)]),
        "wrong secret": calling(made()),
        "switched off": calling(made(is_enabled=False)),
        "public client": calling(made(client_type=Application.CLIENT_PUBLIC)),
    }
    if with_secret:
        ended = made()
        ApplicationSecret.objects.filter(application__client_id__in=ended).update(is_revoked=True)
        calls["no secret left"] = calling(ended)
        calls["secret of another"] = calling(made(), [each.secret for each in ApplicationFactory.create_batch(CLIENTS)])
    server = launch(**RATES)
    measured(server, calls, CLIENTS * RECORDS_OF_A_CALLER // 2)
    check(measured(server, calls, ROUNDS), unknown)


@contract("D15.unknown")
@pytest.mark.parametrize(
    ("path", "fields", "rounds"),
    [
        ("/accounts/password/reset", "email={}", ROUNDS // 2),
        ("/accounts/sign-in", "login={}&password=wrong-password", ROUNDS // 8),
    ],
    ids=["reset", "sign-in"],
)
def test_an_unknown_address_takes_as_long_as_a_known_one(
    real_passwords: None, launch: Launch, path: str, fields: str, rounds: int
) -> None:
    server = launch(DJANGO_SETTINGS_MODULE="config.settings")
    page = OAuthDriver(server.base_url).get(path)
    token = Page(page).forms[0].fields["csrfmiddlewaretoken"]
    headers = {"Cookie": page.headers["Set-Cookie"].partition(";")[0], "Origin": server.auth_url}

    def asking(people: list[Any]) -> Maker:
        return lambda number: f"csrfmiddlewaretoken={token}&{fields.format(people[number % CLIENTS].email)}"

    known, unknown = PersonFactory.create_batch(CLIENTS), PersonFactory.build_batch(CLIENTS)
    for person in known:
        verification.align(person)  # as after the first sign-in
    kinds = {"unknown": asking(unknown), "known": asking(known)}
    check(measured(server, kinds, rounds, path, **headers), "unknown", TOLERATED_PAGE_MICROSECONDS)
