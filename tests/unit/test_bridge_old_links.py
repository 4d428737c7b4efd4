"""Old links begin a new attempt, and two people who open one link are never taken for one. D8, D24."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
import time_machine
from django.core import signing
from django.test import Client
from django.utils import timezone

from oauth_bridge.activity_models import ActivityRecord, Outcome, Step
from oauth_bridge.consent.pending_request import SALT, PendingRequest
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.storage import activity, activity_counts, attempts
from oauth_bridge.storage.activity import MOST_OF_AN_ATTEMPT, PEOPLE, Record
from oauth_bridge.storage.activity_reading import Filters
from oauth_bridge.storage.exported_data import stored_about
from tests.events import HTML, Attempt
from tests.factories import PASSWORD, PersonFactory

pytestmark = pytest.mark.django_db
HOUR = 3600


def pending_of(url: str) -> PendingRequest:
    """Of the sign-in page, or of a link to authorize."""
    query = parse_qs(urlsplit(url).query)
    onward = query["next"][0] if "next" in query else url
    pending = PendingRequest.of_path(onward)
    assert pending
    return pending


def opened(seconds: int, page: str, browser: Client) -> tuple[Any, PendingRequest]:
    """The page where somebody arrives who opens it after so many seconds, and its pending request."""
    with time_machine.travel(timezone.now().timestamp() + seconds, tick=False):
        answer = browser.get(page, **HTML, follow=True)
    urls = [url for url, _status in answer.redirect_chain] or [page]
    return answer, pending_of(urls[-1])


@pytest.mark.parametrize(("seconds", "is_new"), [(HOUR - 60, False), (HOUR + 60, True)])
def test_a_bookmarked_sign_in_page_begins_a_new_attempt_after_an_hour(seconds: int, is_new: bool) -> None:
    tried = Attempt()
    page = tried.browser.get(tried.link(state="s"), **HTML)["Location"]
    before = pending_of(page)
    answer, after = opened(seconds, page, Client())
    assert answer.status_code == 200
    assert answer.context["form"]
    assert (after.attempt != before.attempt) is is_new
    assert after.renews == (before.attempt if is_new else "")
    assert (after.parameters, after.state) == (before.parameters, before.state)


@pytest.mark.parametrize("is_signed_in", [True, False])
def test_an_old_link_of_an_attempt_that_is_done_says_so(is_signed_in: bool) -> None:
    tried = Attempt()
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    link = parse_qs(urlsplit(page).query)["next"][0]
    tried.browser.force_login(tried.person)
    consent = tried.browser.get(link, **HTML)
    tried.post("/oauth/authorize", {"pending": consent.context["pending"], "decision": "allow"})
    AuthorizationCode.objects.update(redeemed_at=timezone.now())
    browser = tried.browser
    if not is_signed_in:
        browser = Client()
        _answer, renewed = opened(2 * HOUR, link, browser)
        link = f"/oauth/authorize?pending={renewed.seal()}"
        browser.force_login(tried.person)
    answer = browser.get(link, **HTML) if not is_signed_in else opened(2 * HOUR, link, browser)[0]
    assert "You already signed in" in answer.content.decode()


def test_an_old_link_leads_on_with_its_notice() -> None:
    tried = Attempt()
    pending = pending_of(tried.browser.get(tried.link(), **HTML)["Location"])
    tried.browser.force_login(tried.person)
    answer, renewed = opened(2 * HOUR, f"/oauth/authorize?pending={pending.seal()}&notice=1", tried.browser)
    assert renewed.renews == pending.attempt
    assert answer.context["notice"]
    assert "Allow" in answer.content.decode()


def test_a_request_that_renews_nothing_is_sealed_as_before() -> None:
    pending = pending_of(Attempt().browser.get(Attempt().link(), **HTML)["Location"])
    assert "renews" not in signing.loads(pending.seal(), salt=SALT)


def failed(page: str, person: Any) -> None:
    Attempt().post(page, {"login": person.email, "password": "wrong"}, Client())


def test_two_people_who_open_one_link_have_an_attempt_each() -> None:
    tried, mallory = Attempt(), PersonFactory()
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    failed(page, tried.person)
    (alone,) = attempts.attempts(Filters(person_id=tried.person.pk))
    tried.post(page, {"login": "nobody@example.com", "password": "wrong"}, Client())
    (joined,) = attempts.attempts(Filters(person_id=tried.person.pk))
    assert (len(alone.events), len(joined.events)) == (1, 2)
    failed(page, mallory)
    tried.post(page, {"login": mallory.email, "password": PASSWORD}, Client())
    activity_counts.flush()
    for person, number in ((tried.person, 1), (mallory, 2)):
        (found,) = attempts.attempts(Filters(person_id=person.pk))
        assert [event.entry and event.entry.person_id for event in found.events] == [person.pk] * number
    everybody = attempts.attempts(Filters(client_id=tried.application.client_id))
    assert {(each.person_id, len(each.events)) for each in everybody} == {
        (tried.person.pk, 1),
        (mallory.pk, 2),
        (None, 1),
    }
    exported = stored_about(mallory, 100)["activity"]
    assert [entry["outcome"] for entry in exported] == ["succeeded", "refused"]


def test_nobody_uses_up_the_records_of_another_in_the_same_attempt() -> None:
    alice, mallory, attempt = PersonFactory(), PersonFactory(), UUID(int=7)
    for person in (mallory, None, alice):
        for _ in range(MOST_OF_AN_ATTEMPT + 2):
            pk = person and person.pk
            record = Record(
                at=timezone.now(), step=Step.SIGN_IN, outcome=Outcome.REFUSED, attempt=attempt, person_id=pk
            )
            activity.add(record, PEOPLE, activity.slot_of(PEOPLE, pk))
    for person in (mallory, None, alice):
        assert ActivityRecord.objects.filter(person=person and person.pk).count() == MOST_OF_AN_ATTEMPT


def test_of_an_attempt_twenty_rows_are_shown() -> None:
    person, attempt, now = PersonFactory(), UUID(int=8), timezone.now()
    row = {"at": now, "step": Step.SIGN_IN, "outcome": Outcome.SUCCEEDED, "attempt": attempt, "person": person}
    rows = ActivityRecord.objects.bulk_create(ActivityRecord(**row) for _ in range(25))
    (found,) = attempts.attempts(Filters(person_id=person.pk))
    shown = [event.entry.id for event in found.events if event.entry]
    assert shown == [each.pk for each in rows[-20:]]
