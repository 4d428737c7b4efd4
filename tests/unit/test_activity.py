"""The activity log: each refused step of a sign-in is one record, which tells the cause and whose it is. D24."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from oauth_bridge.activity_causes import FIXES, NEVER_EXCHANGED, fix_of
from oauth_bridge.activity_models import ActivityCount, ActivityRecord, Outcome, Step
from oauth_bridge.maintenance import purging
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.storage import activity, activity_counts, secret_states
from oauth_bridge.storage.activity import FLOOD
from tests.events import HTML, Attempt
from tests.factories import PASSWORD, PersonFactory

pytestmark = pytest.mark.django_db

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


class Tried(Attempt):
    """A sign-in that stops at one step. Each method ends with the request that is refused, and returns its answer."""

    def callback(self) -> str:
        """The code that a person's Allow leads back with."""
        location: str = self.answer(decision="allow")["Location"]
        return location.partition("code=")[2].partition("&")[0]

    def exchange(self, **changes: str | None) -> Any:
        application = self.application
        form = {
            "grant_type": "authorization_code",
            "client_id": application.client_id,
            "client_secret": application.secret,
            "code": "cut",
        }
        sent = {name: value for name, value in {**form, **changes}.items() if value is not None}
        return self.post("/oauth/token", sent, Client())

    def change(self, **changes: Any) -> None:
        Application.objects.filter(pk=self.application.row.pk).update(**changes)

    def get(self, **changes: str) -> Any:
        return self.browser.get(self.link(**changes), **HTML)

    def profile(self, token: str) -> Any:
        return Client().get("/oauth/userinfo", HTTP_AUTHORIZATION=f"Bearer {token}")

    def sign_in(self, **changes: str) -> Any:
        page = self.browser.get(self.link(), **HTML)["Location"]
        return self.post(page, {"login": self.person.email, "password": PASSWORD, **changes})


def disabled(tried: Tried) -> Any:
    tried.change(is_enabled=False)
    return tried.get()


def public(tried: Tried) -> Any:
    tried.change(client_type="public")
    return tried.get()


def unconfirmed(tried: Tried) -> Any:
    type(tried.person).objects.filter(pk=tried.person.pk).update(email_verified_at=None)
    tried.browser.force_login(tried.person)
    return tried.get()


def expired(tried: Tried) -> Any:
    code = tried.callback()
    AuthorizationCode.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    return tried.exchange(code=code)


def replayed(tried: Tried) -> Any:
    code = tried.callback()
    assert tried.exchange(code=code).status_code == 200
    AuthorizationCode.objects.update(redeemed_at=timezone.now() - timedelta(seconds=9))
    return tried.exchange(code=code)


def revoked(tried: Tried) -> Any:
    token = tried.exchange(code=tried.callback()).json()["access_token"]
    type(tried.person).objects.filter(pk=tried.person.pk).update(credentials_version=9)
    return tried.profile(token)


def not_admitted(tried: Tried) -> Any:
    tried.change(is_restricted=True)
    tried.browser.force_login(tried.person)
    return tried.get()


def code_of_one_who_left(tried: Tried) -> Any:
    code = tried.callback()
    tried.change(is_restricted=True)
    return tried.exchange(code=code)


def token_of_one_who_left(tried: Tried) -> Any:
    token = tried.exchange(code=tried.callback()).json()["access_token"]
    tried.change(is_restricted=True)
    return tried.profile(token)


def token_of_a_leaked_secret(tried: Tried) -> Any:
    token = tried.exchange(code=tried.callback()).json()["access_token"]
    secret_states.revoke(tried.application.row, 1, is_leaked=True)
    return tried.profile(token)


