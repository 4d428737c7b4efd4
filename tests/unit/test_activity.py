"""The activity log: each refused step of a sign-in is one record, which tells the cause and whose it is. D24."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import User
from oauth_bridge.activity import counts as activity_counts
from oauth_bridge.models import Application, AuthorizationCode
from oauth_bridge.models.activity import ActivityCount, ActivityRecord
from tests.factories import PASSWORD, PersonFactory
from tests.grants import HTML, Attempt, read
from tests.pages import text_of
from tests.unit.test_bridge_operator import described, run

pytestmark = pytest.mark.django_db

CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


class Tried(Attempt):
    """The steps of a sign-in. A method that sends a request returns the answer."""

    def callback(self) -> str:
        location: str = self.answer(decision="allow")["Location"]
        return location.partition("code=")[2].partition("&")[0]

    def exchange(self, **changes: str | None) -> Any:
        form = {"client_id": self.application.client_id, "client_secret": self.application.secret}
        form |= {"grant_type": "authorization_code", "code": "cut"}
        sent = {name: value for name, value in {**form, **changes}.items() if value is not None}
        return self.post("/oauth/token", sent, Client())

    def change(self, **changes: Any) -> Tried:
        Application.objects.filter(pk=self.application.row.pk).update(**changes)
        return self

    def signed_in(self, **changes: Any) -> Tried:
        User.objects.filter(pk=self.person.pk).update(**changes)
        self.browser.force_login(self.person)
        return self

    def get(self, **changes: str) -> Any:
        return self.browser.get(self.link(**changes), **HTML)

    def with_challenge(self) -> Tried:
        link = self.link
        self.link = lambda **changes: link(code_challenge=CHALLENGE, code_challenge_method="S256", **changes)  # type: ignore[method-assign]
        return self

    def sign_in(self, **changes: str) -> Any:
        page = self.browser.get(self.link(), **HTML)["Location"]
        answer = self.post(page, {"login": self.person.email, "password": PASSWORD, **changes})
        activity_counts.flush()
        return answer


@pytest.mark.integration
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
    read(token)
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


def test_what_is_no_step_of_a_sign_in_is_not_recorded() -> None:
    for path in ("/nothing", "/oauth/token", "/oauth/authorize?%00", "/accounts/sign-in?x=%ff", "/static/nothing.css"):
        Client().get(path)
    assert not ActivityRecord.objects.exclude(cause="client_id_missing").exists()


def test_a_link_with_more_parameters_than_django_reads_is_recorded(settings: Any) -> None:
    many = "&".join(f"a{number}=1" for number in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1))
    tried = Tried()
    tried.browser.get(f"{tried.link(redirect_uri='https://mallory.example/')}&{many}", **HTML)
    record = ActivityRecord.objects.get()
    assert (record.cause, record.detail["parameters"]["a0"]) == ("redirect_uri_mismatch", "1")


def test_a_typed_login_name_is_stored_as_a_mark_of_a_well_formed_address_only(settings: Any) -> None:
    tried = Tried()
    tried.sign_in(login="correct horse battery staple")
    tried.sign_in(login="nobody@example.com")
    tried.sign_in(password="wrong")
    marked = ActivityRecord.objects.exclude(login_mark=None).get()
    stored = json.dumps(list(ActivityRecord.objects.values()), default=str)
    assert "nobody" not in stored
    assert "horse" not in stored
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of the same installation, long enough for the checks"
    assert [entry["reference"] for entry in listing("--address", "Nobody@example.com")] == [marked.reference]


@pytest.mark.integration
def test_the_record_of_a_limit_names_the_person_and_costs_the_same_without_an_account(settings: Any) -> None:
    settings.RATES = {"sign_in_account": "1/h"}
    person, statements = PersonFactory(), []
    for address in (person.email, "nobody@example.com"):
        for _ in range(2):
            with CaptureQueriesContext(connection) as captured:
                Client().post("/accounts/sign-in", {"login": address, "password": "wrong"}, **HTML)
        statements.append([re.match("[^'0-9]*", query["sql"])[0] for query in captured])  # type: ignore[index]
    assert statements[0] == statements[1]
    known, nobodys = ActivityRecord.objects.filter(cause="sign_in_limited_account").order_by("pk")
    assert (known.person_id, known.login_mark, nobodys.person_id) == (person.pk, None, None)
    assert nobodys.login_mark
    assert 3500 < known.detail["seconds"] <= 3600


def listing(*arguments: str) -> Any:
    return described("activity", *arguments)


def test_the_command_lists_the_newest_first_and_filters_and_names_what_is_wrong(grace: Client) -> None:
    tried, other = Tried(), Tried()
    tried.get(redirect_uri="http://client.example/callback?state=hidden")
    other.exchange(client_secret="wrong")
    tried.exchange(client_secret="wrong")
    mine = listing(tried.application.client_id)
    assert [(entry["cause"], bool(entry["fix"])) for entry in mine] == [
        ("secret_wrong", True),
        ("redirect_uri_mismatch", True),
    ]
    assert "hidden" not in json.dumps(mine)
    later = (timezone.now() + timedelta(hours=1)).isoformat()
    filters = "cause=secret_wrong", "step=authorize", "limit=1", "since=1h", f"since={later}", "address=127.0.0.1"
    assert [len(listing(f"--{each}")) for each in filters] == [2, 1, 1, 3, 0, 3]
    spoken = mine[0]["reference"].lower().replace("0", "o").replace("1", "l")
    assert [entry["cause"] for entry in listing("--reference", f"{spoken[:4]}-{spoken[4:]}")] == ["secret_wrong"]
    for wrong, *arguments in (("client_id", "feed"), ("--since", "--since", "soon"), ("--limit", "--limit=-1")):
        with pytest.raises(CommandError, match=wrong):
            listing(*arguments)
    _nothing, told = run("activity", "--reference", "7K3M9QXT")
    for text in (told, text_of(grace.get("/admin/find/", {"q": "7K3M9QXT"}))):
        assert "every reference" in text


def test_who_fails_forty_times_in_an_hour_finds_each_of_the_forty() -> None:
    tried = Tried()
    code = tried.callback()
    answers = [tried.exchange(code=code, redirect_uri="https://client.example/other") for _ in range(40)]
    answers += [tried.get(redirect_uri="https://client.example/x") for _ in range(40)]
    answers += [tried.exchange(client_secret="wrong") for _ in range(40)]
    references = {answer["X-Reference"] for answer in answers}
    assert len(references) == 120
    listed = listing(tried.application.client_id, "--limit", "1000")
    assert {entry["reference"] for entry in listed} == references


@pytest.mark.integration
@pytest.mark.parametrize("without", ["nothing", "limits", "redis"])
def test_a_flood_takes_no_record_from_others(settings: Any, without: str, request: pytest.FixtureRequest) -> None:
    """Many addresses may hide records of strangers, one address hides nobody's."""
    settings.RATES_OF_RECORDS = {"records_of_caller": "6/h", "records_of_kind": "10/h"}
    if without == "limits":
        settings.RATES = {}
    if without == "redis":
        request.getfixturevalue("redis_away")
    attacked, other = Tried(), Tried()

    def refused(tried: Tried, address: str) -> None:
        Client().get(tried.link(redirect_uri="x:"), REMOTE_ADDR=address, **HTML)

    def kept(tried: Tried) -> int:
        return ActivityRecord.objects.filter(client_id=tried.application.client_id).count()

    for _ in range(20):
        refused(attacked, "198.51.100.7")
    refused(attacked, "198.51.100.8")
    assert kept(attacked) == 7
    for number in range(20):
        refused(attacked, f"198.51.{number}.7")
    assert kept(attacked) == 10
    activity_counts.flush()
    assert ActivityCount.objects.get(client_id=attacked.application.client_id).number == 41
    refused(other, "198.51.100.7")
    assert kept(other) == 1
    # Who proves the secret is not counted with strangers.
    attacked.exchange()
    assert ActivityRecord.objects.filter(cause="code_misshapen").count() == 1
    # A mistake before the authentication counts for the application that it names.
    for tried in (*[attacked] * 20, other):
        tried.exchange(grant_type=None)
    assert (kept(attacked), kept(other)) == (11, 2)


@pytest.mark.integration
def test_a_failure_to_record_changes_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    tried = Tried()
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE {ActivityRecord._meta.db_table}")
    assert tried.get(redirect_uri="x:").status_code == 400
    assert "activity not recorded" in caplog.text
