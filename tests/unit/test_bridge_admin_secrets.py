"""Rotating a client secret in Django admin: with an overlap, or at once when it has leaked."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.urls import reverse

from oauth_bridge.credentials import secret_rotation
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.models import Application
from tests.factories import registered
from tests.pages import html_of, proven, secret_on, text_of

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
    assert f"works until {until}" in text_of(page)
    assert working(application) == [digest_of(new), digest_of(old)]
    assert application.secrets.last().expires_at == START + timedelta(hours=hours)
    assert "js/download.js" in html_of(page)
    again = admin_client.get(answer["Location"])
    assert secret_on(again) is None
    assert "download" not in html_of(again)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, 'class="notice error"'),
        ({"overlap": "2"}, 'class="notice error"'),
        ({"confirmed": "on"}, 'class="notice error"'),
        ({"overlap": "24", "name": "x" * 81}, 'class="notice error"'),
        ({"overlap": "0"}, "Confirm that the older secrets are to end at once."),
    ],
)
def test_a_form_that_makes_no_secret_says_why(admin_client, made, data, said):
    application, old = made
    page = admin_client.post(page_of(application), data)
    assert page.status_code == 200
    assert said in html_of(page)
    assert working(application) == [digest_of(old)]


def test_more_secrets_than_can_work_are_refused_in_words(admin_client, made):
    application, _ = made
    for _ in range(secret_rotation.MOST_WORKING - 1):
        secret_rotation.rotate(application)
    page = admin_client.post(page_of(application), {"overlap": "24"})
    assert "Too many secrets still work." in text_of(page)
    assert len(working(application)) == secret_rotation.MOST_WORKING


def test_both_pages_tell_of_each_secret_what_is_known(admin_client, made, clock):
    application, old = made
    application.secrets.update(last_used_at=START - timedelta(minutes=5))
    new = secret_rotation.rotate(application, timedelta(hours=1)).secret
    clock.move_to(START)
    own = reverse("admin:application", args=[application.pk])
    for page in (page_of(application), own):
        said = text_of(admin_client.get(page))
        assert "Works Never used, made 21 November 2026, 12:00 UTC" in said
        assert "Ends in 1 hour Last used 5 minutes ago , works until 21 November 2026, 13:00 UTC , made" in said
    clock.move_to(START + timedelta(hours=1))
    proven(admin_client)
    assert "Ended Last used 1 hour ago , ended 21 November 2026, 13:00" in text_of(admin_client.get(own))
    for page in (admin_client.get(page_of(application)), admin_client.get(own)):
        for hidden in (old, new, digest_of(old).hex(), digest_of(new).hex()):
            assert hidden not in html_of(page)


def test_the_pages_and_the_history_number_the_secrets_and_name_their_makers(admin_client, admin_user, made):
    application, _ = made
    admin_client.post(page_of(application), {"overlap": "24", "name": "Of the <shop>"})
    page = admin_client.get(page_of(application))
    prefix = application.secrets.get(number=2).prefix
    said = text_of(page)
    assert f"No. 2 {prefix}… Of the <shop> Works" in said
    assert f"made 21 November 2026, 12:00 UTC by {admin_user.display_name}" in said
    assert "made 21 November 2026, 12:00 UTC on the command line" in said
    assert "Of the &lt;shop&gt;" in html_of(page)
    for used, after, is_told in ((1, 1, True), (2, 120, False)):
        application.secrets.filter(number=used).update(last_used_at=START + timedelta(minutes=after))
        assert ("It is still used" in text_of(admin_client.get(page_of(application)))) is is_told
    assert "No. 1" in text_of(admin_client.get(reverse("admin:application", args=[application.pk])))
    answer = admin_client.post(page_of(application), {"overlap": "0", "confirmed": "on"})
    page = admin_client.get(answer["Location"])
    assert "ended 21 November 2026, 12:00" in text_of(page), "at once"
    assert working(application) == [digest_of(secret_on(page))]
    said = text_of(admin_client.get(page_of(application, "history"), follow=True))
    assert "Number 2 The older secrets end 22 November 2026" in said
    assert "Number 3 The older secrets end at once" in said


@pytest.mark.parametrize("name", ["end", "leaked"])
def test_one_secret_is_ended_where_it_is_listed(admin_client, made, name):
    application, _ = made
    new = secret_rotation.rotate(application, timedelta(hours=24)).secret
    act = reverse("admin:application_secret_act", args=[application.pk, 1, name])
    for address in (page_of(application), reverse("admin:application", args=[application.pk])):
        assert f'href="{act}"' in html_of(admin_client.get(address))
    assert "with all access of the application" in text_of(admin_client.get(act)) or name == "end"
    is_leaked = name == "leaked"
    page = admin_client.post(act, follow=True)
    said = "No. 1 had leaked: it ended at once, with all access" if is_leaked else "Client secret No. 1 ended at once."
    assert said in text_of(page)
    assert f'href="{act}"' not in html_of(page)
    recorded = "Ended a client secret that had leaked" if is_leaked else "Ended a client secret"
    assert recorded in text_of(admin_client.get(page_of(application, "history"), follow=True))
    assert working(application) == [digest_of(new)]
    assert application.secrets.get(number=1).is_leaked is is_leaked
    for wrong in ([application.pk, 7, name], [application.pk, 1, "other"], [0, 1, name]):
        assert admin_client.post(reverse("admin:application_secret_act", args=wrong)).status_code == 404


def test_a_public_application_and_one_that_was_deleted_have_no_secret(admin_client):
    public = Application.objects.create(name="Public", redirect_uris="https://a.example/", client_type="public")
    for answer in (admin_client.get(page_of(public)), admin_client.post(page_of(public), {"overlap": "24"})):
        assert answer.status_code == 302
    assert "This application has no secret." in text_of(admin_client.get(answer["Location"]))
    assert "Client secrets" not in text_of(admin_client.get(page_of(public, "change")))
    assert not public.secrets.exists()
    page = page_of(public)
    public.delete()
    assert admin_client.get(page).status_code == 404
