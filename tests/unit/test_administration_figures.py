"""The figures of the administration's pages: each names its time, and all pages count the same. D24."""

from __future__ import annotations

import html
import re
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from oauth_bridge.activity import counts, statistics
from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.administration import checks
from oauth_bridge.management import purging
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory
from tests.grants import HTML, Attempt
from tests.pages import html_of, text_of

pytestmark = pytest.mark.django_db

MISMATCH = "The callback address isn’t registered"


def count(client_id: str, hour: datetime, cause: str = "", number: int = 1) -> None:
    """Failures of a cause at the exchange, or finished sign-ins."""
    outcome = Outcome.REFUSED if cause else Outcome.SUCCEEDED
    at = hour.replace(minute=0, second=0, microsecond=0)
    ActivityCount.objects.create(
        hour=at, client_id=client_id, step=Step.EXCHANGE, outcome=outcome, cause=cause, number=number
    )


def links_to_causes(page: str) -> list[str]:
    return [html.unescape(url) for url in re.findall(r'href="(/admin/activity/\?[^"]*cause=[^"]*)"', page)]


def own_page(pk: int) -> str:
    return reverse("admin:application", args=[pk])


# One click from a cause to its attempts ------------------------------------------------------------------------------


def test_a_cause_leads_to_its_attempts_at_once(grace: Client) -> None:
    attempt = Attempt()
    Application.objects.filter(pk=attempt.application.row.pk).update(name="Reading List")
    attempt.browser.get(attempt.link(redirect_uri="https://www.client.example/callback"), **HTML)
    counts.flush()
    overview, own = (grace.get(each) for each in ("/admin/", own_page(attempt.application.row.pk)))
    assert "1 application turns people away" in text_of(overview)
    assert f"{MISMATCH} New Start, Reading List 1" in text_of(overview)
    assert "Reading List Failing" in text_of(own)
    for page in (overview, own):
        (url,) = links_to_causes(html_of(page))
        shown = grace.get(url)
        of_cause = html_of(shown)
        assert f"<h1>{MISMATCH}</h1>" in of_cause
        assert of_cause.count("<details open>") == 1, "the latest is open"
        assert reverse("admin:record", args=[ActivityRecord.objects.get().pk]) in of_cause
        assert " 1 time since " in text_of(shown)
        assert f"{MISMATCH} (1)" in text_of(shown), "a choice of the filter"


def test_a_cause_without_a_record_still_says_what_to_change_but_not_above_the_attempts_of_one(grace: Client) -> None:
    client_id, kept = ApplicationFactory().client_id, "Counted, but no record of it is kept"
    count(client_id, timezone.now(), "secret_wrong", 7)
    url = f"/admin/activity/?cause=secret_wrong&client_id={client_id}"
    said = text_of(grace.get(url))
    assert kept in said
    assert "Fix: No secret of this application matches the one that was sent." in said
    said = text_of(grace.get(f"{url}&who=nobody@example.org"))
    assert kept not in said
    assert "Nothing fits" in said


def test_a_step_leads_to_what_stopped_there_and_not_to_what_passed(grace: Client) -> None:
    person, now = PersonFactory(), timezone.now()
    values = {"at": now, "person": person, "step": Step.SIGN_IN, "client_id": ApplicationFactory().client_id}
    ActivityRecord.objects.create(outcome=Outcome.SUCCEEDED, attempt="0" * 31 + "1", **values)
    ActivityRecord.objects.create(outcome=Outcome.REFUSED, cause="password_wrong", attempt="0" * 31 + "2", **values)
    page = html_of(grace.get("/admin/activity/?step=sign_in"))
    assert page.count('class="opened"') == 1
    assert "Sign-in: Wrong password" in page


# What is cut is said -------------------------------------------------------------------------------------------------


def test_a_page_says_how_many_causes_it_leaves_out(grace: Client) -> None:
    application = ApplicationFactory()
    causes = "secret_wrong secret_expired code_spent code_raced code_expired verifier_wrong code_unknown code_misshapen"
    for cause in causes.split():
        count(application.client_id, timezone.now(), cause)
    for path, number, said in (
        ("/admin/", 8, ""),
        (own_page(application.row.pk), 6, "2 more causes are not shown here."),
    ):
        page = grace.get(path)
        assert len(links_to_causes(html_of(page))) == min(number, 8)
        assert said in text_of(page)


# What a cause says of people and times -------------------------------------------------------------------------------


@pytest.mark.integration
def test_a_code_that_nobody_exchanged_has_a_person_and_a_time_before_and_after_the_purge(grace: Client) -> None:
    now, (ada, bob) = timezone.now(), (PersonFactory(), PersonFactory())
    application, other = ApplicationFactory(), CodeFactory(issued_at=now - timedelta(minutes=71)).row.application
    for minutes, person in ((71, ada), (11, ada), (13, bob)):
        CodeFactory(application=application, user=person, issued_at=now - timedelta(minutes=minutes))
    counts.record_never_exchanged(now - timedelta(days=1))
    for since in (now, now + timedelta(hours=2)):
        list(purging.batches(since))
        met = statistics.met(statistics.start_of(1))
        people = {failing.client_id: found.people for failing, found in met.items()}
        assert people == {application.client_id: 2, other.client_id: 1}
        said = text_of(grace.get(f"/admin/activity/?client_id={application.client_id}"))
        assert "The application never asked for access (3)" in said


