"""The number of an attempt: unique, and in the order of time. Its code: that of the last request."""

from __future__ import annotations

from datetime import timedelta
from uuid import RFC_4122, UUID, uuid4

import pytest
import time_machine
from django.utils import timezone

from oauth_bridge.consent.pending_request import new_attempt
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import codes
from tests.factories import ApplicationFactory, PersonFactory


def test_attempts_are_unique_and_in_the_order_of_time() -> None:
    with time_machine.travel("2026-11-21T12:00:00Z", tick=False) as clock:
        first, second = new_attempt(), new_attempt()
        assert first != second
        clock.shift(0.001)
        later = new_attempt()
    assert later > max(first, second)
    for attempt in (first, second, later):
        assert (UUID(attempt).version, UUID(attempt).variant) == (7, RFC_4122)
    assert int(first[:12], 16) == 1795262400000


@pytest.mark.django_db
def test_of_a_double_click_the_later_request_keeps_its_code_even_if_it_is_faster() -> None:
    application = ApplicationFactory()
    person, clicked = PersonFactory(), timezone.now()
    attempt = codes.Attempt(uuid4(), application.row, application.redirect_uri, "profile", "")
    code = codes.issue(attempt, person, clicked + timedelta(seconds=0.2))
    with pytest.raises(codes.AlreadyRedeemed):
        codes.issue(attempt, person, clicked)
    row = AuthorizationCode.objects.get(attempt=attempt.id)
    assert row.digest == digest_of(code)
    # A clock that was set back is no double click.
    again = codes.issue(attempt, person, clicked - timedelta(seconds=5))
    row.refresh_from_db()
    assert row.digest == digest_of(again)


@pytest.mark.django_db
def test_the_code_of_an_attempt_is_never_replaced_for_another_application() -> None:
    applications, person, attempt = [ApplicationFactory(), ApplicationFactory()], PersonFactory(), uuid4()
    own, other = (codes.Attempt(attempt, each.row, each.redirect_uri, "profile", "") for each in applications)
    code = codes.issue(own, person)
    with pytest.raises(codes.AlreadyRedeemed):
        codes.issue(other, person)
    assert AuthorizationCode.objects.get(attempt=attempt).digest == digest_of(code)
