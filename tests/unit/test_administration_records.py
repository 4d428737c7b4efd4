"""What the page of a record says: advice in plain words, whose it is, and what leads to the fix. D24."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts
from oauth_bridge.applications.registry import set_groups
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from oauth_bridge.models.application import CLIENT_ID_LENGTH, MISTYPED_CLIENT_ID
from tests.factories import ApplicationFactory, PersonFactory
from tests.grants import HTML, Attempt
from tests.pages import admin_page, html_of, staff, text_of, with_session

pytestmark = pytest.mark.django_db

ACTIVITY, VIEW, PEOPLE = "view_activityrecord", "view_application", "view_user"
FIND = "/admin/find/"
NEAR = "Applications with nearly the same client ID:"


def page_of(cause: str, step: Step = Step.EXCHANGE, **fields: Any) -> str:
    """The page of a new record with this cause, which is counted."""
    made = ActivityRecord.objects.create(
        outcome=Outcome.REFUSED, cause=cause, step=step, **{"at": timezone.now(), "reference": "ABCD1234", **fields}
    )
    counts.count(made.at, made.client_id, step, Outcome.REFUSED, cause)
    counts.flush()
    return reverse("admin:record", args=[made.pk])


def named(name: str, **fields: Any) -> Application:
    return ApplicationFactory(name=name, **fields).row


def person_page(person: User, act: str = "") -> str:
    return reverse("admin:person", args=[person.pk]) + (f"?act={act}" if act else "")


OFF, UNCONFIRMED = {"is_active": False}, {"email_verified_at": None}
# By cause: of what the columns break the sign-in, and where the page leads until they are as before.
LEADS: dict[str, tuple[str, dict[str, Any], str]] = {
    "client_disabled": ("application", {"is_enabled": False}, "switch-on"),
    "secret_none_left": ("secrets", {"is_revoked": True}, "new-secret"),
    "account_inactive": ("person", OFF, "activate"),
    "person_deactivated": ("person", OFF, "activate"),
    "address_unconfirmed": ("person", UNCONFIRMED, "confirm"),
    "no_verified_email": ("person", UNCONFIRMED, "confirm"),
}


@pytest.mark.parametrize("cause", LEADS)
def test_a_record_leads_whoever_may_to_what_mends_it_until_it_is_mended(grace: Client, cause: str) -> None:
    of, broken, act = LEADS[cause]
    row, person = named("Payroll"), PersonFactory()
    page = page_of(cause, Step.CONSENT, client_id=row.client_id, person=person)
    url = f'href="{person_page(person, act) if of == "person" else admin_page(row, "act", act)}"'
    rows: dict[str, Any] = {"secrets": row.secrets.all(), "person": User.objects.filter(pk=person.pk)}
    changed = rows.get(of, Application.objects.filter(pk=row.pk))
    for columns, said in ((broken, "Not yet mended."), (changed.values(*broken)[0], "Mended.")):
        changed.update(**columns)
        asked = grace.get(page)
        assert said in text_of(asked)
        assert (url in html_of(asked)) is (columns is broken)
        assert url not in html_of(staff(ACTIVITY, VIEW, PEOPLE).get(page))


def test_the_record_of_a_person_who_is_not_admitted_leads_to_the_groups(grace: Client) -> None:
    row, person, group = named("Payroll"), PersonFactory(), Group.objects.create(name="Accountants")
    page = page_of("not_admitted", Step.CONSENT, client_id=row.client_id, person=person)
    url = f'href="{reverse("admin:accounts_user_change", args=[person.pk])}"'
    set_groups(row, [group])
    for is_admitted in (False, True):
        answer = grace.get(page)
        assert (url in html_of(answer), "Its groups: Accountants." in text_of(answer)) == (not is_admitted,) * 2
        assert ("Mended." in text_of(answer)) is is_admitted
        assert "Accountants" not in text_of(staff(ACTIVITY).get(page))
        person.groups.add(group)


@pytest.mark.parametrize(
    ("cause", "step"), [("sign_in_limited_account", Step.SIGN_IN), ("factor_limited", Step.SECOND_FACTOR)]
)
def test_a_limit_says_when_it_ends_and_that_it_ended_or_was_unlocked(grace: Client, cause: str, step: Step) -> None:
    person, other, minute_ago = PersonFactory(), PersonFactory(), timezone.now() - timedelta(minutes=1)
    unlock, own = person_page(person, "unlock"), person_page(person)
    grace.post(unlock)
    holds = page_of(cause, step, detail={"seconds": 90}, person=person)
    end = ActivityRecord.objects.get().at + timedelta(seconds=90)
    over = page_of(cause, step, detail={"seconds": 59}, person=person, at=minute_ago)
    of_network = page_of("sign_in_limited_address", Step.SIGN_IN, detail={"seconds": 90}, person=person)
    for url in (person_page(other, "unlock"), person_page(person, "sign-out")):
        grace.post(url)
    assert f"{end:%H:%M} UTC" in text_of(grace.get(holds)).partition("Limited until")[2][:60]
    assert unlock not in html_of(staff(ACTIVITY, PEOPLE).get(holds))
    for is_unlocked in (False, True):
        pages = [html_of(grace.get(each)) for each in (holds, over, of_network)]
        assert ["Not yet mended." in text_of(each) for each in pages] == [not is_unlocked, False, True]
        assert [f'href="{unlock}"' in each for each in pages] == [not is_unlocked, False, False]
        assert ("this person must wait until" in text_of(grace.get(own))) is not is_unlocked
        grace.post(unlock)


def test_a_record_whose_cause_no_state_shows_is_neither_mended_nor_not(grace: Client) -> None:
    known, hour_ago = named("Kiosk").client_id, timezone.now() - timedelta(hours=1)
    masked = {"sent": f"https://r.test/?key={MASK}"}
    causes = {"repeated": {}, "secret_wrong": {}, "redirect_uri_mismatch": masked, "throttled_token": {"seconds": 5}}
    for cause, detail in causes.items():
        page = page_of(cause, Step.AUTHORIZE, client_id=known, detail=detail, at=hour_ago)
        assert "ended." not in text_of(grace.get(page)), cause
    assert "Limited until" not in text_of(grace.get(page_of("busy", detail={"seconds": 5})))


@pytest.mark.parametrize("kind", ["secret", "code"])
def test_the_secret_or_code_of_another_application_names_it_to_who_may_see_it(grace: Client, kind: str) -> None:
    attacked, other = named("Kiosk"), named("Reading List")
    page = page_of(f"{kind}_of_another", client_id=attacked.client_id, detail={f"{kind}_of": other.pk})
    seen = grace.get(page)
    assert f'href="{admin_page(other)}"' in html_of(seen)
    assert (f"The {kind} " in text_of(seen), "Forward this" in text_of(seen)) == (True, False)
    owner = PersonFactory(is_staff=True)
    attacked.owners.add(owner)
    said = text_of(with_session(owner).get(page))
    assert ("Kiosk" in said, "Reading List" in said) == (True, False)


def test_a_record_says_how_often_its_cause_was_met(grace: Client) -> None:
    client_id = named("Kiosk").client_id
    page_of("secret_wrong", client_id=client_id, at=timezone.now() - timedelta(days=31))
    for said in ("1 time in 30 days, 1 person", "2 times in 30 days, 2 people"):
        page = page_of("secret_wrong", client_id=client_id, person=PersonFactory())
        assert said in text_of(grace.get(page)).replace(" ,", ",")


def test_the_developer_gets_what_the_developer_can_mend_until_it_is_mended(grace: Client) -> None:
    row, nearest = named("Reading List"), "https://nearest.test/"
    said = text_of(grace.get(page_of("nonce_too_long", Step.AUTHORIZE, client_id=row.client_id)))
    assert "Forward this to the developer of Reading List" in said
    assert "Reference: ABCD 1234" in said
    assert "Fix: The nonce is longer than 512 characters. Send a shorter one." in said
    for cause in ("client_disabled", "throttled_token", "refused"):
        assert "Forward this" not in text_of(grace.get(page_of(cause, client_id=row.client_id))), cause
    sent = {"sent": row.redirect_uris, "nearest": nearest}
    page = page_of("redirect_uri_mismatch", Step.AUTHORIZE, client_id=row.client_id, detail=sent)
    for is_mended in (True, False):
        said = text_of(grace.get(page))
        assert ("Mended." in said, f"Nearest registered address: {nearest}" in said) == (is_mended, not is_mended)
        Application.objects.filter(pk=row.pk).update(redirect_uris="https://r.test/")


def test_of_records_of_no_attempt_the_steps_before_are_unknown_and_find_lists_them_together(grace: Client) -> None:
    said = text_of(grace.get(page_of("client_unknown", Step.EXCHANGE))).partition("The attempt")[2]
    assert ("Access" in said, "Consent" in said) == (True, False)
    assert "Profile Not reached" in said
    page_of("password_wrong", Step.SIGN_IN)
    listed = text_of(grace.get(FIND, {"q": "abcd 1234"}, follow=True))
    assert [each for each in ("The client ID is unknown", "Wrong password") if each not in listed] == []


@pytest.mark.parametrize(
    ("sent", "callback", "said_of_it"),
    [
        ("0" * 32, "https://r.test/cb/back", "is registered for: Reading List"),
        ("21" + "3a" * 14 + "3z", "https://x.test/", f"{NEAR} Reading List"),
        ("12" + "3a" * 14, "https://x.test/", f"{NEAR} Reading List"),
        ("zzz" + "a" + "3a" * 14, "https://x.test/", ""),
        ("0" * 32, "https://r.test/cb", ""),
    ],
    ids=["the callback", "two swapped and one wrong", "two missing", "three wrong", "the beginning of a callback"],
)
def test_an_unknown_client_id_names_the_one_meant(grace: Client, sent: str, callback: str, said_of_it: str) -> None:
    given = Attempt(name="Reading List", client_id="12" + "3a" * 15, redirect_uris="https://r.test/cb/back")
    named("Kiosk")
    given.browser.get(given.link(client_id=sent, redirect_uri=callback, state="x" * 12), **HTML)
    record = ActivityRecord.objects.get()
    page = reverse("admin:record", args=[record.pk])
    assert record.cause == "client_unknown"
    said = text_of(grace.get(page))
    assert said_of_it in said
    assert ("Reading List" in said) is bool(said_of_it)
    assert "Kiosk" not in said
    assert "state masked, 12 characters" in said
    assert (f"client_id {sent}" in said) is (re.fullmatch(MISTYPED_CLIENT_ID, sent) is not None)
    near = f"{NEAR} Reading List"
    for browser, is_near in ((grace, said_of_it == near), (staff(ACTIVITY), False)):
        assert (near in text_of(browser.get(FIND, {"q": sent.upper()}))) is is_near
    assert "Reading List" not in text_of(staff(ACTIVITY).get(page))


@pytest.mark.integration
def test_what_may_be_a_secret_in_the_place_of_a_client_id_is_not_kept_and_a_nul_is_no_harm() -> None:
    given = Attempt()
    secret = given.application.client_secret
    form = {"grant_type": "authorization_code", "code": "x", "client_id": secret, "client_secret": secret}
    given.post("/oauth/token", form)
    given.post("/oauth/token", {**form, "client_id": secret[:CLIENT_ID_LENGTH].upper()})
    given.post("/oauth/token", {**form, "client_id": given.application.client_id, "client_secret": "wrong"})
    given.post("/oauth/token", {**form, "client_id": "a\0b"})
    *unknown, known, nul = [record.detail for record in ActivityRecord.objects.order_by("pk")]
    assert [each["parameters"]["client_id"] for each in unknown] == [str(len(secret)), str(CLIENT_ID_LENGTH)]
    assert "parameters" not in known, "the client ID is that of the record"
    assert "\0" not in str(nul)


@pytest.mark.parametrize("cause", ["client_unknown", "client_deleted"])
def test_the_application_of_the_code_is_not_that_of_the_unknown_client_id(grace: Client, cause: str) -> None:
    detail = {"parameters": {"client_id": "3a" * 16}}
    page = page_of(cause, client_id=named("Kiosk").client_id, detail=detail)
    assert "Not yet mended." in text_of(grace.get(page))
    named("Restored", client_id="3a" * 16)
    assert "Mended." in text_of(grace.get(page))
