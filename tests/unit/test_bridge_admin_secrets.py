"""Rotating a client secret in Django admin: with an overlap, or at once when it has leaked."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.urls import reverse

from oauth_bridge.models import Application
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import applications, client_secrets
from tests.pages import secret_on, text_of

START = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
def clock(db):
    with time_machine.travel(START, tick=False) as clock:
        yield clock


@pytest.fixture
def made(clock):
    return applications.register(name="Reading List", redirect_uris=["https://reading.example/callback"])


def page_of(application, name="secret"):
    return reverse(f"admin:oauth_bridge_application_{name}", args=[application.pk])


def working(application):
    return [bytes(row.digest) for row in application.secrets.all() if row.works]


@pytest.mark.parametrize(
    ("hours", "until"),
    [(1, "21 November 2026, 13:00"), (24, "22 November 2026, 12:00"), (168, "28 November 2026, 12:00")],
)
def test_the_old_secret_works_for_as_long_as_was_chosen(admin_client, made, hours, until):
    application, old = made
    answer = admin_client.post(page_of(application), {"overlap": hours})
    assert answer.status_code == 303
    page = admin_client.get(answer["Location"])
    new = secret_on(page)
    assert f"Works until {until}" in text_of(page)
    assert working(application) == [digest_of(new), digest_of(old)]
    assert application.secrets.last().expires_at == START + timedelta(hours=hours)
    assert secret_on(admin_client.get(answer["Location"])) is None


def test_a_leaked_secret_is_ended_at_once_when_that_is_confirmed(admin_client, made):
    application, _leaked = made
    page = admin_client.post(page_of(application), {"overlap": "0"})
    assert "Confirm that the older secrets are to end at once." in text_of(page)
    assert application.secrets.count() == 1

    answer = admin_client.post(page_of(application), {"overlap": "0", "confirmed": "on"})
    page = admin_client.get(answer["Location"])
    assert "Ended 21 November 2026, 12:00" in text_of(page)
    assert working(application) == [digest_of(secret_on(page))]


@pytest.mark.parametrize("data", [{}, {"overlap": ""}, {"overlap": "2"}, {"overlap": "x"}, {"confirmed": "on"}])
def test_a_form_without_a_choice_makes_no_secret(admin_client, made, data):
    application, old = made
    page = admin_client.post(page_of(application), data)
    assert page.status_code == 200
    assert 'class="notice error"' in page.content.decode()
    assert working(application) == [digest_of(old)]


def test_more_secrets_than_can_work_are_refused_in_words(admin_client, made):
    application, _ = made
    for _ in range(client_secrets.MOST_WORKING - 1):
        client_secrets.rotate(application)
    page = admin_client.post(page_of(application), {"overlap": "24"})
    assert "Too many secrets still work." in text_of(page)
    assert len(working(application)) == client_secrets.MOST_WORKING


def test_both_pages_tell_of_each_secret_what_is_known(admin_client, made, clock):
    application, old = made
    application.secrets.update(last_used_at=START - timedelta(minutes=5))
    new = client_secrets.rotate(application, timedelta(hours=1)).secret
    clock.move_to(START)
    said = text_of(admin_client.get(page_of(application)))
    assert "Works Never used No." in said
    assert "Works until 21 November 2026, 13:00 Last used 21 November 2026, 11:55 No." in said
    assert "made 21 November 2026, 12:00" in said
    own = reverse("admin:application", args=[application.pk])
    said = text_of(admin_client.get(own))
    assert "Works Never used" in said
    assert "Ends in 1 hour Last used 5 minutes ago" in said
    clock.move_to(START + timedelta(hours=1))
    assert "Ended 21 November 2026, 13:00" in text_of(admin_client.get(page_of(application)))
    assert "Ended Last used" in text_of(admin_client.get(own))
    for page in (admin_client.get(page_of(application)), admin_client.get(own)):
        for credential in (old, new):
            assert credential not in page.content.decode()
            assert digest_of(credential).hex() not in page.content.decode()


def test_rotations_are_in_the_history(admin_client, made):
    application, _ = made
    admin_client.post(page_of(application), {"overlap": "24"})
    admin_client.post(page_of(application), {"overlap": "0", "confirmed": "on"})
    said = text_of(admin_client.get(page_of(application, "history")))
    assert "New client secret; the older ones work for 24 hours at most." in said
    assert "New client secret; the older ones ended at once." in said


def test_a_public_application_is_told_to_have_no_secret(admin_client):
    public = Application.objects.create(name="Public", redirect_uris="https://a.example/", client_type="public")
    for answer in (admin_client.get(page_of(public)), admin_client.post(page_of(public), {"overlap": "24"})):
        assert answer.status_code == 302
    assert "This application is public: it has no secret." in text_of(admin_client.get(answer["Location"]))
    assert "Client secrets" not in text_of(admin_client.get(page_of(public, "change")))
    assert not public.secrets.exists()


def test_an_application_that_was_deleted_meanwhile_is_told_to_be_gone(admin_client):
    page = admin_client.get("/admin/oauth_bridge/application/999999/secret/", follow=True)
    assert page.redirect_chain == [("/admin/", 302)]
    assert "doesn’t exist" in page.content.decode()
