"""An attempt shows each refused step at its place, the cause that somebody looks for, and how it ended. D13, D24."""

from __future__ import annotations

import re
from datetime import timedelta
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from oauth_bridge.activity import attempts, counts
from oauth_bridge.activity.causes import FACTOR_AWAITED, NEVER_EXCHANGED
from oauth_bridge.activity.reading import Filters
from oauth_bridge.consent.pages import stored_about
from oauth_bridge.management import purging
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord, Outcome, Step
from tests.factories import PASSWORD, PersonFactory
from tests.grants import read
from tests.pages import Account, code_of, html_of, text_of
from tests.unit.test_activity import Tried, listing

pytestmark = pytest.mark.django_db
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
ACTIVITY = "/admin/activity/"
CELL = r'<li class="(\w*)">\s*<strong>(.+)</strong>\s*<span class="quiet">.+</span>\s*<span class="text">(.*)</span>'


def record_page(**filters: str) -> str:
    return reverse("admin:record", args=[ActivityRecord.objects.get(**filters).pk])


@pytest.mark.parametrize(("is_replayed", "badge"), [(False, "Signed in"), (True, "Used twice")])
def test_who_looks_for_a_cause_sees_it_whatever_came_later(grace: Client, is_replayed: bool, badge: str) -> None:
    tried = Tried()
    code = tried.callback()
    tried.exchange(code=code, client_secret="x" * 43)
    assert tried.exchange(code=code).status_code == 200
    story = "Started → sent back → Access: The client secret is wrong → access given"
    if is_replayed:
        moment = timezone.now() - timedelta(seconds=9)
        AuthorizationCode.objects.update(redeemed_at=moment, issued_at=moment - timedelta(seconds=9))
        ActivityRecord.objects.update(at=moment - timedelta(seconds=5))
        assert tried.exchange(code=code).status_code == 400
        story += " → Access: The code was used before"
    reference, record = ActivityRecord.objects.get(cause="secret_wrong").reference, record_page(cause="secret_wrong")
    page = grace.get(f"{ACTIVITY}?cause=secret_wrong&client_id={tried.application.client_id}")
    assert f"{story} {tried.person.display_name} {badge}" in text_of(page)
    opened = text_of(page).partition(story)[2]
    assert "The client secret is wrong Fix: No secret of this application matches the one that was sent." in opened
    assert "Fix: The code" not in opened
    assert f"Reference {reference}" in opened
    assert record in html_of(page)
    assert '<strong class="end bad">Access: The client secret is wrong</strong>' in html_of(page)
    said = text_of(grace.get(record))
    assert "The client secret is wrong Failed" in said, "the record's own outcome"
    own = said.partition("The attempt ")[2]
    assert own.startswith(f"{badge} Start")
    assert own.count("Access") == (3 if is_replayed else 2)


def test_a_wrong_verifier_after_the_exchange_leaves_the_sign_in(grace: Client) -> None:
    tried = Tried().with_challenge()
    code = tried.callback()
    token = tried.exchange(code=code, code_verifier=VERIFIER).json()["access_token"]
    tried.exchange(code=code, code_verifier="x" * 43)
    assert read(token).status_code == 200
    counts.flush()
    page = text_of(grace.get(f"{ACTIVITY}?client_id={tried.application.client_id}"))
    assert f"the verifier doesn’t match → profile read {tried.person.display_name} Signed in" in page


def test_a_wait_for_the_second_factor_is_no_refusal_and_ends_with_the_next_step(grace: Client) -> None:
    tried = Tried()
    account = Account(tried.person)
    tried.post("/accounts/sign-in", {"login": tried.person.email, "password": PASSWORD}, Client())
    counts.flush()
    assert listing("--cause", FACTOR_AWAITED) == [], "no application waits"
    asked = tried.sign_in()["Location"]
    assert not ActivityCount.objects.filter(cause=FACTOR_AWAITED).exists(), "most people type the code"
    assert [each["outcome"] for each in listing("--cause", FACTOR_AWAITED)] == ["unfinished"]
    assert next(row["outcome"] for row in stored_about(tried.person, 1)["activity"]) == "unfinished"
    record, chosen = record_page(cause=FACTOR_AWAITED), f"{ACTIVITY}?cause={FACTOR_AWAITED}"
    person = reverse("admin:person", args=[tried.person.pk])
    said = text_of(grace.get(person))
    for words in ("Second factor: The sign-in waits for the second factor", "The password was right.", "Unfinished"):
        assert words in said
    for path in (record, chosen, f"{chosen}&step=second_factor&show=failed"):
        assert "Fix: The password was right." in text_of(grace.get(path)), path
    assert "waits for the second factor" not in text_of(grace.get(f"{ACTIVITY}?step=second_factor&show=failed"))
    board = {"client_id": tried.application.client_id, "live": (timezone.now() - timedelta(seconds=1)).isoformat()}
    page = html_of(grace.get(ACTIVITY, board))
    assert "The sign-in waits for the second factor" in page
    assert '<meta http-equiv="refresh" content="2">' in page, "it looks again by itself"
    assert "refresh" not in html_of(grace.get(ACTIVITY, board | {"live": ""}))
    tried.browser.post(asked, {"code": code_of(account.secret)})
    counts.flush()
    said = text_of(grace.get(person))
    assert "Started → signed in → second factor" in said
    assert "In progress" in said
    for path in (record, chosen):
        assert "Fix:" not in text_of(grace.get(path))


