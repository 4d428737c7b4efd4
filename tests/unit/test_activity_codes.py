"""A code that was never exchanged, one whose exchange was refused, and what can be checked of a record again."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from oauth_bridge.activity_causes import NEVER_EXCHANGED
from oauth_bridge.activity_models import ActivityCount, ActivityRecord
from oauth_bridge.administration import recheck
from oauth_bridge.maintenance import purging
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.storage import activity_reading, attempts
from oauth_bridge.storage.activity_reading import Filters
from tests.unit.test_activity import CHALLENGE, Tried, listing, unconfirmed

pytestmark = pytest.mark.django_db


def expire() -> None:
    """All codes, eleven minutes ago; and what is recorded so far happened ten minutes and a half ago."""
    now = timezone.now()
    AuthorizationCode.objects.update(issued_at=now - timedelta(minutes=11), expires_at=now - timedelta(minutes=1))
    ActivityRecord.objects.update(at=now - timedelta(minutes=10.5))


def test_a_refused_exchange_stays_the_failure_when_its_code_expires() -> None:
    tried = Tried()
    link = tried.link
    tried.link = lambda **changes: link(code_challenge=CHALLENGE, code_challenge_method="S256", **changes)  # type: ignore[method-assign]
    tried.exchange(code=tried.callback(), code_verifier="x" * 43)
    expire()
    (attempt,) = attempts.attempts(Filters(client_id=tried.application.client_id))
    assert attempt.failure
    assert (attempt.failure.cause, attempt.ending) == ("verifier_wrong", attempts.Ending.FAILED)
    assert attempt.failure.entry
    assert [each["cause"] for each in listing()] == ["verifier_wrong"]
    list(purging.batches(timezone.now() + timedelta(hours=2)))
    assert not AuthorizationCode.objects.exists()
    assert [each["cause"] for each in listing()] == ["verifier_wrong"]
    assert not ActivityCount.objects.filter(cause=NEVER_EXCHANGED).exists()


def test_the_attempt_of_a_code_that_was_never_exchanged_is_found_by_its_cause() -> None:
    tried, other = Tried(), Tried()
    tried.callback()
    expire()
    other.callback()
    for filters in (Filters(cause=NEVER_EXCHANGED), Filters(step="exchange"), Filters(who=tried.person.email)):
        (attempt,) = attempts.attempts(filters)
        assert attempt.failure
        assert (attempt.failure.cause, attempt.person_id) == (NEVER_EXCHANGED, tried.person.pk)
    assert attempts.attempts(Filters(cause="verifier_wrong")) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"scope": "openid", "prompt": "none"}, "partly"),
        ({"scope": "openid", "prompt": "none login"}, "no"),
        ({"scope": "openid", "claims": "{"}, "no"),
        ({"redirect_uri": "https://other.example/cb"}, "no"),
    ],
)
def test_only_what_is_checked_again_would_pass(changes: dict[str, str], expected: str) -> None:
    tried = Tried()
    tried.get(**changes)
    (entry,) = activity_reading.entries(Filters())
    assert recheck.passes(recheck.checks(entry, Application.objects.get(pk=tried.application.row.pk))) == expected


def test_an_address_that_was_confirmed_meanwhile_would_pass() -> None:
    tried = Tried()
    unconfirmed(tried)
    record = ActivityRecord.objects.get(cause="no_verified_email")
    entry = activity_reading.entry(record.pk)
    assert entry
    application = Application.objects.get(pk=tried.application.row.pk)
    assert recheck.passes(recheck.checks(entry, application)) == "no"
    type(tried.person).objects.filter(pk=tried.person.pk).update(email_verified_at=timezone.now())
    assert recheck.passes(recheck.checks(entry, application)) == "yes"
