"""Client secrets: numbers and states, rotation, use and end, what ends with a leaked one, and the pages of both."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from config.infrastructure.errors import RequestError
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.errors import OAuthFault
from oauth_bridge.management import purging
from oauth_bridge.models import Application, ApplicationSecret
from oauth_bridge.models.secrets import State
from oauth_bridge.oauth import exchange
from tests.factories import CodeFactory, Registered, TokenFactory, registered
from tests.grants import read, redeem
from tests.pages import admin_page, html_of, secret_on, text_of
from tests.unit.conftest import START

pytestmark = [pytest.mark.django_db, pytest.mark.integration, pytest.mark.usefixtures("clock")]

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)

Made = tuple[Application, str]


@pytest.fixture
def made() -> Made:
    return registered()


def exchanged(application: Application, secret: str) -> str:
    code = CodeFactory(application=application, application_version=application.credentials_version)
    return str(redeem(Registered(application, secret), code).json()["access_token"])


def test_all_codes_and_tokens_end_with_a_leaked_secret(made: Made, clock: time_machine.Coordinates) -> None:
    application, first = made
    second = secret_rotation.rotate(application, HOUR).secret
    ended = [exchanged(application, each) for each in (first, second)]
    code, elsewhere = CodeFactory(application=application), TokenFactory()
    secret_rotation.revoke(application, 1, is_leaked=True)
    assert [read(token).status_code for token in (*ended, elsewhere.raw)] == [401, 401, 200]
    assert "The code has been revoked" in redeem(Registered(application, second), code).json()["error_description"]
    token = exchanged(application, second)
    secret_rotation.revoke(application, 1, is_leaked=True)
    secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    assert read(token).status_code == 200, "the same leak ends nothing twice"
    clock.move_to(START + MINUTE)
    assert secret_rotation.revoke(application, 2, is_leaked=True).expires_at == START, "it had ended before"
    assert read(token).status_code == 401
    secret_rotation.revoke(application, 2)
    assert secret_rotation.states(application)[1].state is State.LEAKED


def test_an_older_secret_is_still_used_until_a_newer_one_is(made: Made, clock: time_machine.Coordinates) -> None:
    """For an hour, because a part of the application may use the old one."""
    application, _ = made
    clock.move_to(START + MINUTE)
    secret_rotation.rotate(application, 7 * DAY)
    for first, second, is_still_used in (
        (-DAY, None, False),  # nothing uses the new one yet
        (HOUR, None, True),
        (HOUR, 2 * HOUR - MINUTE, True),
        (HOUR, 2 * HOUR, False),
        (2 * HOUR, 2 * HOUR, True),
    ):
        application.secrets.filter(number=1).update(last_used_at=START + first)
        application.secrets.filter(number=2).update(last_used_at=None if second is None else START + second)
        assert secret_rotation.states(application)[-1].is_still_used is is_still_used, (first, second)
    secret_rotation.revoke(application, 1)
    assert not secret_rotation.states(application)[-1].is_still_used, "it has ended"


def fault_of(application, secret):
    try:
        exchange.authenticated_client({"client_id": application.client_id, "client_secret": secret}, "192.0.2.1")
    except RequestError as refused:
        return refused.fault
    return None


def test_a_secret_ends_when_its_overlap_does_and_one_ended_at_once_stays_so_when_the_clock_steps_back(made, clock):
    application, old = made
    secret_rotation.rotate(application, HOUR)
    for after, fault in (
        (HOUR - timedelta(microseconds=1), None),
        (HOUR, OAuthFault.CLIENT_SECRET_EXPIRED),
        (HOUR + timedelta(days=89), OAuthFault.CLIENT_SECRET_EXPIRED),
    ):
        clock.move_to(START + after)
        assert fault_of(application, old) is fault
    secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    clock.move_to(START)
    assert [secret.works for secret in application.secrets.all()] == [True, False, False]


def test_an_expired_secret_is_kept_for_90_days_and_ten_of_an_application_and_no_number_comes_again(made, clock):
    application, first = made
    secret_rotation.rotate(application, HOUR)
    list(purging.batches(START + HOUR + 90 * DAY - timedelta(microseconds=1)))
    assert application.secrets.count() == 2
    list(purging.batches(START + HOUR + 90 * DAY))
    assert fault_of(application, first) is OAuthFault.CLIENT_NOT_AUTHENTICATED
    assert application.secrets.get().works
    for number in range(12):
        clock.move_to(START + number * MINUTE)
        secret_rotation.rotate(application, secret_rotation.REVOKE_NOW)
    assert application.secrets.filter(is_revoked=True).count() == secret_rotation.MOST_EXPIRED
    assert application.secrets.filter(is_revoked=True).earliest("expires_at").expires_at == START + 2 * MINUTE
    secret_rotation.revoke(application, 14)
    clock.move_to(START + 91 * DAY)
    list(purging.batches(START + 91 * DAY))
    secret_rotation.rotate(application)
    assert application.secrets.get().number == 15


def test_the_use_of_the_secret_that_was_sent_and_let_in_is_noted_once_a_minute(made, clock):
    application, old = made
    rotation = secret_rotation.rotate(application, HOUR)
    new = rotation.secret
    assert new not in repr(rotation)
    fault_of(application, "wrong")
    assert not ApplicationSecret.objects.exclude(last_used_at=None).exists()
    for after, noted in ((0, 0), (1, 0), (59.999999, 0), (60, 60), (119, 60), (121, 121), (50, 121)):
        clock.move_to(START + timedelta(seconds=after))
        assert fault_of(application, new) is None
        assert [row.last_used_at for row in application.secrets.all()] == [START + timedelta(seconds=noted), None]
    clock.move_to(START + HOUR)
    assert fault_of(application, old) is OAuthFault.CLIENT_SECRET_EXPIRED
    assert application.secrets.last().last_used_at is None


def working(application):
    return [bytes(row.digest) for row in application.secrets.all() if row.works]


@pytest.mark.parametrize(("hours", "until"), [(1, "21 November 2026, 13:00"), (168, "28 November 2026, 12:00")])
def test_the_old_secret_works_for_as_long_as_was_chosen(admin_client, admin_user, made, hours, until):
    application, old = made
    rotate = admin_page(application, "act", "new-secret")
    answer = admin_client.post(rotate, {"overlap": hours, "name": "Of the <shop>"})
    assert answer.status_code == 303
    new = secret_on(admin_client.get(answer["Location"]))
    assert working(application) == [digest_of(new), digest_of(old)]
    assert application.secrets.last().expires_at == START + timedelta(hours=hours)
    again = admin_client.get(answer["Location"], follow=True)
    assert again.redirect_chain == [(admin_page(application), 302)]
    assert secret_on(again) is None
    said = text_of(again)
    assert f"works until {until}" in said
    assert f"No. 2 {application.secrets.get(number=2).prefix}… Of the <shop> Works" in said
    assert f"made 21 November 2026, 12:00 UTC by {admin_user.display_name}" in said
    assert "made 21 November 2026, 12:00 UTC on the command line" in said
    newest = secret_on(admin_client.post(rotate, {"overlap": "24", "confirmed": "on"}, follow=True))
    assert working(application) == [digest_of(newest)], "at once"
    said = text_of(admin_client.get(admin_page(application, "history"), follow=True))
    assert f"Number 2 The older secrets end {until}" in said
    assert "Number 3 The older secrets end at once" in said


def test_a_form_that_makes_no_secret_says_why(admin_client, made):
    application, old = made
    page = admin_page(application, "act", "new-secret")
    for data in ({}, {"overlap": "2"}, {"overlap": "24", "name": "x" * 81}, {"overlap": "0"}):
        assert 'aria-invalid="true"' in html_of(admin_client.post(page, data)), data
        assert working(application) == [digest_of(old)]
    for _ in range(secret_rotation.MOST_WORKING - 1):
        secret_rotation.rotate(application)
    assert "Too many secrets still work." in text_of(admin_client.post(page, {"overlap": "24"}))
    assert len(working(application)) == secret_rotation.MOST_WORKING


def test_the_page_tells_of_each_secret_what_is_known(admin_client, made, clock):
    application, old = made
    application.secrets.update(last_used_at=START - timedelta(minutes=5))
    new = secret_rotation.rotate(application, timedelta(hours=1)).secret
    page = admin_page(application)
    said = text_of(admin_client.get(page))
    assert "Works Never used, made 21 November 2026, 12:00 UTC" in said
    assert "Ends in 1 hour Last used 5 minutes ago , works until 21 November 2026, 13:00 UTC , made" in said
    assert "It is still used" not in said
    application.secrets.filter(number=1).update(last_used_at=START + timedelta(minutes=1))
    assert "It is still used" in text_of(admin_client.get(page))
    clock.move_to(START + timedelta(hours=1))
    html = html_of(admin_client.get(page))
    assert "Ended Last used 59 minutes ago , ended 21 November 2026, 13:00" in text_of(html)
    assert [each for each in (old, new, digest_of(old).hex(), digest_of(new).hex()) if each in html] == []


@pytest.mark.parametrize("name", ["end", "leaked"])
def test_one_secret_is_ended_where_it_is_listed_and_the_last_one_with_a_warning(admin_client, made, name):
    application, _ = made
    act, warning = admin_page(application, "secret_act", 1, name), "No other secret works"
    assert warning in text_of(admin_client.get(act))
    new = secret_rotation.rotate(application, timedelta(hours=24)).secret
    assert warning not in text_of(admin_client.get(act))
    assert f'href="{act}"' in html_of(admin_client.get(admin_page(application)))
    is_leaked = name == "leaked"
    assert ("with all access of the application" in text_of(admin_client.get(act))) is is_leaked
    page = admin_client.post(act, follow=True)
    said = "No. 1 had leaked: it ended at once, with all access" if is_leaked else "Client secret No. 1 ended at once."
    assert said in text_of(page)
    assert f'href="{act}"' not in html_of(page)
    assert working(application) == [digest_of(new)]
    assert application.secrets.get(number=1).is_leaked is is_leaked
    assert admin_client.post(admin_page(application, "secret_act", 7, name)).status_code == 404


def test_without_a_secret_that_works_the_form_offers_no_overlap(admin_client, made):
    application, _ = made
    secret_rotation.revoke(application, 1)
    page = admin_page(application, "act", "new-secret")
    html = html_of(admin_client.get(page))
    assert [each for each in ("go on working", 'name="overlap"', 'name="confirmed"') if each in html] == []
    admin_client.post(page, {"name": "The first"})
    assert len(working(application)) == 1
    assert "go on working" in html_of(admin_client.get(page))


def test_a_public_application_and_one_that_was_deleted_have_no_secret(admin_client):
    public = Application.objects.create(name="Public", redirect_uris="https://a.example/", client_type="public")
    page = admin_page(public, "act", "new-secret")
    assert admin_client.post(page, {"overlap": "24"})["Location"] == admin_page(public)
    assert not public.secrets.exists()
    public.delete()
    assert admin_client.get(page).status_code == 404
