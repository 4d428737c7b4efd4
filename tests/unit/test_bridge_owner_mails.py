"""Those who look after an application are told before a secret ends, and of a code that was replayed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
import time_machine
from django.core import mail
from django.core.management import call_command
from django.db import connection
from django.test import Client

from accounts.models import OutgoingMail, User
from oauth_bridge import application_mails
from oauth_bridge.maintenance import ending_secrets
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.storage import applications, secret_rotation, secret_states, temporary_applications
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.pages import deliver_all

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as clock:
        yield clock


@pytest.fixture
def ada(db: None, clock: time_machine.Coordinates) -> User:
    return PersonFactory(nickname="Ada", is_superuser=True, is_staff=True)


@pytest.fixture
def made(ada: User) -> Application:
    return applications.register(name="Reading List", redirect_uris=["https://reading.example/callback"])[0]


def delivered() -> list[tuple[str, str]]:
    """Address and subject of each e-mail since the last call."""
    deliver_all()
    told = [(message.to[0], message.subject) for message in mail.outbox]
    mail.outbox.clear()
    return told


def told_at(clock: time_machine.Coordinates, after: timedelta) -> int:
    clock.move_to(START + after)
    ending_secrets.tell(START + after)
    return len(delivered())


def test_an_end_is_told_seven_days_and_one_day_before_once_each(
    made: Application, clock: time_machine.Coordinates
) -> None:
    secret_rotation.rotate(made, 10 * DAY)
    hours = [(0, 0), (3 * 24 - 1, 0), (3 * 24, 1), (3 * 24 + 1, 0), (8 * 24, 0), (9 * 24, 1), (9 * 24 + 1, 0), (240, 0)]
    assert [told_at(clock, hour * HOUR) for hour, _ in hours] == [mails for _, mails in hours]


def test_an_end_within_a_day_is_told_once(made: Application, clock: time_machine.Coordinates) -> None:
    secret_rotation.rotate(made, DAY)
    assert [told_at(clock, hour * HOUR) for hour in (0, 1, 23, 24, 25)] == [1, 0, 0, 0, 0]


def test_nothing_is_told_of_the_secret_of_a_test_sign_in(made: Application, clock: time_machine.Coordinates) -> None:
    temporary_applications.make(made, "https://testserver/admin/test-sign-in/callback")
    assert [told_at(clock, minute * MINUTE) for minute in (0, 4, 6)] == [0, 0, 0]


def test_the_mail_names_application_number_end_last_use_and_page(
    ada: User, made: Application, clock: time_machine.Coordinates
) -> None:
    made.secrets.update(last_used_at=START - HOUR)
    new = secret_rotation.rotate(made, DAY).secret
    call_command("purge")
    deliver_all()
    (message,) = mail.outbox
    text = re.sub(r"\s+", " ", message.body)
    assert (message.to, message.subject) == ([ada.email], "A client secret of Reading List ends soon")
    assert "the client secret No. 1 of Reading List" in text
    assert "ends on 22 November 2026, 12:00 UTC" in text
    assert "last used on 21 November 2026, 11:00 UTC" in text
    assert f"http://testserver/admin/oauth_bridge/application/{made.pk}/secret/" in text
    assert new not in text


@pytest.mark.parametrize("ended", ["revoked", "expired", "switched off", "without an end"])
def test_nobody_is_told_of_a_secret_that_has_ended_or_does_not_end(
    made: Application, clock: time_machine.Coordinates, ended: str
) -> None:
    if ended != "without an end":
        secret_rotation.rotate(made, DAY)
    if ended == "revoked":
        secret_states.revoke(made, 1)
    if ended == "switched off":
        applications.set_enabled(made, False)
    assert told_at(clock, DAY if ended == "expired" else HOUR) == 0


def test_only_superusers_who_can_be_reached_are_told_and_not_very_many(ada: User, made: Application) -> None:
    PersonFactory(is_staff=True)
    PersonFactory(is_superuser=True, is_active=False)
    PersonFactory(is_superuser=True, email_verified_at=None)
    assert application_mails.owners_of(made) == [ada]
    for _ in range(application_mails.MOST_OWNERS):
        PersonFactory(is_superuser=True)
    assert len(application_mails.owners_of(made)) == application_mails.MOST_OWNERS


def replay(application: Registered, rewind: Callable[..., None]) -> None:
    code = CodeFactory(application=application)
    fields = {"grant_type": "authorization_code", "client_id": application.client_id, "code": code.raw}
    form = urlencode({**fields, "client_secret": application.client_secret})
    statuses = []
    for _ in range(2):
        answer = Client().post("/oauth/token", form, content_type="application/x-www-form-urlencoded")
        statuses.append(answer.status_code)
        rewind(code.row, 4)
    assert statuses == [200, 400]


def test_replayed_codes_are_told_once_for_each_application(ada: User, rewind: Callable[..., None]) -> None:
    first, second = ApplicationFactory(name="Photo Book"), ApplicationFactory(name="Calendar")
    for _ in range(2):
        replay(first, rewind)
    replay(second, rewind)
    told = [subject for address, subject in delivered() if address == ada.email]
    assert sorted(told) == ["Calendar sent a code a second time", "Photo Book sent a code a second time"]


def test_two_purges_at_the_same_moment_tell_once(postgresql: None) -> None:
    """Both find the secret before one of them marks it."""
    PersonFactory(is_superuser=True)
    application = ApplicationFactory()
    secret_rotation.rotate(application.row, DAY)
    ending_at = application.row.secrets.get(number=2).created_at
    ApplicationSecret.objects.exclude(application=application.row).update(told_days=0)  # of tests that committed
    both = threading.Barrier(2)

    def held(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if sql.startswith("UPDATE") and "told_days" in sql:
            both.wait(30)
        return execute(sql, *more)

    def tell(_: int) -> int:
        try:
            with connection.execute_wrapper(held):
                return ending_secrets.tell(ending_at)
        finally:
            connection.close()

    number = OutgoingMail.objects.count()
    people = len(application_mails.owners_of(application.row))
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(tell, range(2))) == [0, 1]
    assert OutgoingMail.objects.count() == number + people
