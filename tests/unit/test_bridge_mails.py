"""People are told of a first consent and of a replayed code; those who look after an application, of a secret's end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from accounts.mail import outbox
from accounts.models import User
from oauth_bridge.applications import mails
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret, Consent
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, registered
from tests.grants import PAGE, answer, consent_page, link_of, redeem
from tests.pages import deliver_all, html_of, with_session
from tests.unit.conftest import START

Rewind = Callable[..., None]
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def delivered() -> list[tuple[str, str]]:
    mail.outbox.clear()
    deliver_all()
    return [(message.to[0], message.subject) for message in mail.outbox]


def said() -> str:
    return " ".join(str(mail.outbox[-1].body).split())


@pytest.mark.django_db
def test_the_first_consent_to_an_application_is_told_once(alice: User) -> None:
    application, browser = ApplicationFactory(name='Photo "Book" <b>'), with_session(alice)
    page = consent_page(browser, application)
    answer(with_session(PersonFactory(nickname="Mallory")), page)
    answer(Client(), page)
    answer(browser, page, "refuse")
    assert delivered() == []
    for _double_click in range(2):
        assert "code=" in answer(browser, page)["Location"]
    assert delivered() == [(alice.email, 'You allowed Photo "Book" <b> to use your account at Delegated Sign-In')]
    (message,) = mail.outbox
    assert "http://testserver/accounts/applications" in said()
    read = f"Picture Nickname: {alice.nickname} E-mail address: {alice.email} User ID: {alice.pk}"
    assert f"It can read: {read} " in said()
    assert "Photo &quot;Book&quot; &lt;b&gt;" in str(message.alternatives[0][0])
    Consent.objects.update(fingerprint="of earlier details")
    answer(browser, consent_page(browser, application), remember="on")
    assert delivered() == []
    link = link_of(ApplicationFactory(), scope="openid email")
    answer(browser, html_of(browser.get(link, headers=PAGE, follow=True)))
    assert len(delivered()) == 1
    assert f"It can read: E-mail address: {alice.email} User ID: {alice.pk} " in said()


def replay(application: Registered, person: User, rewind: Rewind, **change: Any) -> None:
    code = CodeFactory(application=application, user=person)
    assert redeem(application, code).status_code == 200
    rewind(code.row, 4)
    User.objects.filter(pk=person.pk).update(**{"is_active": True, **change})
    assert redeem(application, code).status_code == 400


@pytest.mark.django_db
def test_a_replayed_code_is_told_once_for_each_application(alice: User, rewind: Rewind) -> None:
    for change in ({"is_active": False}, {"email_verified_at": None}):
        replay(ApplicationFactory(), PersonFactory(), rewind, **change)
    assert delivered() == [], "nor to an address that is not the person's"
    ada = PersonFactory(is_superuser=True, is_staff=True)
    first, second = ApplicationFactory(name="Photo Book"), ApplicationFactory(name="Calendar")
    for application in (first, first, second):
        replay(application, alice, rewind)
    told = delivered()
    to_ada = sorted(subject for address, subject in told if address == ada.email)
    assert to_ada == [f"{name} sent a code a second time" for name in ("Calendar", "Photo Book")]
    assert {"Photo Book" in subject for address, subject in told if address == alice.email} == {True, False}
    assert len(told) == 4
    with time_machine.travel(timezone.now() + outbox.NOTICE_LIFETIME):
        delivered()
        replay(first, alice, rewind)
        assert alice.email in [address for address, _ in delivered()]


@pytest.fixture
def made(db: None, clock: time_machine.Coordinates) -> Application:
    PersonFactory(email="ada@example.com", is_superuser=True, is_staff=True)
    return registered()[0]


def told_at(clock: time_machine.Coordinates, after: timedelta) -> int:
    clock.move_to(START + after)
    mails.tell_of_ending_secrets(START + after)
    return len(delivered())


@pytest.mark.parametrize(
    ("lifetime", "told"),
    [
        (10 * DAY, {0: 0, 71: 0, 72: 1, 73: 0, 192: 0, 216: 1, 217: 0, 240: 0}),
        (DAY, {0: 1, 1: 0, 23: 0, 24: 0, 25: 0}),
    ],
)
def test_an_end_is_told_seven_days_and_one_day_before_once_each(
    made: Application, clock: time_machine.Coordinates, lifetime: timedelta, told: dict[int, int]
) -> None:
    assert told_at(clock, -HOUR) == 0, "it does not end"
    clock.move_to(START)
    secret_rotation.rotate(made, lifetime)
    assert {hours: told_at(clock, hours * HOUR) for hours in told} == told


def test_the_mail_names_application_number_end_last_use_and_page(made: Application) -> None:
    made.secrets.update(last_used_at=START - HOUR)
    new = secret_rotation.rotate(made, DAY).secret
    call_command("purge")
    assert delivered() == [("ada@example.com", "A client secret of Reading List ends soon")]
    named = "the client secret No. 1 of Reading List", "ends on 22 November 2026, 12:00 UTC"
    named += "last used on 21 November 2026, 11:00 UTC", f"/admin/oauth_bridge/application/{made.pk}/"
    assert [each for each in (*named, new) if each not in said()] == [new]


def test_nobody_is_told_of_a_useless_secret_or_twice_of_one(made: Application, clock: time_machine.Coordinates) -> None:
    secret_rotation.rotate(made, DAY)
    for change in ({"is_enabled": False}, {"is_enabled": True}):
        Application.objects.filter(pk=made.pk).update(**change)
        made.secrets.filter(number=1).update(is_revoked=change["is_enabled"])
        assert told_at(clock, MINUTE) == 0
    made.secrets.filter(number=1).update(is_revoked=False)

    def after_another(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        if sql.startswith("UPDATE"):
            execute(f"UPDATE {ApplicationSecret._meta.db_table} SET told_days = 1", [], False, more[-1])
        return execute(sql, *more)

    with connection.execute_wrapper(after_another):
        assert told_at(clock, HOUR) == 0, "it has marked the secret meanwhile"
