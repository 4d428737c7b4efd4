"""What the page of a record says: advice in plain words, whose it is, and what leads to the fix. D24."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts
from oauth_bridge.activity.causes import fix_of
from oauth_bridge.administration.record import OF_THE_SECRET
from oauth_bridge.applications.registry import set_groups
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.factories import ApplicationFactory, PersonFactory, Registered
from tests.pages import html_of, text_of, with_session
from tests.unit.test_administration import staff

pytestmark = pytest.mark.django_db

ACTIVITY, VIEW = "oauth_bridge.view_activityrecord", "oauth_bridge.view_application"


def page_of(cause: str, step: Step = Step.EXCHANGE, **fields: Any) -> str:
    """The page of a new record with this cause, which is counted."""
    made = ActivityRecord.objects.create(
        outcome=Outcome.REFUSED, cause=cause, step=step, **{"at": timezone.now(), "reference": "ABCD1234", **fields}
    )
    counts.count(made.at, made.client_id, step, Outcome.REFUSED, cause)
    counts.flush()
    return reverse("admin:record", args=[made.pk])


def named(name: str, **fields: Any) -> Application:
    row: Application = ApplicationFactory(name=name, **fields).row
    return row


# The person ----------------------------------------------------------------------------------------------------------


def test_a_limit_says_when_it_ends(grace: Client) -> None:
    page = page_of("sign_in_limited_account", Step.SIGN_IN, detail={"seconds": 90}, person=PersonFactory())
    end = ActivityRecord.objects.get().at + timedelta(seconds=90)
    said = text_of(grace.get(page))
    assert f"{end:%H:%M:%S} UTC" in said.partition("Limited until")[2][:60]
    assert "Not yet mended." in said
    assert "Limited until" not in text_of(grace.get(page_of("busy", detail={"seconds": 5})))
    hour_ago, known = timezone.now() - timedelta(hours=1), named("Kiosk").client_id
    page = page_of("throttled_token", client_id=known, detail={"seconds": 5}, at=hour_ago)
    assert "ended." not in text_of(grace.get(page)), "that mends nothing of an application"


@pytest.mark.parametrize(
    ("cause", "step"), [("sign_in_limited_account", Step.SIGN_IN), ("factor_limited", Step.SECOND_FACTOR)]
)
def test_a_limit_that_ended_or_was_unlocked_needs_no_act(grace: Client, cause: str, step: Step) -> None:
    person, other, minute_ago = PersonFactory(), PersonFactory(), timezone.now() - timedelta(minutes=1)
    unlock = f"{reverse('admin:person', args=[person.pk])}?act=unlock"
    grace.post(unlock)
    holds = page_of(cause, step, detail={"seconds": 90}, person=person)
    over = page_of(cause, step, detail={"seconds": 59}, person=person, at=minute_ago)
    of_network = page_of("sign_in_limited_address", Step.SIGN_IN, detail={"seconds": 90}, person=person)
    assert "Mended." in text_of(grace.get(over))
    grace.post(reverse("admin:person", args=[other.pk]) + "?act=unlock")
    grace.post(reverse("admin:person", args=[person.pk]) + "?act=sign-out")
    page = grace.get(holds)
    assert "Not yet mended." in text_of(page)
    assert f'href="{unlock}"' in html_of(page)
    own = reverse("admin:person", args=[person.pk])
    assert "this person must wait until" in text_of(grace.get(own))
    assert unlock not in html_of(staff(ACTIVITY, "accounts.view_user").get(holds))
    grace.post(unlock)
    assert "must wait until" not in text_of(grace.get(own))
    assert "Not yet mended." in text_of(grace.get(of_network))
    for page in (grace.get(holds), grace.get(over)):
        assert "Mended." in text_of(page)
        assert unlock not in html_of(page)


def test_an_unconfirmed_address_leads_to_its_confirmation_and_is_mended(grace: Client) -> None:
    person = PersonFactory(email_verified_at=None)
    url = f"{reverse('admin:person', args=[person.pk])}?act=confirm"
    pages = (
        page_of("address_unconfirmed", Step.SIGN_IN, person=person),
        page_of("no_verified_email", Step.CONSENT, person=person, client_id=named("Kiosk").client_id),
    )
    for page in map(grace.get, pages):
        assert f'href="{url}"' in html_of(page)
        assert "Not yet mended." in text_of(page)
    User.objects.filter(pk=person.pk).update(email_verified_at=timezone.now())
    for page in map(grace.get, pages):
        assert "Mended. The advice was: " in text_of(page)
        assert url not in html_of(page)


def test_a_person_in_no_group_leads_to_the_groups_until_it_is_mended(grace: Client) -> None:
    application, person = named("Payroll"), PersonFactory()
    group = Group.objects.create(name="Accountants")
    set_groups(application, [group])
    page = page_of("not_admitted", Step.CONSENT, client_id=application.client_id, person=person)
    url = reverse("admin:accounts_user_change", args=[person.pk])
    assert f'href="{url}"' in html_of(grace.get(page))
    assert "Its groups: Accountants." in text_of(grace.get(page))
    assert url not in html_of(staff(ACTIVITY, VIEW, "accounts.view_user").get(page))
    assert "Accountants" not in text_of(staff(ACTIVITY).get(page))
    person.groups.add(group)
    said = text_of(grace.get(page))
    assert url not in html_of(grace.get(page))
    assert "Nothing to change any more Mended." in said
    assert "Fix:" not in said
    assert "Its groups" not in said


# The application -----------------------------------------------------------------------------------------------------


def test_find_lists_the_records_that_have_one_reference_together(grace: Client) -> None:
    page = page_of("secret_wrong")
    assert grace.get("/admin/find/", {"q": "abcd 1234"}).headers["Location"] == page
    page_of("password_wrong", Step.SIGN_IN)
    location = grace.get("/admin/find/", {"q": "abcd 1234"}).headers["Location"]
    assert location.startswith("/admin/activity/?")
    listed = text_of(grace.get(location))
    assert "The client secret is wrong" in listed
    assert "Wrong password" in listed


@pytest.mark.parametrize("kind", ["secret", "code"])
def test_the_secret_or_code_of_another_application_names_it_to_who_may_see_it(grace: Client, kind: str) -> None:
    attacked, other = named("Kiosk"), named("Reading List")
    page = page_of(f"{kind}_of_another", client_id=attacked.client_id, detail={f"{kind}_of": other.pk})
    seen = grace.get(page)
    assert f'href="{reverse("admin:application", args=[other.pk])}"' in html_of(seen)
    assert f"The {kind} " in text_of(seen)
    assert "Forward this" not in text_of(seen), "the developer is not told"
    owner = PersonFactory(is_staff=True)
    attacked.owners.add(owner)
    said = text_of(with_session(owner).get(page))
    assert "Kiosk" in said
    assert "Reading List" not in said


def test_two_applications_of_one_name_are_told_apart(grace: Client) -> None:
    for _number in range(2):
        page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=named("Kiosk").client_id)
    page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=named("Reading List").client_id)
    said = text_of(grace.get("/admin/activity/"))
    for row in Application.objects.all():
        assert (f"{row.name} ({row.client_id[:6]})" in said) == (row.name == "Kiosk")


def test_a_record_says_how_often_its_cause_was_met(grace: Client) -> None:
    client_id = named("Kiosk").client_id
    page = page_of("secret_wrong", client_id=client_id, person=PersonFactory())
    assert "1 time in 30 days, 1 person" in text_of(grace.get(page)).replace(" ,", ",")
    old = page_of("secret_wrong", client_id=client_id, at=timezone.now() - timedelta(days=31))
    assert "1 time in 30 days" in text_of(grace.get(old)).replace(" ,", ",")
    page_of("secret_wrong", client_id=client_id, person=PersonFactory())
    assert "2 times in 30 days, 2 people" in text_of(grace.get(page)).replace(" ,", ",")


# From a record to its fix --------------------------------------------------------------------------------------------


def test_a_record_leads_to_switching_the_application_or_its_person_on(grace: Client, application: Registered) -> None:
    row, person = application.row, PersonFactory()
    switch_on = reverse("admin:application_act", args=[row.pk, "switch-on"])
    activate = f"{reverse('admin:person', args=[person.pk])}?act=activate"
    pages = [(page_of("client_disabled", client_id=row.client_id), switch_on, (ACTIVITY, VIEW))]
    for cause in ("account_inactive", "person_deactivated"):
        pages.append((page_of(cause, person=person), activate, (ACTIVITY, "accounts.view_user")))
    for page, url, _ in pages:
        assert url not in html_of(grace.get(page)), "it is switched on already"
    Application.objects.filter(pk=row.pk).update(is_enabled=False)
    User.objects.filter(pk=person.pk).update(is_active=False)
    for page, url, permissions in pages:
        assert f'href="{url}"' in html_of(grace.get(page))
        assert url not in html_of(staff(*permissions).get(page))


def test_a_record_leads_to_a_new_secret(grace: Client, application: Registered) -> None:
    secret = reverse("admin:oauth_bridge_application_secret", args=[application.row.pk])
    application.row.secrets.update(is_revoked=True)
    for cause in OF_THE_SECRET:
        page = page_of(cause, client_id=application.client_id)
        assert f'href="{secret}"' in html_of(grace.get(page)), cause
    assert secret not in html_of(staff(ACTIVITY, VIEW).get(page))
    owner = PersonFactory(is_staff=True)
    application.row.owners.add(owner)
    assert f'href="{secret}"' in html_of(with_session(owner).get(page))
    Application.objects.filter(pk=application.row.pk).update(client_type="public")
    assert secret not in html_of(grace.get(page))


# The words -----------------------------------------------------------------------------------------------------------


def test_the_developer_gets_what_the_developer_can_mend_until_it_is_mended(grace: Client) -> None:
    row = named("Reading List")
    client_id = row.client_id
    said = text_of(grace.get(page_of("nonce_too_long", Step.AUTHORIZE, client_id=client_id)))
    assert "Forward this to the developer of Reading List" in said
    assert "Reference: ABCD 1234" in said
    assert "Fix: The nonce is longer than 512 characters. Send a shorter one." in said
    for cause in ("client_disabled", "throttled_token", "refused", "password_wrong"):
        step = Step.SIGN_IN if cause == "password_wrong" else Step.EXCHANGE
        assert "Forward this" not in text_of(grace.get(page_of(cause, step, client_id=client_id))), cause
    sent = {"sent": row.redirect_uris.split()[0], "nearest": "https://nearest.test/"}
    page = page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=client_id, detail=sent)
    for is_mended in (True, False):
        said = text_of(grace.get(page))
        assert ("Mended." in said, "Forward this" in said) == (is_mended, not is_mended)
        assert ("Nearest registered address: https://nearest.test/" in said) is not is_mended
        Application.objects.filter(pk=row.pk).update(redirect_uris="https://r.test/")


def test_the_advice_of_a_fault_says_what_is_wrong_first() -> None:
    for cause, facts, expected in (
        ("prompt_none", {}, "The prompt none stands beside another value. Send it alone."),
        ("repeated", {"name": "scope"}, "The parameter scope was sent more than once. Send it once."),
        ("repeated", {}, "Send it once."),
        ("too_large", {}, "The request body is too large."),
        ("a cause of a later release", {}, ""),
    ):
        assert fix_of(cause, facts) == expected
    assert "session that held it may be lost" in fix_of("public_without_verifier")
    assert "Switch PKCE on" not in fix_of("public_without_verifier")


def test_a_record_whose_cause_no_state_shows_is_neither_mended_nor_not(grace: Client) -> None:
    known = named("Kiosk").client_id
    masked = {"sent": f"https://r.test/?key={MASK}"}
    for cause, detail in (("repeated", {}), ("secret_wrong", {}), ("redirect_uri_mismatch", masked)):
        assert "ended." not in text_of(grace.get(page_of(cause, Step.AUTHORIZE, client_id=known, detail=detail))), cause


def test_the_steps_before_a_record_of_no_attempt_are_unknown(grace: Client) -> None:
    said = text_of(grace.get(page_of("client_unknown", Step.EXCHANGE))).partition("The attempt")[2]
    assert "Exchange" in said
    assert "Consent" not in said
    assert "Profile Not reached" in said
    of_one = page_of("secret_wrong", client_id=named("Kiosk").client_id)
    assert "Authorize" not in text_of(grace.get(of_one)).partition("The attempt")[2]