# By cause: the step, who is known (application, person, the attempt of the application's link), and the request.
REFUSED: dict[str, tuple[str, str, Callable[[Tried], Any]]] = {
    "client_id_missing": ("authorize", "", lambda tried: tried.get(client_id="")),
    "client_unknown": ("authorize", "t", lambda tried: tried.get(client_id="feed" * 8)),
    "client_disabled": ("authorize", "at", disabled),
    "redirect_uri_missing": ("authorize", "at", lambda tried: tried.get(redirect_uri="")),
    "redirect_uri_mismatch": ("authorize", "at", lambda tried: tried.get(redirect_uri="https://client.example/other")),
    "response_type": ("authorize", "at", lambda tried: tried.get(response_type="token")),
    "response_type_missing": ("authorize", "at", lambda tried: tried.get(response_type="")),
    "challenge_plain": (
        "authorize",
        "at",
        lambda tried: tried.get(code_challenge=CHALLENGE, code_challenge_method="plain"),
    ),
    "challenge_method_missing": ("authorize", "at", lambda tried: tried.get(code_challenge=CHALLENGE)),
    "challenge_malformed": (
        "authorize",
        "at",
        lambda tried: tried.get(code_challenge="short", code_challenge_method="S256"),
    ),
    "challenge_needed": ("authorize", "at", public),
    "link_cut": ("authorize", "", lambda tried: tried.browser.get("/oauth/authorize?pending=cut", **HTML)),
    "link_not_ours": ("authorize", "", lambda tried: tried.browser.get("/oauth/authorize?pending=a:b:c", **HTML)),
    "password_wrong": ("sign_in", "apt", lambda tried: tried.sign_in(password="wrong")),
    "account_unknown": ("sign_in", "at", lambda tried: tried.sign_in(login="nobody@example.com")),
    "no_verified_email": ("consent", "apt", unconfirmed),
    "not_admitted": ("consent", "apt", not_admitted),
    "refused": ("consent", "apt", lambda tried: tried.answer(decision="refuse")),
    "grant_type": ("exchange", "", lambda tried: tried.exchange(grant_type="password")),
    "grant_type_missing": ("exchange", "", lambda tried: tried.exchange(grant_type=None)),
    "code_missing": ("exchange", "", lambda tried: tried.exchange(code=None)),
    "secret_missing": ("exchange", "a", lambda tried: tried.exchange(client_secret=None)),
    "secret_wrong": ("exchange", "a", lambda tried: tried.exchange(client_secret="wrong")),
    "code_misshapen": ("exchange", "a", lambda tried: tried.exchange()),
    "code_unknown": ("exchange", "a", lambda tried: tried.exchange(code=tried.application.secret)),
    "code_ended_group": ("exchange", "apt", code_of_one_who_left),
    "token_ended_group": ("profile", "apt", token_of_one_who_left),
    "token_ended_secret": ("profile", "apt", token_of_a_leaked_secret),
    "code_expired": ("exchange", "apt", expired),
    "code_spent": ("exchange", "apt", replayed),
    "code_redirect_uri": (
        "exchange",
        "apt",
        lambda tried: tried.exchange(code=tried.callback(), redirect_uri="https://client.example/other"),
    ),
    "verifier_unasked": (
        "exchange",
        "apt",
        lambda tried: tried.exchange(code=tried.callback(), code_verifier="v" * 43),
    ),
    "token_missing": ("profile", "", lambda tried: Client().get("/oauth/userinfo")),
    "token_unknown": ("profile", "", lambda tried: tried.profile("x" * 43)),
    "token_ended_person": ("profile", "apt", revoked),
}


@pytest.mark.parametrize("cause", REFUSED)
def test_a_refused_step_is_one_record_with_its_cause(cause: str) -> None:
    step, known, refuse = REFUSED[cause]
    tried = Tried()
    answer = refuse(tried)
    record = ActivityRecord.objects.exclude(outcome="succeeded").get()
    assert (record.step, record.cause) == (step, cause)
    assert record.reference == answer["X-Reference"]
    assert record.client_id == (tried.application.client_id if "a" in known else "")
    assert record.person_id == (tried.person.pk if "p" in known else None)
    assert bool(record.attempt) == ("t" in known)
    assert record.address == "127.0.0.1"
    assert cause in FIXES


