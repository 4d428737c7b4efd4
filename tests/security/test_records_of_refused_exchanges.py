"""A refused exchange belongs to the attempt of the code that was sent, and nobody makes a sign-in look refused. D24."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from oauth_bridge.activity import attempts, counts, reading
from oauth_bridge.activity.causes import NEVER_EXCHANGED
from oauth_bridge.activity.reading import Filters
from oauth_bridge.management import purging
from oauth_bridge.models import AuthorizationCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.unit.test_activity import Tried

pytestmark = pytest.mark.django_db

WRONG = "x" * 43
# What is sent beside the code, by the cause of the refusal; None: the field is left out.
REFUSED: dict[str, Callable[[Tried], dict[str, str | None]]] = {
    "secret_wrong": lambda _: {"client_secret": WRONG},
    "secret_missing": lambda _: {"client_secret": None},
    "verifier_instead_of_secret": lambda _: {"client_secret": None, "code_verifier": WRONG},
    "secret_of_another": lambda _: {"client_secret": Tried().application.secret},
    "client_unknown": lambda _: {"client_id": "unheard-of"},
    "client_id_not_in_form": lambda _: {"client_id": None},
    "grant_type": lambda _: {"grant_type": "code"},
    "grant_type_missing": lambda _: {"grant_type": None},
    "verifier_malformed": lambda _: {"code_verifier": "short"},
}


def expire() -> None:
    """Let all codes expire, and a worker record this. The records so far move to half a minute after the issue."""
    now = timezone.now()
    AuthorizationCode.objects.update(issued_at=now - timedelta(minutes=11), expires_at=now - timedelta(minutes=1))
    ActivityRecord.objects.update(at=now - timedelta(minutes=10.5))
    counts.record_never_exchanged(now - timedelta(minutes=12))


def attempts_of(tried: Tried) -> list[attempts.Attempt]:
    return attempts.attempts(Filters(client_id=tried.application.client_id))


@pytest.mark.parametrize("cause", REFUSED)
def test_a_refused_exchange_is_told_with_the_attempt_and_the_person_of_its_code(cause: str) -> None:
    tried = Tried()
    code = tried.callback()
    assert tried.exchange(code=code, **REFUSED[cause](tried)).status_code in (400, 401)
    expire()
    (attempt,) = attempts_of(tried)
    assert attempt.failure
    assert (attempt.failure.cause, attempt.person_id) == (cause, tried.person.pk)
    assert [event.step for event in attempt.events] == ["consent", "exchange"]
    assert [each.cause for each in reading.entries(Filters(client_ids=[tried.application.client_id]))] == [cause]
    list(purging.batches(timezone.now() + timedelta(hours=2)))
    counts.flush()
    assert not AuthorizationCode.objects.exists()
    assert not ActivityCount.objects.filter(cause=NEVER_EXCHANGED).exists()
    assert ActivityCount.objects.filter(cause=cause, client_id=tried.application.client_id, number=1).exists()


@pytest.mark.parametrize(
    ("cause", "path", "added"),
    [
        ("repeated", "/oauth/token", "client_id=twice"),
        ("malformed", "/oauth/token", "code_verifier=%ff"),
        ("padded", "/oauth/token", "client_secret=a%20"),
        ("in_url", "/oauth/token?{form}", ""),
        ("throttled_token_failures", "/oauth/token", f"grant_type=authorization_code&client_secret={WRONG}"),
    ],
)
def test_a_bad_or_limited_exchange_has_the_codes_attempt(settings: Any, cause: str, path: str, added: str) -> None:
    settings.RATES = {"token_failures": "1/m"}
    tried = Tried()
    tried.exchange(client_secret=WRONG)
    form = f"code={tried.callback()}&client_id={tried.application.client_id}"
    answer = Client().post(path.format(form=form), f"{form}&{added}", "application/x-www-form-urlencoded")
    record = ActivityRecord.objects.get(cause=cause)
    assert (answer.status_code, record.reference) == (429 if "throttled" in cause else 400, answer["X-Reference"])
    assert (record.attempt, record.person_id) == (AuthorizationCode.objects.get().attempt, tried.person.pk)


def test_the_code_of_another_application_tells_nothing_to_a_caller_who_proves_nothing() -> None:
    tried, other = Tried(), Tried()
    other.exchange(code=tried.callback(), client_secret=WRONG)
    record = ActivityRecord.objects.get(cause="secret_wrong")
    assert (record.client_id, record.attempt, record.person_id) == (other.application.client_id, None, None)


def test_whoever_finds_a_code_does_not_make_a_sign_in_look_refused_or_use_up_its_records() -> None:
    tried = Tried().with_challenge()
    code = tried.callback()
    for _ in range(20):
        tried.exchange(code=code, client_secret=WRONG)
    tried.exchange(code=code, code_verifier=WRONG)
    assert ActivityRecord.objects.filter(cause="verifier_wrong").exists()
    ActivityRecord.objects.all().delete()
    tried = Tried()
    code = tried.callback()
    tried.exchange(code=code, client_secret=WRONG)
    assert tried.exchange(code=code).status_code == 200
    tried.exchange(code=code, client_secret=WRONG)
    (first, last) = ActivityRecord.objects.filter(cause="secret_wrong").order_by("id")
    assert (last.attempt, last.person_id) == (None, None), "the code was redeemed by then"
    (attempt,) = [each for each in attempts_of(tried) if each.key == first.attempt]
    assert attempt.ending is attempts.Ending.SIGNED_IN


@pytest.mark.integration
@pytest.mark.parametrize("is_full", [False, True])
def test_the_same_statements_run_if_the_code_exists_and_few_beyond_the_budget(monkeypatch: Any, is_full: bool) -> None:
    tried = Tried()
    code = tried.callback()
    if is_full:
        monkeypatch.setattr("oauth_bridge.activity.counts.has_room", lambda *_: False)
    sent = []
    for changes in ({}, {"client_id": "unheard-of"}):
        for each in (code, WRONG):
            with CaptureQueriesContext(connection) as captured:
                tried.exchange(code=each, client_secret=WRONG, **changes)
            sent.append([query["sql"].split()[0] for query in captured.captured_queries])
    assert all(each == (["SELECT", "SELECT"] if is_full else sent[0]) for each in sent)
