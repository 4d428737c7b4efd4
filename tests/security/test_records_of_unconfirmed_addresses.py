"""Whoever is sent to confirm an address and does not is found by the application and by the address. D16, D24."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from accounts.models import User
from oauth_bridge.activity import attempts, counts, reading
from oauth_bridge.activity.causes import CAUSES, needs_mending
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration.record_facts import is_mended
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.factories import PASSWORD
from tests.grants import HTML, Attempt
from tests.pages import CODE_PAGE, mailed_code, sign_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]
CAUSE = "address_unconfirmed"


def signed_up(tried: Attempt) -> tuple[User, str]:
    page = tried.browser.get(tried.browser.get(tried.link(), **HTML)["Location"])
    code_page = sign_up(tried.browser, next=page.context["return_to"])["Location"]
    return User.objects.get(email="new@example.org"), code_page


def signed_in(tried: Attempt) -> tuple[User, str]:
    User.objects.filter(pk=tried.person.pk).update(email_verified_at=None)
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    return tried.person, tried.post(page, {"login": tried.person.email, "password": PASSWORD})["Location"]


@pytest.mark.parametrize("begin", [signed_up, signed_in])
def test_a_code_that_is_not_typed_is_found_by_application_and_address_until_it_is(begin: Any) -> None:
    tried = Attempt()
    person, code_page = begin(tried)
    counts.flush()
    for filters in (Filters(client_id=tried.application.client_id), Filters(who=person.email)):
        (attempt,) = attempts.attempts(filters)
        assert attempt.failure
        assert (attempt.failure.step, attempt.failure.cause) == ("sign_in", CAUSE)
        assert (attempt.client_id, attempt.person_id) == (tried.application.client_id, person.pk)
        assert attempt.ending is attempts.Ending.UNFINISHED
    assert not ActivityCount.objects.exists(), "most people type the code a minute later"
    assert CAUSE in CAUSES
    assert not needs_mending("sign_in", CAUSE), "the application is not to blame"
    assert not is_mended(*record_of(tried))

    assert code_page.startswith(CODE_PAGE)
    ActivityRecord.objects.update(at=F("at") - timedelta(seconds=1))
    assert tried.browser.post(code_page, {"code": mailed_code()}).status_code == 302
    counts.flush()
    (attempt,) = attempts.attempts(Filters(client_id=tried.application.client_id))
    steps = [(event.step, event.outcome) for event in attempt.events]
    assert steps == [("sign_in", "unfinished"), ("sign_in", "succeeded")]
    assert attempt.ending is attempts.Ending.GOING_ON
    assert is_mended(*record_of(tried))


def record_of(tried: Attempt) -> tuple[ActivityRecord, Application]:
    (entry,) = reading.entries(Filters(cause=CAUSE))
    return entry, Application.objects.get(pk=tried.application.row.pk)


def test_whoever_is_signed_in_and_changes_the_address_leaves_none() -> None:
    tried = Attempt()
    tried.browser.force_login(tried.person)
    tried.browser.post("/accounts/email", {"email": "other@example.org"})
    counts.flush()
    assert not ActivityRecord.objects.exists()