def test_the_steps_of_a_sign_in_have_one_attempt() -> None:
    tried = Tried()
    page = tried.browser.get(tried.link(), **HTML)["Location"]
    form = {"login": tried.person.email, "password": PASSWORD}
    tried.post(page, {**form, "password": "wrong"})
    consent = tried.browser.get(tried.post(page, form)["Location"], **HTML)
    location = tried.post("/oauth/authorize", {"pending": consent.context["pending"], "decision": "allow"})["Location"]
    code = location.partition("code=")[2]
    tried.exchange(code=code, redirect_uri="https://client.example/other")
    token = tried.exchange(code=code).json()["access_token"]
    tried.profile(token)
    activity_counts.flush()
    row = AuthorizationCode.objects.get()
    assert list(ActivityRecord.objects.order_by("at").values_list("step", "outcome", "attempt")) == [
        ("sign_in", "refused", row.attempt),
        ("sign_in", "succeeded", row.attempt),
        ("exchange", "refused", row.attempt),
    ]
    assert row.profile_read_at
    counts = ActivityCount.objects.filter(client_id=tried.application.client_id)
    assert {(each.step, each.outcome): each.number for each in counts} == {
        ("sign_in", "refused"): 1,
        ("sign_in", "succeeded"): 1,
        ("consent", "succeeded"): 1,
        ("exchange", "refused"): 1,
        ("exchange", "succeeded"): 1,
        ("profile", "succeeded"): 1,
    }


@pytest.mark.parametrize(
    "path", ["/nothing", "/oauth/token", "/oauth/authorize?%00", "/accounts/sign-in?x=%ff", "/static/nothing.css"]
)
def test_what_is_no_step_of_a_sign_in_is_not_recorded(path: str) -> None:
    Client().get(path)
    assert not ActivityRecord.objects.exclude(cause="client_id_missing").exists()


def test_what_was_typed_as_a_login_name_is_stored_as_a_mark_of_a_well_formed_address_only() -> None:
    tried = Tried()
    tried.sign_in(login="correct horse battery staple")
    tried.sign_in(login="nobody@example.com")
    tried.sign_in(password="wrong")
    marked = ActivityRecord.objects.exclude(login_mark=None).get()
    stored = json.dumps(list(ActivityRecord.objects.values()), default=str)
    assert "nobody" not in stored
    assert "horse" not in stored
    listed = listing("--address", "Nobody@example.com")
    assert [entry["reference"] for entry in listed] == [marked.reference]


def test_a_mark_is_found_under_a_fallback_key_and_becomes_the_persons_when_the_address_does(settings: Any) -> None:
    tried = Tried()
    tried.sign_in(login="new@example.com")
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of the same installation, long enough for the checks"
    assert len(listing("--address", "new@example.com")) == 1


def listing(*arguments: str) -> list[dict[str, Any]]:
    output = StringIO()
    call_command("application", "activity", *arguments, "--json", stdout=output)
    return json.loads(output.getvalue())  # type: ignore[no-any-return]


def test_the_command_lists_the_newest_first_and_filters() -> None:
    tried, other = Tried(), Tried()
    tried.get(redirect_uri="http://client.example/callback?state=hidden")
    other.exchange(client_secret="wrong")
    tried.exchange(client_secret="wrong")
    mine, client_id = listing(tried.application.client_id), tried.application.client_id
    assert [entry["cause"] for entry in mine] == ["secret_wrong", "redirect_uri_mismatch"]
    assert [entry["client_id"] for entry in mine] == [client_id, client_id]
    assert "hidden" not in json.dumps(mine)
    assert all(entry["fix"] for entry in mine)
    assert len(listing("--cause", "secret_wrong")) == 2
    assert len(listing("--step", "authorize")) == 1
    assert len(listing("--limit", "1")) == 1
    assert len(listing("--since", "1h")) == 3
    assert listing("--since", (timezone.now() + timedelta(hours=1)).isoformat()) == []
    assert len(listing("--address", "127.0.0.1")) == 3
    spoken = mine[0]["reference"].lower().replace("0", "o").replace("1", "l")
    assert [entry["cause"] for entry in listing("--reference", f"{spoken[:4]}-{spoken[4:]}")] == ["secret_wrong"]


@pytest.mark.parametrize("arguments", [("feed",), ("--since", "soon"), ("--limit", "0")])
def test_the_command_names_what_is_wrong(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match=r"client_id|--since|--limit"):
        listing(*arguments)


