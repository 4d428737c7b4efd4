"""An application that is not told of a sign-out at once is told later, or it is recorded that it was not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from io import StringIO
from typing import Any

import jwt
import pytest
from django.core.management import call_command
from django.utils import timezone

from accounts.models import User
from oauth_bridge.maintenance import backchannel
from oauth_bridge.models import ActivityRecord, Application, ApplicationSession
from oauth_bridge.storage import activity_counts, application_sessions, signing_keys
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, Registered
from tests.logout_receiver import HANGS, Receiver
from tests.server import free_port
from tests.sign_outs import begin_and_end, make_due, tell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("receiver")]


@pytest.fixture
def ended(alice: User) -> Callable[[Receiver | str], ApplicationSession]:
    """A sign-in that ended, of an application with this receiver."""

    def make(receiver: Receiver | str) -> ApplicationSession:
        url = receiver if isinstance(receiver, str) else receiver.url
        application = ApplicationFactory(backchannel_logout_uri=url)
        return ApplicationSession.objects.get(pk=begin_and_end(application, alice))

    return make


@contract("I10.again")
def test_an_application_that_fails_twice_is_told_at_the_third_attempt(
    ended: Callable[[Receiver], ApplicationSession],
) -> None:
    with Receiver(500, 503).listening() as receiver:
        row = ended(receiver)
        for attempts in (1, 2):
            tell()
            row.refresh_from_db()
            assert (len(receiver.tokens), row.attempts, row.told_at) == (attempts, attempts, None)
            assert row.due_at
            pause = row.due_at - timezone.now()
            assert timedelta(seconds=20) < pause <= timedelta(seconds=30 * attempts)
            tell()  # it waits
            make_due()
        tell()
    row.refresh_from_db()
    assert row.told_at
    names = {jwt.decode(each, options={"verify_signature": False})["jti"] for each in receiver.tokens}
    assert (len(receiver.tokens), len(names)) == (3, 1)
    assert not ActivityRecord.objects.filter(step="logout").exists()


@contract("I10.again")
def test_a_process_that_ends_in_the_middle_leaves_the_row(ended: Callable[[Receiver], ApplicationSession]) -> None:
    with Receiver().listening() as receiver:
        row = ended(receiver)
        backchannel.wake()
        application_sessions.end_gone()
        assert application_sessions.claim(backchannel.LEASE)  # and then it is killed
        tell()
        assert receiver.tokens == []
        make_due()
        tell()
        assert len(receiver.tokens) == 1
    row.refresh_from_db()
    assert row.attempts == 2


RECEIVERS = {
    "logout_redirected": lambda: Receiver(302, location="http://127.0.0.1:1/"),
    "logout_not_accepted": lambda: Receiver(400),
    "logout_timed_out": lambda: Receiver(HANGS),
}
URLS = {
    "logout_unreachable": lambda: f"http://127.0.0.1:{free_port()}/",
    "logout_address_internal": lambda: "https://10.1.2.3/",
}


@contract("I10.again")
@pytest.mark.parametrize("cause", [*RECEIVERS, *URLS])
def test_what_fails_for_a_day_is_given_up_and_recorded(
    ended: Callable[[Receiver | str], ApplicationSession], alice: User, cause: str
) -> None:
    receiver = RECEIVERS[cause]() if cause in RECEIVERS else None
    row = ended(receiver or URLS[cause]())
    give_up()
    with receiver.listening() if receiver else nullcontext():
        tell()
    row.refresh_from_db()
    assert (row.due_at, row.told_at) == (None, None)
    record = ActivityRecord.objects.get(step="logout")
    assert (record.outcome, record.cause, record.client_id) == ("failed", cause, row.application.client_id)
    assert record.person_id == alice.pk
    assert "token" not in str(record.detail)


def give_up() -> None:
    """At the next attempt, which is the last one of a day."""
    application_sessions.end_gone()
    ApplicationSession.objects.update(
        ended_at=timezone.now() - backchannel.TRIED_FOR, due_at=timezone.now(), attempts=12
    )


def test_an_application_that_is_away_keeps_no_other_waiting(told: Registered, receiver: Receiver, alice: User) -> None:
    away = ApplicationFactory(backchannel_logout_uri=f"http://127.0.0.1:{free_port()}/")
    for _ in range(3):
        begin_and_end(away, alice)
    begin_and_end(told, alice)
    tell()
    assert len(receiver.tokens) == 1
    rows = ApplicationSession.objects.filter(application=away.row)
    assert sorted(rows.values_list("attempts", flat=True)) == [0, 0, 1], "the others wait without an attempt"
    begin_and_end(away, alice)
    tell()
    assert sorted(rows.values_list("attempts", flat=True)) == [0, 0, 0, 1], "also those that end meanwhile"


def test_without_a_key_that_signs_no_other_waits_and_the_end_is_recorded(
    told: Registered, receiver: Receiver, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a folder of keys that has none for the algorithm."""
    broken = ApplicationFactory(backchannel_logout_uri=receiver.url, id_token_alg="ES256")
    for application in (broken, broken, told):
        begin_and_end(application, alice)
    signer = signing_keys.signer
    monkeypatch.setattr(signing_keys, "signer", lambda algorithm: signer(algorithm) if algorithm == "RS256" else 1 / 0)
    tell()
    assert len(receiver.tokens) == 1
    unsigned = ApplicationSession.objects.filter(application=broken.row)
    assert all(row.due_at and row.due_at > timezone.now() and not row.told_at for row in unsigned)
    give_up()
    tell()
    assert not unsigned.filter(due_at__isnull=False).exists()
    record = ActivityRecord.objects.filter(step="logout", cause="logout_token_unsigned").first()
    assert record
    assert (record.client_id, record.person_id) == (broken.client_id, alice.pk)


CHANGES: list[Callable[[Application], Any]] = [
    lambda row: Application.objects.filter(pk=row.pk).update(is_enabled=False),
    lambda row: Application.objects.filter(pk=row.pk).update(backchannel_logout_uri=""),
    lambda row: row.delete(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_application_that_is_not_to_be_told_any_more_is_not(
    ended: Callable[[Receiver], ApplicationSession], receiver: Receiver, change: Callable[[Application], Any]
) -> None:
    row = ended(receiver)
    application_sessions.end_gone()
    change(row.application)
    tell()
    assert receiver.tokens == []
    assert not ApplicationSession.objects.exclude(due_at=None, told_at=None).exists()


def test_the_command_lists_and_tells_which_is_counted(
    ended: Callable[[Receiver], ApplicationSession], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(activity_counts, "count", lambda _at, *given: counted.append(given))
    row = ended(receiver)
    application_sessions.end_gone()
    out = StringIO()
    call_command("deliver", "--list", stdout=out)
    assert "sign-outs: 1 waiting" in out.getvalue()
    call_command("deliver", "--once")
    assert len(receiver.tokens) == 1
    assert (row.application.client_id, "logout", "succeeded") in counted