def test_the_numbers_of_everybody_do_not_stand_above_the_attempts_of_one(grace: Client) -> None:
    count("application", timezone.now(), "secret_wrong", 21)
    count("application", timezone.now(), number=5)
    Client().post("/accounts/sign-in", {"login": "nobody@example.org", "password": "wrong"}, **HTML)
    ActivityRecord.objects.update(reference="ABCDEFGH")
    who, reference = "who=nobody@example.org", "reference=ABCDEFGH"
    for query in (who, reference, f"{who}&cause=account_unknown", f"{reference}&step=sign_in"):
        page = grace.get(f"/admin/activity/?{query}")
        assert "Sign-in: No account has this address" in text_of(page)
        assert not re.search(r"21 failures|5 finished|[0-9] time|\(\d+\)", text_of(page))
        assert ("<h1>Attempts</h1>" in html_of(page)) is (query in (who, reference))


# All pages count the same --------------------------------------------------------------------------------------------


@pytest.mark.integration
def test_every_page_counts_the_same_failures_and_sign_ins(grace: Client) -> None:
    application = ApplicationFactory()
    day, month = statistics.start_of(1), statistics.start_of(30)
    count(application.client_id, day, "secret_wrong", 3)
    count(application.client_id, day - timedelta(hours=1), "secret_wrong", 5)
    count(application.client_id, month - timedelta(hours=1), "secret_wrong", 100)
    count(application.client_id, day, number=2)
    count(application.client_id, month, number=4)
    count(application.client_id, month - timedelta(hours=1), number=100)
    expired = timezone.now() - timedelta(minutes=1)
    CodeFactory(application=application, issued_at=expired - timedelta(minutes=10))
    counts.record_never_exchanged(expired - timedelta(days=1))
    said = text_of(grace.get("/admin/"))
    assert "4 failures, 2 finished sign-ins. Day before: 5 failures, 0 finished sign-ins" in said
    assert "4 failures, 2 finished sign-ins" in text_of(grace.get("/admin/activity/"))
    assert "9 failures, 6 finished sign-ins" in text_of(grace.get("/admin/activity/?days=30"))
    listed = text_of(grace.get(reverse("admin:oauth_bridge_application_changelist")))
    assert "6 sign-ins in 30 days 4 failed in 24 h" in listed
    said = text_of(grace.get(reverse("admin:application", args=[application.row.pk])))
    assert "Sign-ins, 24 hours 2 Sign-ins, 30 days 6" in said
    assert "Failures, 30 days 9" in said
    assert "6 finished and 9 failed in 30 days" in html_of(
        grace.get(f"/admin/oauth_bridge/application/{application.row.pk}/")
    )


def test_the_overview_counts_the_applications_that_the_list_calls_failing(grace: Client) -> None:
    """What an application was refused while it was switched off is no failure once it is on again."""
    rare, often, again, off = *(ApplicationFactory() for _ in range(3)), ApplicationFactory(is_enabled=False)
    for each, finished, cause in (
        (rare, 100, NEVER_EXCHANGED),
        (often, 1, NEVER_EXCHANGED),
        (again, 1, "client_disabled"),
        (off, 1, NEVER_EXCHANGED),
    ):
        count(each.client_id, timezone.now(), cause)
        count(each.client_id, timezone.now(), number=finished)
    assert "1 application turns people away" in text_of(grace.get("/admin/"))
    listed = text_of(grace.get(reverse("admin:oauth_bridge_application_changelist")))
    assert listed.count("Failing") == 1


def test_the_last_sign_in_is_a_redeemed_code_and_not_a_use_of_the_secret() -> None:
    application, now = ApplicationFactory(), timezone.now()

    def last() -> datetime | None:
        return checks.summaries([application.row])[application.row.pk].last_at

    application.row.secrets.update(last_used_at=now)
    assert last() is None
    code = CodeFactory(application=application, redeemed_at=now - timedelta(minutes=7))
    assert last() == code.row.redeemed_at
    code.row.delete()
    hour = (now - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    count(application.client_id, hour)
    assert last() == hour


# Who looks after it --------------------------------------------------------------------------------------------------


def test_an_application_without_an_owner_is_named_where_others_have_one(grace: Client) -> None:
    owned, unowned = ApplicationFactory(), ApplicationFactory()
    changelist = reverse("admin:oauth_bridge_application_changelist")
    assert "No owner" not in text_of(grace.get(changelist)), "nobody names owners here"
    owner = PersonFactory(is_staff=True)
    owned.row.owners.add(owner)
    assert text_of(grace.get(changelist)).count("No owner") == 1
    Application.objects.filter(pk=unowned.row.pk).update(name="Photo Wall")
    said = text_of(grace.get("/admin/"))
    assert "Photo Wall No owner Nobody who can look after it is named as its owner" in said
    owner.is_staff = False
    owner.save()
    assert text_of(grace.get(changelist)).count("No owner") == 2
