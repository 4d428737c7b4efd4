"""Rotating a client secret in Django admin: with an overlap, or at once when it has leaked."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from oauth_bridge.credentials import secret_rotation
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.models import Application
from tests.factories import registered
from tests.pages import admin_page, html_of, proven, secret_on, text_of

pytestmark = pytest.mark.django_db
START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def clock(db):
    with time_machine.travel(START, tick=False) as clock:
        yield clock


@pytest.fixture
def admin_client(clock, admin_client):
    """The administrator typed the password at START."""
    return proven(admin_client)


@pytest.fixture
def made(clock):
    return registered()


def working(application):
    return [bytes(row.digest) for row in application.secrets.all() if row.works]


@pytest.mark.parametrize(("hours", "until"), [(1, "21 November 2026, 13:00"), (168, "28 November 2026, 12:00")])
def test_the_old_secret_works_for_as_long_as_was_chosen(admin_client, admin_user, made, hours, until):
    application, old = made
    answer = admin_client.post(admin_page(application, "secret"), {"overlap": hours, "name": "Of the <shop>"})
    assert answer.status_code == 303
    page = admin_client.get(answer["Location"])
    new = secret_on(page)
    assert f"works until {until}" in text_of(page)
    assert working(application) == [digest_of(new), digest_of(old)]
    assert application.secrets.last().expires_at == START + timedelta(hours=hours)
    assert "js/download.js" in html_of(page)
    again = admin_client.get(answer["Location"])
    assert secret_on(again) is None
    assert "download" not in html_of(again)
    said = text_of(again)
    assert f"No. 2 {application.secrets.get(number=2).prefix}… Of the <shop> Works" in said
    assert f"made 21 November 2026, 12:00 by {admin_user.display_name}" in said
    assert "made 21 November 2026, 12:00 on the command line" in said
    answer = admin_client.post(admin_page(application, "secret"), {"overlap": "0", "confirmed": "on"})
    page = admin_client.get(answer["Location"])
    assert "ended 21 November 2026, 12:00" in text_of(page), "at once"
    assert working(application) == [digest_of(secret_on(page))]
    said = text_of(admin_client.get(admin_page(application, "history"), follow=True))
    assert "Number 2 The older secrets end 20" in said
    assert "Number 3 The older secrets end now" in said


def test_a_form_that_makes_no_secret_says_why(admin_client, made):
    application, old = made
    page, error = admin_page(application, "secret"), 'class="notice error"'
    for data, said in (
        ({}, error),
        ({"overlap": "2"}, error),
        ({"confirmed": "on"}, error),
        ({"overlap": "24", "name": "x" * 81}, error),
        ({"overlap": "0"}, "Confirm that the older secrets are to end at once."),
    ):
        assert said in html_of(admin_client.post(page, data)), data
        assert working(application) == [digest_of(old)]
    for _ in range(secret_rotation.MOST_WORKING - 1):
        secret_rotation.rotate(application)
    assert "Too many secrets still work." in text_of(admin_client.post(page, {"overlap": "24"}))
    assert len(working(application)) == secret_rotation.MOST_WORKING


def test_both_pages_tell_of_each_secret_what_is_known(admin_client, made, clock):
    application, old = made
    application.secrets.update(last_used_at=START - timedelta(minutes=5))
    new = secret_rotation.rotate(application, timedelta(hours=1)).secret
    pages = [admin_page(application, "secret"), admin_page(application)]
    for said in (text_of(admin_client.get(page)) for page in pages):
        assert "Works Never used, made 21 November 2026, 12:00" in said
        assert "Ends in 1 hour Last used 5 minutes ago, works until 21 November 2026, 13:00, made" in said
        assert "It is still used" not in said
    application.secrets.filter(number=1).update(last_used_at=START + timedelta(minutes=1))
    assert "It is still used" in text_of(admin_client.get(pages[0]))
    clock.move_to(START + timedelta(hours=1))
    proven(admin_client)
    assert "Ended Last used 59 minutes ago, ended 21 November 2026, 13:00" in text_of(admin_client.get(pages[1]))
    for page in map(admin_client.get, pages):
        for hidden in (old, new, digest_of(old).hex(), digest_of(new).hex()):
            assert hidden not in html_of(page)


@pytest.mark.parametrize("name", ["end", "leaked"])
def test_one_secret_is_ended_where_it_is_listed(admin_client, made, name):
    application, _ = made
    new = secret_rotation.rotate(application, timedelta(hours=24)).secret
    act = admin_page(application, "secret_act", 1, name)
    for address in (admin_page(application, "secret"), admin_page(application)):
        assert f'href="{act}"' in html_of(admin_client.get(address))
    is_leaked = name == "leaked"
    assert ("codes and access tokens of the application" in text_of(admin_client.get(act))) is is_leaked
    page = admin_client.post(act, follow=True)
    said = "No. 1 had leaked: it ended at once, with all codes" if is_leaked else "Client secret No. 1 ended at once."
    assert said in text_of(page)
    assert f'href="{act}"' not in html_of(page)
    assert working(application) == [digest_of(new)]
    assert application.secrets.get(number=1).is_leaked is is_leaked
    for number, wrong in ((7, name), (1, "other")):
        assert admin_client.post(admin_page(application, "secret_act", number, wrong)).status_code == 404


def test_a_public_application_and_one_that_was_deleted_have_no_secret(admin_client):
    public = Application.objects.create(name="Public", redirect_uris="https://a.example/", client_type="public")
    page = admin_page(public, "secret")
    for answer in (admin_client.get(page), admin_client.post(page, {"overlap": "24"})):
        assert answer.status_code == 302
    assert "This application is public: it has no secret." in text_of(admin_client.get(answer["Location"]))
    assert not public.secrets.exists()
    public.delete()
    assert admin_client.get(page).status_code == 404
