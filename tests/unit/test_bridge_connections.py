"""The page of a person's applications: what it lists, what it says, and how little it believes. D7."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone, translation

from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from oauth_bridge.account_pages import connections
from oauth_bridge.consent import remembered
from oauth_bridge.models import NAME_MAX_LENGTH, AccessToken, Application, AuthorizationCode, Consent
from oauth_bridge.storage import applications, consents
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.pages import with_session

pytestmark = pytest.mark.django_db
PAGE = "/accounts/applications"
AWKWARD_NAMES = [
    "👩‍👩‍👧 Familie & <b>Söhne</b> " + "x" * (NAME_MAX_LENGTH - 25),
    "تطبيق القراءة",
    "\u05d0\u05e4\u05dc\u05d9\u05e7\u05e6\u05d9\u05d4",
    "%(name)s %s {{ name }}",
]


def application(**fields: Any) -> Application:
    row: Application = ApplicationFactory(**fields).row
    return row


def listed(browser: Client) -> tuple[list[str], list[str]]:
    """The names under "You are not asked again" and under "You are asked every time"."""
    context = browser.get(PAGE).context
    return [row["name"] for row in context["unasked"]], [row["name"] for row in context["asked"]]


def text(browser: Client) -> str:
    """The page with single spaces between its words."""
    return html.unescape(" ".join(browser.get(PAGE).content.decode().split()))


def sign_in_to(row: Application, person: User, days_ago: float = 0) -> AuthorizationCode:
    at = timezone.now() - timedelta(days=days_ago)
    code: AuthorizationCode = CodeFactory(application=row, user=person, issued_at=at, redeemed_at=at).row
    return code


def test_an_application_is_listed_once_it_was_allowed_until_it_is_disconnected(browser: Client, alice: User) -> None:
    row = application()
    assert listed(browser) == ([], [])
    remembered.record(alice, row)
    assert listed(browser) == ([], [row.name])
    remembered.remember(alice, row)
    assert listed(browser) == ([row.name], [])
    browser.post(PAGE, {"ask_again": row.client_id})
    assert listed(browser) == ([], [row.name])
    browser.post(PAGE, {"disconnect": row.client_id})
    assert listed(browser) == ([], [])


def test_to_allow_again_changes_neither_the_first_day_nor_what_is_remembered(alice: User) -> None:
    row = application()
    remembered.remember(alice, row)
    first = Consent.objects.get()
    remembered.record(alice, row)
    again = Consent.objects.get()
    assert (again.given_at, again.expires_at, again.fingerprint) == (
        first.given_at,
        first.expires_at,
        first.fingerprint,
    )
    assert remembered.is_remembered(alice, row)
    Consent.objects.update(expires_at=timezone.now())
    remembered.remember(alice, row)
    assert Consent.objects.get().given_at == first.given_at
    assert remembered.is_remembered(alice, row)


@pytest.mark.parametrize("ending", ["age", "password", "name"])
def test_an_application_whose_remembering_has_ended_is_asked_for_until_the_box_is_ticked_again(
    browser: Client, alice: User, ending: str
) -> None:
    row = application()
    remembered.remember(alice, row)
    if ending == "age":
        Consent.objects.update(expires_at=timezone.now())
    elif ending == "password":
        end_credentials(alice)
        browser.force_login(alice)
    else:
        row.name = "Photo Printer Pro"
        row.save()
    for _ in range(2):
        assert listed(browser) == ([], [row.name])
        assert not remembered.is_remembered(alice, row)
        remembered.record(alice, row)
    remembered.remember(alice, row)
    assert listed(browser) == ([row.name], [])


def test_an_application_is_known_with_the_details_that_were_allowed_last(alice: User) -> None:
    row = application()
    assert not remembered.has_allowed_before(alice, row)
    remembered.record(alice, row)
    assert remembered.has_allowed_before(alice, row)
    row.homepage = "https://other.example/"
    assert not remembered.has_allowed_before(alice, row)
    remembered.record(alice, row)
    assert remembered.has_allowed_before(alice, row)
    assert not remembered.has_allowed_before(PersonFactory(), row)
    consents.disconnect(alice, row)
    assert not remembered.has_allowed_before(alice, row)


def test_a_sign_in_is_counted_for_30_days(browser: Client, alice: User) -> None:
    row = application()
    remembered.record(alice, row)
    assert "No sign-in in the last 30 days." in text(browser)
    sign_in_to(row, alice, days_ago=31)
    assert "No sign-in in the last 30 days." in text(browser)
    sign_in_to(row, alice, days_ago=29)
    assert "Last sign-in 29 days ago, the only one in 30 days." in text(browser)
    sign_in_to(row, alice)
    CodeFactory(application=row, user=alice)  # not redeemed
    sign_in_to(row, PersonFactory())
    assert "Last sign-in just now, 2 in 30 days." in text(browser)


@pytest.mark.parametrize(
    ("language", "texts"),
    {
        "de": ["vor 1 Minute", "vor 5 Stunden", "vor 1 Tag", "vor 3 Tagen"],
        "ar": ["قبل دقيقة واحدة", "قبل 5 ساعات", "قبل يوم واحد", "قبل 3 أيام"],
        "zh-hans": ["1 分钟前", "5 小时前", "1 天前", "3 天前"],
    }.items(),
)
def test_the_time_since_a_sign_in_is_in_the_right_case(language: str, texts: list[str]) -> None:
    now = timezone.now()
    spans = [timedelta(seconds=61), timedelta(hours=5, minutes=59), timedelta(hours=47), timedelta(days=3)]
    with translation.override(language):
        assert [connections.time_since(now - span) for span in spans] == texts


def test_the_application_that_was_used_last_comes_first(browser: Client, alice: User) -> None:
    rows = [application() for _ in range(4)]
    for row in rows:
        remembered.record(alice, row)
    Consent.objects.update(given_at=timezone.now() - timedelta(days=20))
    Consent.objects.filter(application=rows[3]).update(given_at=timezone.now() - timedelta(days=2))
    sign_in_to(rows[1], alice, days_ago=3)
    sign_in_to(rows[2], alice, days_ago=1)
    assert listed(browser)[1] == [rows[2].name, rows[3].name, rows[1].name, rows[0].name]


def test_a_trusted_application_is_listed_while_a_sign_in_is_known(browser: Client, alice: User) -> None:
    row = application(is_trusted=True)
    sign_in_to(row, alice, days_ago=31)
    assert listed(browser) == ([], [])
    sign_in_to(row, alice)
    token = TokenFactory(application=row, user=alice).row
    assert listed(browser) == ([row.name], [])
    assert "An administrator allowed it for everybody" in text(browser)
    browser.post(PAGE, {"disconnect": row.client_id})
    assert listed(browser) == ([], [])
    token.refresh_from_db()
    assert token.revoked_at


def test_an_application_that_is_not_trusted_any_more_is_asked_for(browser: Client, alice: User) -> None:
    row = application(is_trusted=True)
    sign_in_to(row, alice)
    Application.objects.update(is_trusted=False)
    assert listed(browser) == ([], [row.name])


def test_a_disabled_application_says_so_and_can_be_disconnected(browser: Client, alice: User) -> None:
    row = application()
    remembered.remember(alice, row)
    applications.set_enabled(row, False)
    assert "Switched off" in text(browser)
    browser.post(PAGE, {"disconnect": row.client_id})
    applications.set_enabled(row, True)
    assert listed(browser) == ([], [])
    assert not remembered.is_remembered(alice, row)


def test_a_deleted_application_is_gone_from_the_page(browser: Client, alice: User) -> None:
    row, kept = application(), application()
    for each in (row, kept):
        remembered.record(alice, each)
        sign_in_to(each, alice)
    Application.objects.filter(pk=row.pk).delete()
    assert listed(browser) == ([], [kept.name])
    assert browser.post(PAGE, {"disconnect": row.client_id}).status_code == 303


@pytest.mark.parametrize("name", AWKWARD_NAMES)
def test_any_name_is_shown_as_it_is(browser: Client, alice: User, name: str) -> None:
    row = application(name=name[:NAME_MAX_LENGTH])
    remembered.remember(alice, row)
    assert row.name in text(browser)
    answer = browser.post(PAGE, {"ask_again": row.client_id}, follow=True)
    assert [str(each) for each in answer.context["messages"]] == [f"{row.name} will ask again."]
    answer = browser.post(PAGE, {"disconnect": row.client_id}, follow=True)
    assert [str(each) for each in answer.context["messages"]] == [f"{row.name} is disconnected."]


@pytest.mark.parametrize("button", ["disconnect", "ask_again", "consent", "client_id"])
@pytest.mark.parametrize("value", ["", "\x00", "0", "-1", "x" * 10_000, "٣", "9" * 30, "' OR 1=1 --"])
def test_nonsense_ends_nothing(browser: Client, alice: User, button: str, value: str) -> None:
    row = application()
    remembered.remember(alice, row)
    answer = browser.post(PAGE, {button: value})
    assert (answer.status_code, answer["Location"]) == (303, PAGE)
    assert listed(browser) == ([row.name], [])


def test_a_second_post_and_one_of_another_tab_change_nothing_more(browser: Client, alice: User) -> None:
    row, other = application(), application()
    for each in (row, other):
        remembered.remember(alice, each)
    for button in ("ask_again", "ask_again", "disconnect", "disconnect", "ask_again"):
        assert browser.post(PAGE, {button: row.client_id}).status_code == 303
    assert listed(browser) == ([other.name], [])


def test_mallory_cannot_end_what_is_alices(alice: User) -> None:
    row, hers = application(), application()
    for each in (row, hers):
        remembered.remember(alice, each)
        TokenFactory(application=each, user=alice)
        CodeFactory(application=each, user=alice)
    mallory = PersonFactory()
    remembered.remember(mallory, hers)
    browser = with_session(mallory)
    assert listed(browser) == ([hers.name], [])
    for each in (row, hers):
        for button in ("ask_again", "disconnect"):
            browser.post(PAGE, {button: each.client_id})
        assert remembered.is_remembered(alice, each)
    assert AuthorizationCode.objects.filter(user=alice).count() == 2
    assert AccessToken.objects.filter(user=alice, revoked_at=None).count() == 2
    assert not Consent.objects.filter(user=mallory).exists()


def test_a_stranger_is_asked_to_sign_in_and_ends_nothing(alice: User) -> None:
    row = application()
    remembered.remember(alice, row)
    for answer in (Client().get(PAGE), Client().post(PAGE, {"disconnect": row.client_id})):
        assert answer.status_code == 302
        assert answer["Location"].startswith("/accounts/sign-in?next=")
    assert remembered.is_remembered(alice, row)


def test_the_page_costs_the_same_however_many_applications_there_are(browser: Client, alice: User) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            browser.get(PAGE)
        return len(captured)

    browser.get(PAGE)
    remembered.record(alice, application())
    one = cost()
    for _ in range(5):
        row = application()
        remembered.remember(alice, row)
        sign_in_to(row, alice)
    assert cost() == one


def test_to_disconnect_is_all_or_nothing(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    row = application()
    remembered.remember(alice, row)
    CodeFactory(application=row, user=alice)

    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(consents.tokens, "revoke_all", fails)
    with pytest.raises(RuntimeError):
        consents.disconnect(alice, row)
    assert AuthorizationCode.objects.count() == 1
    assert remembered.is_remembered(alice, row)
