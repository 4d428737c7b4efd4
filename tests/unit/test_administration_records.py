"""What the page of a record says: advice in plain words, whose it is, and what leads to the fix. D24."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.template import Context, Template
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from accounts.models import User
from oauth_bridge.activity_causes import fix_of
from oauth_bridge.activity_models import ActivityRecord, Outcome, Step
from oauth_bridge.models import Application
from oauth_bridge.redirect_uri_masking import MASK
from oauth_bridge.shown_lists import listed
from oauth_bridge.storage.applications import set_groups
from oauth_bridge.templatetags.humane import masked_value
from tests.events import Attempt
from tests.factories import ApplicationFactory, PersonFactory
from tests.pages import admin_browser, html_of, text_of, with_session
from tests.unit.test_administration import staff

pytestmark = pytest.mark.django_db

ACTIVITY, VIEW = "oauth_bridge.view_activityrecord", "oauth_bridge.view_application"


@pytest.fixture
def grace() -> Client:
    return admin_browser()


def page_of(cause: str, step: Step = Step.EXCHANGE, **fields: Any) -> str:
    """The page of a new record with this cause."""
    made = ActivityRecord.objects.create(
        outcome=Outcome.REFUSED, cause=cause, step=step, **{"at": timezone.now(), "reference": "ABCD1234", **fields}
    )
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
    assert "Would it pass now? No." in said
    assert "The limit has not ended yet" in said
    assert "No application has this client ID" not in said
    assert "Limited until" not in text_of(grace.get(page_of("busy", detail={"seconds": 5})))


@pytest.mark.parametrize(
    ("cause", "step"), [("sign_in_limited_account", Step.SIGN_IN), ("factor_limited", Step.SECOND_FACTOR)]
)
def test_a_limit_that_ended_or_was_unlocked_needs_no_act(grace: Client, cause: str, step: Step) -> None:
    person, minute_ago = PersonFactory(), timezone.now() - timedelta(minutes=1)
    unlock = f"{reverse('admin:person', args=[person.pk])}?act=unlock"
    grace.post(unlock)
    holds = page_of(cause, step, detail={"seconds": 90}, person=person)
    over = page_of(cause, step, detail={"seconds": 59}, person=person, at=minute_ago)
    assert f'href="{unlock}"' in html_of(grace.get(holds))
    assert "The limit has ended" in text_of(grace.get(over))
    grace.post(reverse("admin:person", args=[PersonFactory().pk]) + "?act=unlock")
    grace.post(reverse("admin:person", args=[person.pk]) + "?act=sign-out")
    assert "The limit has not ended yet" in text_of(grace.get(holds))
    grace.post(unlock)
    assert "The account has been unlocked since" in text_of(grace.get(holds))
    for page in (holds, over):
        said = text_of(grace.get(page))
        assert "What was typed can’t be checked again" in said
        assert "Mended:" not in said, "the password may be wrong"
        assert unlock not in html_of(grace.get(page))


def test_no_unlocking_ends_the_limit_of_a_network_address(grace: Client) -> None:
    person = PersonFactory()
    page = page_of("sign_in_limited_address", Step.SIGN_IN, detail={"seconds": 90}, person=person)
    grace.post(f"{reverse('admin:person', args=[person.pk])}?act=unlock")
    assert "The limit has not ended yet" in text_of(grace.get(page))


def test_the_end_of_an_applications_limit_mends_nothing(grace: Client) -> None:
    hour_ago = timezone.now() - timedelta(hours=1)
    client_id = named("Kiosk").client_id
    page = page_of("throttled_token", client_id=client_id, detail={"seconds": 5}, at=hour_ago)
    assert "The limit has ended" not in text_of(grace.get(page))


def test_an_unconfirmed_address_leads_to_its_confirmation_and_is_mended(grace: Client) -> None:
    person = PersonFactory(email_verified_at=None)
    page = page_of("address_unconfirmed", Step.SIGN_IN, person=person)
    url = f"{reverse('admin:person', args=[person.pk])}?act=confirm"
    assert f'href="{url}"' in html_of(grace.get(page))
    assert "Mended:" not in text_of(grace.get(page))
    User.objects.filter(pk=person.pk).update(email_verified_at=timezone.now())
    said = text_of(grace.get(page))
    assert "Would it pass now? Yes." in said
    assert "Mended: the same request would pass now. The advice was: The person types" in said
    assert url not in html_of(grace.get(page))


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
    assert "Nothing to change any more Mended:" in said
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


def test_the_secret_of_another_application_names_it_to_who_may_see_it(grace: Client) -> None:
    attacked, other = ApplicationFactory(name="Kiosk"), ApplicationFactory(name="Reading List")
    form = {"grant_type": "authorization_code", "code": "x", "client_id": attacked.client_id}
    Attempt().post("/oauth/token", {**form, "client_secret": other.client_secret})
    record = ActivityRecord.objects.get()
    assert record.cause == "secret_of_another"
    page = reverse("admin:record", args=[record.pk])
    url = reverse("admin:application", args=[other.row.pk])
    assert f'href="{url}"' in html_of(grace.get(page))
    owner = PersonFactory(is_staff=True)
    attacked.row.owners.add(owner)
    said = text_of(with_session(owner).get(page))
    assert "Kiosk" in said
    assert "Reading List" not in said


def test_the_code_of_another_application_names_it_to_who_may_see_it(grace: Client) -> None:
    attacked, other = named("Kiosk"), named("Reading List")
    page = page_of("code_of_another", client_id=attacked.client_id, detail={"code_of": other.pk})
    assert "The code was issued to this application: Reading List" in text_of(grace.get(page))
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


def test_who_chooses_groups_is_led_to_the_first_group(grace: Client) -> None:
    page = reverse("admin:oauth_bridge_application_add")
    form = {"name": "Payroll", "redirect_uris": "https://p.test/", "client_type": "confidential", "is_restricted": "on"}
    assert "First make one under Groups" in text_of(grace.post(page, form))
    Group.objects.create(name="Accountants")
    assert "Choose at least one group" in text_of(grace.post(page, form))


def test_a_record_that_stands_alone_says_so(grace: Client) -> None:
    client_id = named("Kiosk").client_id
    page = page_of("secret_wrong", client_id=client_id, person=PersonFactory())
    assert "Who else Only this one in 30 days" in text_of(grace.get(page))
    old = page_of("secret_wrong", client_id=client_id, at=timezone.now() - timedelta(days=31))
    assert "Who else 1 time in 30 days" in text_of(grace.get(old))
    page_of("secret_wrong", client_id=client_id, person=PersonFactory())
    assert "Who else 2 times in 30 days" in (said := text_of(grace.get(page)))
    assert "2 people" in said.partition("Who else")[2][:40]


@pytest.mark.parametrize(("language", "names"), [("en", "A, B"), ("ar", "A، B"), ("zh-hans", "A，B")])
def test_a_list_has_the_commas_of_the_language(language: str, names: str) -> None:
    with translation.override(language):
        assert listed(["A", "B"]) == Template("{% load humane %}A{% comma %}B").render(Context()) == names


# The words -----------------------------------------------------------------------------------------------------------


def test_the_developer_gets_what_the_developer_can_mend(grace: Client) -> None:
    client_id = named("Reading List").client_id
    said = text_of(grace.get(page_of("nonce_too_long", Step.AUTHORIZE, client_id=client_id)))
    assert "Forward this to the developer of Reading List" in said
    assert "Reference: ABCD 1234" in said
    assert "Fix: The nonce is longer than 512 characters. Send a shorter one." in said
    for cause in ("client_disabled", "throttled_token", "refused", "password_wrong"):
        step = Step.SIGN_IN if cause == "password_wrong" else Step.EXCHANGE
        assert "Forward this" not in text_of(grace.get(page_of(cause, step, client_id=client_id))), cause


def test_a_lost_verifier_is_not_advised_to_switch_pkce_on() -> None:
    assert "Switch PKCE on" not in fix_of("public_without_verifier")
    assert "session that held it may be lost" in fix_of("public_without_verifier")


@pytest.mark.parametrize(
    ("cause", "facts", "expected"),
    [
        ("prompt_none", {}, "The prompt none stands beside another value. Send it alone."),
        ("repeated", {"name": "scope"}, "The parameter scope was sent more than once. Send it once."),
        ("repeated", {}, "Send it once."),
        ("too_large", {}, "The request body is too large."),
    ],
)
def test_the_advice_of_a_fault_says_what_is_wrong_first(cause: str, facts: dict[str, str], expected: str) -> None:
    assert fix_of(cause, facts) == expected


def test_the_length_of_one_masked_character_is_singular() -> None:
    assert [masked_value(value) for value in ("1", "2", "code")] == [
        "masked, 1 character",
        "masked, 2 characters",
        "code",
    ]


def test_nothing_passes_that_no_check_has_passed(grace: Client) -> None:
    said = text_of(grace.get(page_of("repeated", Step.LOGOUT)))
    assert "Mended" not in said
    assert "Would it pass now? No." in said
    assert "No application has this client ID" not in text_of(grace.get(page_of("throttled_authorize", Step.AUTHORIZE)))
    known = named("Kiosk").client_id
    said = text_of(grace.get(page_of("secret_wrong", client_id=known)))
    assert "What was refused can’t be checked" in said.partition("Would it pass now?")[2]


def test_a_masked_callback_address_cannot_be_compared_again(grace: Client) -> None:
    sent = {"sent": f"https://r.test/?key={MASK}"}
    known = named("Kiosk").client_id
    said = text_of(grace.get(page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=known, detail=sent)))
    assert "Would it pass now? What was refused can’t be checked; nothing else is wrong." in said
    assert "Mended" not in said


@pytest.mark.parametrize("cause", ["secret_of_another", "code_of_another"])
def test_a_developer_is_not_told_whose_secret_or_code_was_sent(grace: Client, cause: str) -> None:
    known = named("Kiosk").client_id
    assert "Forward this" in text_of(grace.get(page_of("secret_wrong", client_id=known)))
    assert "Forward this" not in text_of(grace.get(page_of(cause, client_id=known)))


def test_a_mended_record_has_nothing_to_forward(grace: Client) -> None:
    row = named("Kiosk")
    sent = {"sent": row.redirect_uris.split()[0]}
    page = page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=row.client_id, detail=sent)
    said = text_of(grace.get(page))
    assert "Mended:" in said
    assert "Forward this" not in said
    Application.objects.filter(pk=row.pk).update(redirect_uris="https://r.test/")
    assert "Forward this" in text_of(grace.get(page))


def test_the_steps_before_a_record_of_no_attempt_are_unknown(grace: Client) -> None:
    said = text_of(grace.get(page_of("client_unknown", Step.EXCHANGE))).partition("The attempt")[2]
    assert "Exchange" in said
    assert "Consent" not in said
    assert "Profile Not reached" in said
    of_one = page_of("secret_wrong", client_id=named("Kiosk").client_id)
    assert "Authorize" not in text_of(grace.get(of_one)).partition("The attempt")[2]
