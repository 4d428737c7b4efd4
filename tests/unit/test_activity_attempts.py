"""An attempt shows each refused step at its place, the cause that somebody looks for, and how it ended. D13, D24."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from oauth_bridge.activity_causes import FACTOR_AWAITED
from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome, Step
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.storage import activity_counts, activity_reading, attempts
from oauth_bridge.storage.activity_reading import Filters
from oauth_bridge.storage.attempts import OVER_AFTER, Attempt, Ending
from oauth_bridge.storage.exported_data import stored_about
from tests.events import HTML
from tests.factories import PASSWORD, PersonFactory
from tests.factors import Account, code_of
from tests.pages import admin_browser, html_of, text_of
from tests.unit.test_activity import CHALLENGE, Tried, listing

pytestmark = pytest.mark.django_db
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
STORY = "Authorize → code issued → Exchange: The client secret is wrong → exchanged"
REPLAY = "Exchange: The code was used before"


@pytest.fixture
def grace() -> Client:
    return admin_browser()


def overcome() -> Tried:
    """A wrong secret, then the right one with the same code."""
    tried = Tried()
    code = tried.callback()
    tried.exchange(code=code, client_secret="x" * 43)
    assert tried.exchange(code=code).status_code == 200
    return tried


def replayed() -> Tried:
    tried = Tried()
    code = tried.callback()
    tried.exchange(code=code, client_secret="x" * 43)
    tried.exchange(code=code)
    AuthorizationCode.objects.update(redeemed_at=timezone.now())
    moment = timezone.now() - timedelta(seconds=9)
    AuthorizationCode.objects.update(redeemed_at=moment, issued_at=moment - timedelta(seconds=9))
    ActivityRecord.objects.update(at=moment - timedelta(seconds=5))
    assert tried.exchange(code=code).status_code == 400
    return tried


@pytest.mark.parametrize(
    ("begin", "story", "badge", "ending"),
    [
        (overcome, STORY, "Signed in", Ending.SIGNED_IN),
        (replayed, f"{STORY} → {REPLAY}", "Replay", Ending.REPLAY),
    ],
)
def test_who_looks_for_a_cause_sees_it_whatever_came_later(
    grace: Client, begin: Callable[[], Tried], story: str, badge: str, ending: Ending
) -> None:
    tried = begin()
    record = ActivityRecord.objects.get(cause="secret_wrong")
    (attempt,) = attempts.attempts(Filters(cause="secret_wrong"))
    assert attempt.chosen
    assert (attempt.chosen.entry, attempt.ending) == (activity_reading.entry(record.pk), ending)
    page = grace.get(f"/admin/activity/?cause=secret_wrong&client_id={tried.application.client_id}")
    assert f"{story} {tried.person.display_name} {badge}" in text_of(page)
    opened = text_of(page).partition(story)[2].partition("Where they stop")[0]
    assert "The client secret is wrong Fix: No secret of this application matches the one that was sent." in opened
    assert "Fix: The code" not in opened
    assert f"Reference {record.reference}" in opened
    assert reverse("admin:record", args=[record.pk]) in html_of(page)
    assert '<strong class="end bad">Exchange: The client secret is wrong</strong>' in html_of(page)


@pytest.mark.parametrize(("begin", "ending"), [(overcome, "Signed in"), (replayed, "Replay")])
def test_a_record_has_its_own_outcome_and_below_it_that_of_the_attempt(
    grace: Client, begin: Callable[[], Tried], ending: str
) -> None:
    begin()
    said = text_of(grace.get(reverse("admin:record", args=[ActivityRecord.objects.get(cause="secret_wrong").pk])))
    assert "The client secret is wrong Failed" in said
    assert f"The attempt {ending} Authorize Consent" in said
    own = said.partition("The attempt ")[2]
    assert "Exchange" in own.partition("The client secret is wrong")[0]
    assert own.count("Exchange") == (2 if begin is overcome else 3)


def test_equal_refusals_are_one_step_with_their_number(grace: Client) -> None:
    tried = Tried()
    code = tried.callback()
    for _ in range(3):
        tried.exchange(code=code, client_secret="x" * 43)
    tried.exchange(code=code)
    said = text_of(grace.get("/admin/activity/"))
    assert "Exchange: The client secret is wrong (3 times) → exchanged" in said


def attempt_of(tried: Tried) -> Attempt:
    (attempt,) = attempts.attempts(Filters(client_id=tried.application.client_id))
    return attempt


def test_an_exchange_that_was_sent_twice_at_once_signed_somebody_in(grace: Client) -> None:
    tried = Tried()
    code = tried.callback()
    token = tried.exchange(code=code).json()["access_token"]
    assert tried.exchange(code=code).status_code == 400
    assert ActivityRecord.objects.get().cause == "code_raced"
    assert tried.profile(token).status_code == 200, "the second exchange revokes nothing"
    attempt = attempt_of(tried)
    assert (attempt.failure, attempt.ending) == (None, Ending.SIGNED_IN)
    said = text_of(grace.get(f"/admin/activity/?client_id={tried.application.client_id}"))
    story = "exchanged → Exchange: The code was sent twice at once"
    assert f"{story} {tried.person.display_name} Signed in" in said
    assert '<strong class="end unsure">Exchange: The code was sent twice' in html_of(grace.get("/admin/activity/"))
    assert "The code was sent twice at once Fix:" in text_of(grace.get("/admin/activity/?cause=code_raced"))


def test_a_wrong_verifier_after_the_exchange_leaves_the_sign_in(grace: Client) -> None:
    tried = Tried()
    link = tried.link
    tried.link = lambda **changes: link(code_challenge=CHALLENGE, code_challenge_method="S256", **changes)  # type: ignore[method-assign]
    code = tried.callback()
    token = tried.exchange(code=code, code_verifier=VERIFIER).json()["access_token"]
    tried.exchange(code=code, code_verifier="x" * 43)
    assert tried.profile(token).status_code == 200
    assert attempt_of(tried).ending is Ending.SIGNED_IN


def test_a_right_password_that_leads_to_the_second_factor_ends_the_advice_of_the_wrong_one(grace: Client) -> None:
    tried = Tried()
    account = Account(tried.person)
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    for password in ("wrong", PASSWORD):
        answer = tried.post(page, {"login": tried.person.email, "password": password})
    activity_counts.flush()
    assert (attempt_of(tried).failure, attempt_of(tried).ending) == (None, Ending.GOING_ON)
    assert "The password was right" not in text_of(grace.get("/admin/activity/?step=second_factor"))
    ActivityRecord.objects.update(at=timezone.now() - OVER_AFTER)
    attempt = attempt_of(tried)
    assert attempt.failure
    assert (attempt.failure.cause, attempt.ending) == (FACTOR_AWAITED, Ending.UNFINISHED)
    assert next(row["outcome"] for row in stored_about(tried.person, 1)["activity"]) == "unfinished"
    assert not ActivityCount.objects.filter(cause=FACTOR_AWAITED).exists(), "most people type the code"
    assert [each["outcome"] for each in listing("--cause", FACTOR_AWAITED)] == ["unfinished"]
    url = reverse("admin:person", args=[tried.person.pk])
    story = "Authorize → Sign-in: Wrong password → "
    waits = "Second factor: The sign-in waits for the second factor"
    said = text_of(grace.get(url))
    assert f"{story}{waits}" in said
    assert "Fix: The password was right." in said
    tried.browser.post(answer["Location"], {"code": code_of(account.secret)})
    activity_counts.flush()
    assert f"{story}signed in → second factor {tried.person.display_name}" in text_of(grace.get(url))
    assert attempt_of(tried).ending is Ending.GOING_ON
    assert waits in text_of(grace.get(f"/admin/activity/?cause={FACTOR_AWAITED}"))


def test_a_wait_for_the_second_factor_is_no_refusal_and_ends_with_the_next_step(grace: Client) -> None:
    tried = Tried()
    account = Account(tried.person)
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    answer = tried.post(page, {"login": tried.person.email, "password": PASSWORD})
    activity_counts.flush()
    waits = ActivityRecord.objects.get(cause=FACTOR_AWAITED)
    record = reverse("admin:record", args=[waits.pk])
    said = text_of(grace.get(record))
    assert "The sign-in waits for the second factor Going on" in said
    assert "Unfinished" not in said
    assert "refused" not in said
    assert "Fix: The password was right." in said
    application = Application.objects.get(client_id=waits.client_id)
    board = reverse("admin:waiting", args=[application.pk])
    since = (waits.at - timedelta(seconds=1)).isoformat()
    said = text_of(grace.get(board, {"since": since}))
    assert f"Authorize {waits.at:%H:%M:%S} The sign-in waits for the second factor" in said
    tried.browser.post(answer["Location"], {"code": code_of(account.secret)})
    activity_counts.flush()
    assert "Fix:" not in text_of(grace.get(record))
    assert "Fix:" not in text_of(grace.get(f"/admin/activity/?cause={FACTOR_AWAITED}"))
    assert "waits for the second factor" not in text_of(grace.get(board, {"since": since}))


def test_a_sign_in_without_an_application_leaves_no_record_that_nothing_ends() -> None:
    tried = Tried()
    Account(tried.person)
    tried.post("/accounts/sign-in", {"login": tried.person.email, "password": PASSWORD})
    activity_counts.flush()
    assert not ActivityRecord.objects.filter(cause=FACTOR_AWAITED).exists()


def test_the_reference_of_a_sign_in_that_waits_finds_it(grace: Client) -> None:
    tried = Tried()
    Account(tried.person)
    tried.sign_in()
    activity_counts.flush()
    reference = ActivityRecord.objects.get(cause=FACTOR_AWAITED).reference
    (attempt,) = attempts.attempts(Filters(reference=reference, is_failure=True))
    assert attempt.chosen
    assert attempt.chosen.cause == FACTOR_AWAITED
    assert "Fix: The password was right." in text_of(grace.get(f"/admin/activity/?reference={reference}"))


def test_a_sign_in_that_waits_is_no_failure_of_the_step_unless_somebody_looks_for_it() -> None:
    tried = Tried()
    Account(tried.person)
    tried.sign_in()
    activity_counts.flush()
    of_the_step = Filters(step=Step.SECOND_FACTOR, is_failure=True)
    assert attempts.attempts(of_the_step) == []
    assert len(attempts.attempts(replace(of_the_step, cause=FACTOR_AWAITED))) == 1


def test_a_sign_in_without_a_second_factor_waits_for_none() -> None:
    tried = Tried()
    tried.sign_in()
    activity_counts.flush()
    assert [record.outcome for record in ActivityRecord.objects.all()] == ["succeeded"]


def test_the_record_of_a_page_is_in_its_attempt_however_many_came_later() -> None:
    person = PersonFactory()
    row = {"step": Step.SIGN_IN, "attempt": UUID(int=8), "person": person}
    rows = ActivityRecord.objects.bulk_create(
        ActivityRecord(
            at=timezone.now() + timedelta(seconds=number),
            outcome=Outcome.SUCCEEDED if number else Outcome.REFUSED,
            cause="" if number else "password_wrong",
            **row,
        )
        for number in range(30)
    )
    entry = activity_reading.entry(rows[0].pk)
    assert entry
    attempt = attempts.of(entry)
    assert attempt.events[0].cause == "password_wrong"
    assert attempt.chosen is attempt.events[0]


def test_the_records_of_one_person_displace_none_of_another_in_the_same_attempt() -> None:
    ada, bob = PersonFactory(), PersonFactory()
    row = {"step": Step.SIGN_IN, "outcome": Outcome.REFUSED, "cause": "password_wrong", "attempt": UUID(int=8)}
    rows = ActivityRecord.objects.bulk_create(
        ActivityRecord(at=timezone.now() + timedelta(seconds=number), person=ada if number < 2 else bob, **row)
        for number in range(30)
    )
    entry = activity_reading.entry(rows[0].pk)
    assert entry
    assert [event.entry and event.entry.id for event in attempts.of(entry).events] == [rows[0].pk, rows[1].pk]


def test_the_chosen_failure_is_that_of_the_reference_or_else_the_last() -> None:
    now, row = timezone.now(), {"step": Step.SIGN_IN, "outcome": Outcome.REFUSED, "attempt": UUID(int=8)}
    for number, reference in enumerate(("ABCD1234", "EFGH5678")):
        at = now - timedelta(seconds=9 - number)
        ActivityRecord.objects.create(at=at, cause="password_wrong", reference=reference, **row)
    for filters in (Filters(reference="ABCD1234"), Filters(reference="EFGH5678"), Filters(step=Step.SIGN_IN)):
        (attempt,) = attempts.attempts(filters)
        assert attempt.chosen
        assert attempt.chosen.entry
        assert attempt.chosen.entry.reference == (filters.reference or "EFGH5678")