def test_a_code_that_is_never_exchanged_is_a_failure_from_its_end_on_and_stays_one() -> None:
    tried = Tried()
    tried.callback()
    assert listing() == []
    end = timezone.now() - timedelta(seconds=1)
    AuthorizationCode.objects.update(expires_at=end)
    (entry,) = listing(tried.application.client_id, "--cause", NEVER_EXCHANGED)
    assert (entry["step"], entry["outcome"], entry["person"]) == ("exchange", "failed", str(tried.person.pk))
    list(purging.batches(end + timedelta(hours=2)))
    assert not AuthorizationCode.objects.exists()
    (kept,) = listing()
    assert kept == entry
    assert ActivityCount.objects.get(cause=NEVER_EXCHANGED).number == 1


def test_a_refusal_after_allowing_is_no_failure_of_the_application() -> None:
    tried = Tried()
    form = tried.form()
    tried.post("/oauth/authorize", {**form, "decision": "allow"})
    tried.post("/oauth/authorize", {**form, "decision": "refuse"})
    AuthorizationCode.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert [entry["cause"] for entry in listing()] == ["refused"]


def test_records_are_kept_for_their_days_and_deleted_with_their_person() -> None:
    tried = Tried()
    tried.sign_in(password="wrong")
    list(purging.batches(timezone.now() + timedelta(days=settings.ACTIVITY_DAYS - 1)))
    assert ActivityRecord.objects.count() == 1
    list(purging.batches(timezone.now() + timedelta(days=settings.ACTIVITY_DAYS + 1)))
    assert ActivityRecord.objects.count() == 0
    tried.sign_in(password="wrong")
    type(tried.person).objects.get(pk=tried.person.pk).delete()
    assert ActivityRecord.objects.count() == 0


def test_a_flood_is_bounded_and_takes_no_record_from_others() -> None:
    attacked, other = Tried(), Tried()
    for number in range(700):
        Client().get(attacked.link(redirect_uri="x:"), REMOTE_ADDR=f"198.51.{number % 100}.7", **HTML)
    kept = ActivityRecord.objects.filter(client_id=attacked.application.client_id).count()
    assert FLOOD < kept < 640  # then each of 64 slots is full at 8
    activity_counts.flush()
    assert ActivityCount.objects.get(client_id=attacked.application.client_id).number == 700
    for _ in range(40):
        other.get(redirect_uri="x:")
    assert ActivityRecord.objects.filter(client_id=other.application.client_id).count() == 40
    # Who proves the secret is not counted with strangers.
    attacked.exchange()
    assert ActivityRecord.objects.filter(cause="code_misshapen").count() == 1


def test_what_waited_for_the_database_is_written_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    record = activity.Record(at=timezone.now(), step=Step.SIGN_IN, outcome=Outcome.SUCCEEDED)
    for _ in range(activity_counts.MOST_WAITING + 5):
        activity_counts.add_later(record)
    with monkeypatch.context() as patch:
        patch.setattr(ActivityRecord.objects, "bulk_create", raises)
        with pytest.raises(OperationalError):
            activity_counts.flush()
    activity_counts.flush()
    assert ActivityRecord.objects.count() == activity_counts.MOST_WAITING
    assert ActivityCount.objects.get().number == activity_counts.MOST_WAITING + 5
    activity_counts.flush()
    assert ActivityRecord.objects.count() == activity_counts.MOST_WAITING


def raises(*_: object, **__: object) -> None:
    raise OperationalError


def test_an_attempt_has_at_most_twenty_records() -> None:
    tried = Tried()
    code = tried.callback()
    for _ in range(25):
        tried.exchange(code=code, redirect_uri="https://client.example/other")
    assert ActivityRecord.objects.count() == 20


def test_a_failure_to_record_changes_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    tried = Tried()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {ActivityRecord._meta.db_table}")
    assert tried.get(redirect_uri="x:").status_code == 400
    assert "activity not recorded" in caplog.text


def test_every_cause_has_something_to_do() -> None:
    assert fix_of("method")
    assert fix_of("a cause of a later release") == ""


def test_the_export_of_a_person_has_their_records() -> None:
    tried = Tried()
    tried.sign_in(password="wrong")
    PersonFactory()
    tried.sign_in()
    data = tried.browser.post("/accounts/export").json()
    assert [entry["cause"] for entry in data["activity"]] == ["password_wrong"]
