"""Response times do not reveal whether a client (D19), an account (D15) or another application's token exists, or the
state of a rejected code.

In `make fuzz` only: it takes minutes and needs an otherwise idle machine.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

import pytest

from accounts.sign_in import verification
from oauth_bridge.models import Application, ApplicationSecret
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, TokenFactory, rewind
from tests.fuzz.timing import MARK, Maker, compared, measured, post
from tests.server import Server

ROUNDS = 4000
CLIENTS = 20
RECORDS_OF_A_CALLER = 120
RATES = {
    "RATE_LIMITS": "on",
    "RATE_TOKEN": "999999999/d",
    "RATE_TOKEN_FAILURES": "999999999/d",
    "RATE_USERINFO": "999999999/d",
}
# Reading a row takes longer than finding none, but too little to be measured over a network.
TOLERATED_MICROSECONDS = 5
# The response tells an authenticated client the reason anyway.
TOLD_MICROSECONDS = 150

# An account is read from its row; an unknown one is not: less than 0.1 ms. A sign-in stops revealing this after 50
# failures, a reset after five mails an hour: too few requests to measure it over a network.
TOLERATED_PAGE_MICROSECONDS = 150

pytestmark = pytest.mark.long


def strangers(server: Server, *, with_secret: bool = True) -> dict[str, Maker]:
    """Requests without a valid secret. Each client_id is used equally often, so that all counters are equal."""

    def made(**values: Any) -> list[str]:
        return [ApplicationFactory(**values).client_id for _ in range(CLIENTS)]

    def calling(clients: list[str], others: list[str] | None = None) -> Maker:
        def make(number: int) -> bytes:
            form = f"grant_type=authorization_code&code={secrets.token_urlsafe(32)}"
            form += f"&client_id={clients[number % CLIENTS]}"
            secret = others[number % CLIENTS] if others else secrets.token_urlsafe(32)
            form += f"&client_secret={secret}" if with_secret else ""
            return post(server, form)

        return make

    calls = {
        "wrong secret": calling(made()),
        "switched off": calling(made(is_enabled=False)),
        "public client": calling(made(client_type=Application.CLIENT_PUBLIC)),
        "unknown client": calling([MARK + secrets.token_hex(16)[len(MARK) :] for _ in range(CLIENTS)]),
    }
    if with_secret:
        ended = made()
        ApplicationSecret.objects.filter(application__client_id__in=ended).update(is_revoked=True)
        calls["no secret left"] = calling(ended)
        calls["secret of another"] = calling(made(), [ApplicationFactory().client_secret for _ in range(CLIENTS)])
    return calls


@pytest.mark.parametrize("with_secret", [True, False])
def test_every_failed_authentication_takes_equally_long(
    launch: Launch, capsys: pytest.CaptureFixture[str], with_secret: bool
) -> None:
    """Once the activity log has its records of each application: authorize tells strangers anyway which exist."""
    server = launch(**RATES)
    calls = strangers(server, with_secret=with_secret)
    measured(server, calls, CLIENTS * RECORDS_OF_A_CALLER // 2)
    taken = measured(server, calls, ROUNDS)
    for other in calls.keys() - {"unknown client"}:
        check(taken, "unknown client", other, capsys)


def test_no_bad_code_stands_out(launch: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    server = launch(**RATES)
    application, person = ApplicationFactory(), PersonFactory()
    another = CodeFactory(user=person)
    expired = CodeFactory(application=application, user=person)
    rewind(expired.row, 700)

    def sending(code: Any) -> Maker:
        form = "grant_type=authorization_code&client_id=%s&client_secret=%s&code="
        form %= (application.client_id, application.client_secret)
        return lambda _number: post(server, form + (code or secrets.token_urlsafe(32)))

    kinds = {"unknown code": sending(None), "code of another": sending(another.raw), "expired": sending(expired.raw)}
    taken = measured(server, kinds, ROUNDS // 2)
    for other in ("code of another", "expired"):
        check(taken, "unknown code", other, capsys, TOLD_MICROSECONDS)


@contract("I8.others")
@pytest.mark.parametrize(
    ("operation", "client_type"), [("introspect", "confidential"), ("revoke", "confidential"), ("revoke", "public")]
)
def test_no_token_of_another_application_stands_out(
    launch: Launch, capsys: pytest.CaptureFixture[str], operation: str, client_type: str
) -> None:
    server = launch(**RATES)
    application = ApplicationFactory(client_type=client_type)
    form = f"client_id={application.client_id}&token="
    if application.client_secret:
        form = f"client_secret={application.client_secret}&{form}"

    def sending(tokens: list[str]) -> Maker:
        def make(number: int) -> bytes:
            token = tokens[number % len(tokens)] if tokens else secrets.token_urlsafe(32)
            return post(server, form + token, f"/oauth/{operation}")

        return make

    person = PersonFactory()
    others = [token.raw for token in TokenFactory.create_batch(CLIENTS, user=person)]
    kinds = {"unknown token": sending([]), "token of another": sending(others)}
    taken = measured(server, kinds, ROUNDS, statuses=(200,))
    check(taken, "unknown token", "token of another", capsys)


@contract("D15.unknown")
@pytest.mark.parametrize(
    ("path", "fields", "status", "rounds"),
    [
        ("/accounts/password/reset", "email={}", 302, ROUNDS // 2),
        ("/accounts/sign-in", "login={}&password=wrong-password", 200, ROUNDS // 8),
    ],
    ids=["reset", "sign-in"],
)
def test_an_unknown_address_takes_as_long_as_a_known_one(
    real_passwords: None,
    launch: Launch,
    capsys: pytest.CaptureFixture[str],
    path: str,
    fields: str,
    status: int,
    rounds: int,
) -> None:
    server = launch(DJANGO_SETTINGS_MODULE="config.settings")
    page = OAuthDriver(server.base_url).get(path)
    token = Page(page).forms[0].fields["csrfmiddlewaretoken"]
    cookie = page.headers["Set-Cookie"].partition(";")[0]
    more = f"Cookie: {cookie}\r\nOrigin: {server.auth_url}\r\n"

    def asking(people: list[Any]) -> Maker:
        def make(number: int) -> bytes:
            body = fields.format(people[number % CLIENTS].email)
            return post(server, f"csrfmiddlewaretoken={token}&{body}", path, more)

        return make

    known, unknown = PersonFactory.create_batch(CLIENTS), PersonFactory.build_batch(CLIENTS)
    for person in known:
        verification.align(person)  # as after the first sign-in
    taken = measured(server, {"known": asking(known), "unknown": asking(unknown)}, rounds, statuses=(status,))
    check(taken, "unknown", "known", capsys, TOLERATED_PAGE_MICROSECONDS)


def check(
    taken: Mapping[str, list[float]],
    one: str,
    other: str,
    capsys: pytest.CaptureFixture[str],
    tolerated: float = TOLERATED_MICROSECONDS,
) -> None:
    found = compared(taken, one, other)
    with capsys.disabled():
        print(f"\n{one} - {other}: {found}")  # noqa: T201 - what the run is for
    assert abs(found.twins) <= found.noise
    assert abs(found.difference) <= found.noise + tolerated
