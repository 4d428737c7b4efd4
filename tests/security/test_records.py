"""Records of refused exchanges, of what a browser stops, and of addresses that nobody confirms: whose they are. D24."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import attempts, counts, reading
from oauth_bridge.activity.causes import CAUSES, NEVER_EXCHANGED, needs_mending
from oauth_bridge.activity.reading import Filters
from oauth_bridge.administration.record_facts import is_mended
from oauth_bridge.management import purging
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.factories import PASSWORD
from tests.grants import HTML, Attempt
from tests.pages import CODE_PAGE, mailed_code, sign_up
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


FETCH = {"HTTP_SEC_FETCH_DEST": "empty", "HTTP_SEC_FETCH_MODE": "cors", "HTTP_ORIGIN": "https://client.example"}
FRAME = {"HTTP_SEC_FETCH_DEST": "iframe", "HTTP_SEC_FETCH_MODE": "navigate"}
PREFLIGHT = {"HTTP_ORIGIN": "https://client.example", "HTTP_ACCESS_CONTROL_REQUEST_METHOD": "GET"}


@pytest.mark.parametrize("host", ["testserver", "api.example.com"])
def test_what_the_browser_stops_is_recorded_each_time(settings: Any, host: str) -> None:
    stopped = [(FETCH, "called_by_script", "GET", 503), (PREFLIGHT, "called_by_script", "OPTIONS", 405)]
    if host == "testserver":
        stopped.append((FRAME, "framed", "GET", 503))
    else:
        settings.BASE_URL, settings.AUTH_URL = "https://api.example.com", "https://auth.example.com"
        settings.ORIGINS_ARE_SET, settings.ALLOWED_HOSTS = True, ["api.example.com", "auth.example.com"]
    for headers, cause, method, status in stopped:
        tried = Attempt()
        answers = [Client().generic(method, tried.link(), HTTP_HOST=host, **headers) for _ in range(5)]
        assert {(each.status_code, "Access-Control-Allow-Origin" in each.headers) for each in answers} == {
            (status, False)
        }
        found = ActivityRecord.objects.filter(step="authorize", cause=cause, client_id=tried.application.client_id)
        assert {record.reference for record in found} == {answer["X-Reference"] for answer in answers}
    if host != "testserver":
        assert Client().get(tried.link(), HTTP_HOST=host).status_code == 302
        assert Client().get("/accounts/sign-in", HTTP_HOST=host, **FETCH).status_code == 302


def test_nothing_else_is_recorded() -> None:
    tried = Attempt()
    for headers, path in (
        ({"HTTP_SEC_PURPOSE": "prefetch", **FETCH}, tried.link()),
        ({"HTTP_SEC_FETCH_DEST": "image"}, tried.link()),
        ({"HTTP_PURPOSE": "prefetch", **FRAME}, tried.link()),
        (FETCH, tried.link(client_id="unheard-of")),
        (FRAME, f"/oauth/logout?client_id={tried.application.client_id}"),
    ):
        assert tried.browser.get(path, **headers).status_code == 503, headers
    assert Client().options(tried.link()).status_code == 405
    assert not ActivityRecord.objects.exists()


def test_a_silent_request_in_a_frame_is_answered_without_a_page() -> None:
    tried = Attempt()
    signed_out = Client().get(tried.link(scope="openid", prompt="none"), **FRAME)
    assert signed_out.status_code == 302
    assert "error=login_required" in signed_out["Location"]
    tried.browser.force_login(tried.person)
    assert "error=consent_required" in tried.browser.get(tried.link(scope="openid", prompt="none"), **FRAME)["Location"]
    for changes in ({"prompt": "none"}, {"scope": "openid"}, {"scope": "openid", "prompt": "none login"}):
        assert tried.browser.get(tried.link(**changes), **FRAME).status_code == 503
    prefetched = {**FRAME, "HTTP_SEC_PURPOSE": "prefetch"}
    assert tried.browser.get(tried.link(scope="openid", prompt="none"), **prefetched).status_code == 503
    assert Client().get("/oauth/logout?scope=openid&prompt=none", **FRAME).status_code == 503


CAUSE = "address_unconfirmed"


def signed_up(tried: Attempt) -> tuple[User, str]:
    page = tried.browser.get(tried.browser.get(tried.link(), **HTML)["Location"])
    code_page = sign_up(tried.browser, next=page.context["return_to"])["Location"]
    return User.objects.get(email="new@example.org"), code_page


def signed_in(tried: Attempt) -> tuple[User, str]:
    User.objects.filter(pk=tried.person.pk).update(email_verified_at=None)
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    return tried.person, tried.post(page, {"login": tried.person.email, "password": PASSWORD})["Location"]


@pytest.mark.usefixtures("sign_up_is_open")
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