def test_the_board_has_one_cell_for_each_step_with_its_last_event_and_none_for_a_sign_out(grace: Client) -> None:
    tried = Tried()
    board = {"client_id": tried.application.client_id, "live": ""}

    def cells() -> list[tuple[str, str, str]]:
        return re.findall(CELL, html_of(grace.get(ACTIVITY, board)))

    record = {"client_id": tried.application.client_id, "outcome": Outcome.REFUSED}
    ActivityRecord.objects.create(at=timezone.now(), step=Step.LOGOUT, cause="logout_hint_invalid", **record)
    assert "Waiting for" in text_of(grace.get(ACTIVITY, board))
    assert [cell[:2] for cell in cells()] == [("open", name) for name in ("Start", "Consent", "Access", "Profile")]
    tried.sign_in(password="wrong")
    assert cells()[0][:2] == ("bad", "Start")
    tried.sign_in()
    code = tried.callback()
    for secret in ("x" * 43, "y" * 43, tried.application.secret):
        tried.exchange(code=code, client_secret=secret)
    counts.flush()
    assert [cell[:2] for cell in cells()] == [("", "Start"), ("", "Consent"), ("", "Access"), ("open", "Profile")]
    assert all(text for *_, text in cells())


@pytest.mark.integration
def test_a_code_that_is_never_exchanged_is_recorded_once(grace: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Tried()
    tried.callback()
    other = Tried()
    other.callback()
    counts.record_never_exchanged(timezone.now() - timedelta(days=1))
    assert listing() == [], "it may still be exchanged"
    ended = timezone.now() - timedelta(seconds=1)
    own = AuthorizationCode.objects.filter(user=tried.person)
    own.update(issued_at=ended - timedelta(minutes=10), expires_at=ended)
    list(purging.batches(timezone.now() + timedelta(hours=2)))
    assert own.exists(), "nobody has recorded it yet"
    for _ in range(2):  # a second worker finds nothing
        monkeypatch.setattr(counts, "_claimed_at", None)
        counts._work()
    (entry,) = listing(tried.application.client_id, "--cause", NEVER_EXCHANGED)
    assert (entry["step"], entry["outcome"], entry["person"]) == ("exchange", "failed", str(tried.person.pk))
    for query in (f"cause={NEVER_EXCHANGED}", "step=exchange", f"who={tried.person.email}"):
        said = text_of(grace.get(f"{ACTIVITY}?{query}"))
        assert f"sent back → Access: The application never asked for access {tried.person.display_name}" in said
        assert said.count("sent back") == 1, "the code of the other one may still be exchanged"
    assert "sent back" not in text_of(grace.get(f"{ACTIVITY}?cause=verifier_wrong"))
    AuthorizationCode.objects.filter(user=other.person).delete()
    list(purging.batches(timezone.now() + timedelta(hours=2)))
    assert not AuthorizationCode.objects.exists()
    assert listing(tried.application.client_id) == [entry]
    assert ActivityCount.objects.get(cause=NEVER_EXCHANGED).number == 1


@pytest.mark.integration
def test_a_record_is_on_its_page_whatever_came_later_and_without_the_steps_of_others(grace: Client) -> None:
    people = PersonFactory(), PersonFactory()
    row = {"step": Step.SIGN_IN, "outcome": Outcome.REFUSED, "attempt": UUID(int=8)}
    for number in range(60):
        cause = "account_inactive" if number == 0 else "password_wrong"
        at = timezone.now() + timedelta(seconds=number)
        ActivityRecord.objects.create(at=at, person=people[number // 30], cause=cause, **row)
    said = text_of(grace.get(record_page(cause="account_inactive"))).partition("The attempt")[2]
    assert "Wrong password (20 times)" in said
    assert said.index("switched off") < said.index("Wrong password")


@pytest.mark.parametrize("attempt", [UUID(int=8), None])
def test_an_attempt_with_very_many_records_hides_no_other(attempt: UUID | None) -> None:
    """Records of no attempt are attempts of their own, and older ones follow."""
    other = Tried()
    other.exchange(code=other.callback(), client_secret="x" * 43)
    record = ActivityRecord.objects.get()
    of = {"client_id": record.client_id, "step": record.step, "outcome": record.outcome, "cause": record.cause}
    copies = [ActivityRecord(at=timezone.now(), attempt=attempt, **of) for _ in range(200)]
    ActivityRecord.objects.bulk_create(copies)
    found = attempts.attempts(Filters(client_id=record.client_id, is_failure=True), limit=20)
    assert (record.attempt in {each.key for each in found}, len(found)) == ((True, 2) if attempt else (False, 20))
