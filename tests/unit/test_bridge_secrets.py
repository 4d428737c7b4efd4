"""Client secrets: numbers and states, rotation, use and end, and what ends with a leaked one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from config.infrastructure.errors import RequestError, SiteFault
from oauth_bridge.applications import registry
from oauth_bridge.credentials import client_secrets, secret_rotation, tokens
from oauth_bridge.errors import OAuthFault
from oauth_bridge.management import purging
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.models.secrets import State
from oauth_bridge.oauth import exchange
from tests.factories import ApplicationFactory, CodeFactory, TokenFactory, registered

pytestmark = [pytest.mark.django_db, pytest.mark.integration]

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

Made = tuple[Application, str]


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as clock:
        yield clock


@pytest.fixture
def made(clock: time_machine.Coordinates) -> Made:
    return registered()


def numbers(application: Application) -> list[int]:
    return [state.number for state in secret_rotation.states(application)]


def exchanged(application: Application, secret: str) -> str:
    code = CodeFactory(application=application, application_version=application.credentials_version).raw
    form = {"grant_type": "authorization_code", "code": code}
    form |= {"client_id": application.client_id, "client_secret": secret}
    return str(exchange.exchange_code(form, "192.0.2.1")[0]["access_token"])


def ended_by(token: str) -> str:
    """The cause of the refusal; empty if the token works."""
    try:
        tokens.read(token)
    except RequestError as refused:
        return refused.cause
    return ""


def test_a_number_is_never_given_again(made: Made, clock: time_machine.Coordinates) -> None:
    application, _ = made
    secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    secret_rotation.revoke(application, 2)
    clock.move_to(START + 91 * DAY)
    list(purging.batches(START + 91 * DAY))
    assert not application.secrets.exists()
    secret_rotation.rotate(application)
    assert numbers(application) == [3]
    secret_rotation.rotate(ApplicationFactory().row)
    assert numbers(application) == [3]


def test_all_codes_and_tokens_of_the_application_end_with_a_leaked_secret(made: Made) -> None:
    application, first = made
    second = secret_rotation.rotate(application, HOUR).secret
    ended = [exchanged(application, each) for each in (first, second)]
    code, elsewhere = CodeFactory(application=application).raw, TokenFactory()
    assert secret_rotation.revoke(application, 1, is_leaked=True).state is State.LEAKED
    assert [ended_by(token) for token in (*ended, elsewhere.raw)] == [*["token_ended_application"] * 2, ""]
    form = {"grant_type": "authorization_code", "code": code}
    with pytest.raises(RequestError) as of_code:
        exchange.exchange_code(form | {"client_id": application.client_id, "client_secret": second}, "192.0.2.1")
    assert (of_code.value.fault, of_code.value.cause) == (OAuthFault.CODE_REVOKED, "code_ended_application")
    token = exchanged(application, second)
    secret_rotation.revoke(application, 1, is_leaked=True)
    assert not ended_by(token), "the same leak ends nothing twice"


def test_a_secret_that_has_ended_can_be_said_to_have_leaked(made: Made, clock: time_machine.Coordinates) -> None:
    application, first = made
    token = exchanged(application, first)
    secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    assert not ended_by(token)
    clock.move_to(START + MINUTE)
    assert secret_rotation.revoke(application, 1, is_leaked=True).expires_at == START
    secret_rotation.revoke(application, 1)
    assert ended_by(token)
    assert secret_rotation.states(application)[1].state is State.LEAKED


def use(application: Application, number: int, at: datetime) -> None:
    application.secrets.filter(number=number).update(last_used_at=at)


def test_an_older_secret_is_still_used_until_a_newer_one_is_used_in_its_place(
    made: Made, clock: time_machine.Coordinates
) -> None:
    application, _ = made

    def is_still_used() -> bool:
        return secret_rotation.states(application)[-1].is_still_used

    use(application, 1, START - DAY)
    clock.move_to(START + MINUTE)
    secret_rotation.rotate(application, 7 * DAY)
    assert not is_still_used(), "nothing uses the new one yet"
    use(application, 1, START + HOUR)
    assert is_still_used()
    use(application, 2, START + 2 * HOUR - MINUTE)
    assert is_still_used(), "a part of the application may use the old one"
    use(application, 2, START + 2 * HOUR)
    assert not is_still_used()
    use(application, 1, START + 2 * HOUR)
    assert is_still_used()
    secret_rotation.revoke(application, 1)
    assert not is_still_used(), "it has ended"


# Rotation, use and the end of each -----------------------------------------------------------------------------------


def fault_of(application, secret):
    """What the secret is refused with, None when it is not."""
    try:
        exchange.authenticated_client({"client_id": application.client_id, "client_secret": secret}, "192.0.2.1")
    except RequestError as refused:
        return refused.fault
    return None


def test_a_secret_ends_when_its_overlap_does_and_one_ended_at_once_stays_so_when_the_clock_steps_back(made, clock):
    application, old = made
    secret_rotation.rotate(application, HOUR)
    for after, fault in (
        (timedelta(0), None),
        (HOUR - timedelta(microseconds=1), None),
        (HOUR, OAuthFault.CLIENT_SECRET_EXPIRED),
        (HOUR + timedelta(days=89), OAuthFault.CLIENT_SECRET_EXPIRED),
    ):
        clock.move_to(START + after)
        assert fault_of(application, old) is fault
    application, leaked = registered(name="Other")
    clock.move_to(START)
    secret_rotation.rotate(application, HOUR)
    secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    clock.move_to(START - MINUTE)
    assert fault_of(application, leaked) is OAuthFault.CLIENT_SECRET_EXPIRED
    assert [secret.works for secret in application.secrets.all()] == [True, False, False]


def test_expired_secrets_are_kept_for_90_days_and_ten_of_an_application(made, clock):
    application, _ = made
    for number in range(12):
        clock.move_to(START + number * MINUTE)
        secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    assert application.secrets.filter(is_revoked=True).count() == secret_rotation.MOST_EXPIRED
    assert application.secrets.filter(is_revoked=True).earliest("expires_at").expires_at == START + 2 * MINUTE
    clock.move_to(START + 11 * MINUTE + secret_rotation.EXPIRED_KEPT_FOR)
    secret_rotation.rotate(application)
    assert [secret.works for secret in application.secrets.all()] == [True, True]


def test_purge_forgets_a_secret_90_days_after_it_expired_and_none_that_works(made, clock):
    application, first = made
    secret_rotation.rotate(application, HOUR)
    list(purging.batches(START + HOUR + 90 * DAY - timedelta(microseconds=1)))
    assert application.secrets.count() == 2
    list(purging.batches(START + HOUR + 90 * DAY))
    assert fault_of(application, first) is OAuthFault.CLIENT_NOT_AUTHENTICATED
    assert application.secrets.get().works


def test_the_use_of_the_secret_that_was_sent_and_let_in_is_noted_once_a_minute(made, clock):
    application, old = made
    new = secret_rotation.rotate(application, HOUR).secret
    fault_of(application, "wrong")
    assert not ApplicationSecret.objects.exclude(last_used_at=None).exists()
    for after, noted in ((0, 0), (1, 0), (59.999999, 0), (60, 60), (119, 60), (121, 121), (50, 121)):
        clock.move_to(START + timedelta(seconds=after))
        assert fault_of(application, new) is None
        assert [row.last_used_at for row in application.secrets.all()] == [START + timedelta(seconds=noted), None]
    clock.move_to(START + HOUR)
    assert fault_of(application, old) is OAuthFault.CLIENT_SECRET_EXPIRED
    assert application.secrets.last().last_used_at is None


def test_only_the_working_secret_of_a_disabled_application_is_told_so_and_none_is_noted(made, clock):
    application, old = made
    new = secret_rotation.rotate(application, HOUR).secret
    registry.set_enabled(application, False)
    clock.move_to(START + HOUR)
    assert {fault_of(application, secret) for secret in (old, "x")} == {OAuthFault.CLIENT_NOT_AUTHENTICATED}
    assert fault_of(application, new) is OAuthFault.CLIENT_SWITCHED_OFF
    assert not ApplicationSecret.objects.exclude(last_used_at=None).exists()


def test_the_use_of_an_expired_secret_counts_as_a_failed_authentication_and_is_recorded(made, clock, settings, caplog):
    """What the limit refuses is not recorded, so that nobody fills the log with it."""
    settings.RATES = {"token_failures": "2/m"}
    application, old = made
    rotation = secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    clock.move_to(START + timedelta(seconds=90))
    faults = [fault_of(application, old) for _ in range(3)]
    assert faults == [*[OAuthFault.CLIENT_SECRET_EXPIRED] * 2, SiteFault.RATE_LIMITED]
    first, _second = [record for record in caplog.records if record.getMessage() == "expired client secret used"]
    assert (first.client_id, first.secret_row) == (application.client_id, rotation.older[0].pk)
    assert first.expired_seconds == 90.0
    assert old not in str(vars(first))
    assert fault_of(application, rotation.secret) is None


def test_every_secret_of_the_application_is_compared(made, monkeypatch):
    """Which of them it is, and whether it is the first, makes no difference to the time it takes."""
    application, first = made
    second = secret_rotation.rotate(application).secret
    compared = []
    compare = client_secrets.constant_time_compare
    monkeypatch.setattr(client_secrets, "constant_time_compare", lambda a, b: compared.append(1) or compare(a, b))
    for secret in (first, second, "wrong"):
        compared.clear()
        fault_of(application, secret)
        assert len(compared) == 2
    compared.clear()
    fault_of(Application(client_id="unknown"), "wrong")
    assert len(compared) == 1


def test_what_holds_a_credential_does_not_show_it(made):
    rotation = secret_rotation.rotate(made[0])
    application, code = ApplicationFactory(), CodeFactory()
    for holder, credential in ((rotation, rotation.secret), (application, application.secret), (code, code.raw)):
        assert credential
        assert credential not in repr(holder)
