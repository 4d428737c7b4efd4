"""The administration's own pages: what fails and why, of which application, whose, and what to change. D24."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from accounts import admin_site
from accounts.models import AuditEntry, User
from oauth_bridge.activity import counts
from oauth_bridge.activity.causes import CAUSES, fix_of, title_of, words_of
from oauth_bridge.administration import overview
from oauth_bridge.errors import OAuthFault
from oauth_bridge.models import Application, Consent
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory
from tests.grants import HTML, Attempt, try_password
from tests.pages import admin_browser, admin_page, deliver_all, html_of, is_signed_in, staff, text_of, with_session

pytestmark = pytest.mark.django_db

WWW = "https://www.client.example/callback"
ACTIVITY, VIEW, PEOPLE = "view_activityrecord", "view_application", "view_user"
USERS = "/admin/accounts/user/"
# What only developers know.
TERMS = re.compile("(?i)PKCE|verifier|challenge|grant type|scope|response type|OpenID|token|callback address")


@pytest.fixture
def tried() -> Attempt:
    """An application, and a person whose browser was sent here with a callback address that is not registered."""
    attempt = Attempt(name="Reading List")
    attempt.browser.get(attempt.link(redirect_uri=WWW, state="secretstate"), **HTML)
    counts.flush()
    return attempt


def record_page() -> str:
    return reverse("admin:record", args=[ActivityRecord.objects.get().pk])


def test_the_record_shows_what_differs_what_was_asked_and_what_mends_it(tried: Attempt, grace: Client) -> None:
    page = grace.get(record_page())
    said, html = text_of(page), html_of(page)
    assert "add-address" not in html_of(staff(ACTIVITY, VIEW).get(record_page()))
    marked = [f"<mark>{each}</mark>client.example/callback" for each in ("www.", "")]
    assert [each for each in ("add-address", *marked) if each not in html] == []
    told = "One has www. and the other has not.", "Not yet mended. Fix:", "state masked, 11 characters"
    assert [each for each in told if each not in said] == []
    assert "secretstate" not in html
    record = record_page()
    add = f"{record}add-address/"
    stale = with_session(User.objects.get(is_superuser=True))
    assert stale.get(add).status_code == 302, "nobody typed a password in this browser"
    asked = text_of(grace.get(add))
    assert "Add this address?" in asked
    assert "Another host. Whoever runs www.client.example gets the sign-ins" in asked
    page = grace.post(add, follow=True)
    assert Application.objects.get().callback_addresses[-1] == WWW
    assert "Mended. The advice was:" in text_of(page)
    assert "add-address" not in html_of(page)
    assert grace.get(add)["Location"] == record


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ("http://client.example/callback", "http is possible on this machine only"),
        ("https://client.example/callback?user=alice", "Parts of it are masked"),
    ],
)
def test_an_address_that_must_not_be_registered_has_no_button(grace: Client, sent: str, reason: str) -> None:
    attempt = Attempt()
    attempt.browser.get(attempt.link(redirect_uri=sent), **HTML)
    page = grace.get(record_page())
    assert (reason in text_of(page), "add-address" in html_of(page)) == (True, False)
    assert grace.post(f"{record_page()}add-address/").status_code == 404
    assert Application.objects.get().redirect_uris == attempt.application.redirect_uri


def test_a_reference_an_address_and_a_client_id_open_their_page_at_once(tried: Attempt, grace: Client) -> None:
    reference = ActivityRecord.objects.get().reference
    person = PersonFactory(email="ada@example.org")
    for typed, url in (
        (f" {reference[:4].lower()} {reference[4:]}", record_page()),
        ("ADA@example.org", reverse("admin:person", args=[person.pk])),
        (tried.application.client_id, admin_page(tried.application.row)),
    ):
        assert grace.get("/admin/find/", {"q": typed})["Location"] == url


def test_a_part_of_a_name_lists_what_has_it_and_leads_to_its_failures(tried: Attempt, grace: Client) -> None:
    ada, other = PersonFactory(nickname="Ada Lovelace"), PersonFactory(email="reader@example.org")
    ActivityRecord.objects.update(person=ada)
    own, others, application = (*(f"{USERS}{each.pk}/" for each in (ada, other)), admin_page(tried.application.row))
    for typed, found in (
        ("lovelace", own),
        ("reader@", others),
        ("reading", application),
        (tried.application.client_id[:9], application),
    ):
        html = html_of(grace.get("/admin/find/", {"q": typed}))
        assert [each for each in (own, others, application) if each in html] == [found], typed
    ActivityRecord.objects.create(person=ada, at=timezone.now(), step=Step.SIGN_IN, outcome=Outcome.SUCCEEDED)
    shown = html_of(grace.get(own))
    assert shown.index("<details>") < shown.index("<details open>"), "the latest failure is open"
    assert "One has www. and the other has not." in shown
    CodeFactory(user=ada)
    said = text_of(grace.get("/admin/activity/", {"who": ada.email}))
    assert "The callback address isn’t registered Ada Lovelace" in said
    assert "sent back Ada Lovelace" in said, "what is going on is listed, too"
    twin = ApplicationFactory(name="Reading List").client_id
    ActivityRecord.objects.create(at=timezone.now(), step=Step.AUTHORIZE, outcome=Outcome.FAILED, client_id=twin)
    for path in ("/admin/find/?q=reading", "/admin/oauth_bridge/application/", "/admin/activity/"):
        assert f"<bdi>Reading List ({tried.application.client_id[:6]})</bdi>" in html_of(grace.get(path)), path
    for permission, hidden in ((VIEW, own), (PEOPLE, application)):
        assert hidden not in html_of(staff(permission).get("/admin/find/", {"q": "a"}))


def test_what_is_not_found_is_said_and_leads_on(grace: Client) -> None:
    for typed in ("", "NOSUCHRE", "nobody@example.org", "\x00", "'", "%", "x" * 400):
        assert grace.get("/admin/find/", {"q": typed}).status_code == 200, typed
    page = grace.get("/admin/find/", {"q": "NOSUCHRE"})
    assert "Nothing is found" in text_of(page)
    assert "You can look through these: Overview Applications People Activity Audit trail" in text_of(page)
    assert grace.get(reverse("admin:record", args=[1])).status_code == 404
    try_password("stranger@example.org")
    page = grace.get("/admin/find/", {"q": "stranger@example.org"}, follow=True)
    assert "No account has this address" in text_of(page), "it leads to the records of the address"
    kind, key = ContentType.objects.get_for_model(User).pk, User.objects.values_list("pk", flat=True)[0]
    assert grace.get(f"/admin/r/{kind}/{key}/").status_code == 404, "Django's link to a person"


def test_an_administrator_gets_from_the_error_page_to_the_record(tried: Attempt) -> None:
    browser = admin_browser()
    page = browser.get(tried.link(redirect_uri=WWW), **HTML)
    (url,) = re.findall(r'href="(/admin/find/[^"]+)"', html_of(page))
    assert browser.get(url)["Location"] == reverse("admin:record", args=[ActivityRecord.objects.latest("id").pk])
    assert "/admin/" not in html_of(tried.browser.get(tried.link(redirect_uri=WWW), **HTML))


def test_each_act_on_a_person_does_what_its_page_says(grace: Client) -> None:
    person = PersonFactory(email_verified_at=None)
    browser, url = with_session(person), reverse("admin:person", args=[person.pk])
    assert "The address is not confirmed, so no application lets this person in." in text_of(grace.get(url))
    assert "Signs out 1 browser" in text_of(grace.get(f"{url}?act=sign-out"))
    assert is_signed_in(browser)
    for act, done, is_offered in (
        ("confirm", "The address is confirmed.", False),
        ("sign-out", "Signed out of 1 browser", True),
        ("reset", f"goes to {person.email}", True),
        ("deactivate", "The account is switched off", False),
        ("activate", "The account is switched on again.", False),
    ):
        page = grace.post(f"{url}?act={act}", follow=True)
        assert (done in text_of(page), f"act={act}" in html_of(page)) == (True, is_offered)
        assert User.objects.get(pk=person.pk).is_active is (act != "deactivate")
    assert not is_signed_in(browser)
    deliver_all()
    assert (mail.outbox[-1].to, "/accounts/" in mail.outbox[-1].body) == ([person.email], True)
    consents = [ConsentFactory(user=person, application=ApplicationFactory().row, fingerprint="x") for _ in range(2)]
    end = f"{url}?act=end&client_id={consents[0].application.client_id}"
    assert [grace.post(end).status_code for _ in range(2)] == [302, 404]
    assert list(Consent.objects.filter(user=person)) == consents[1:]


def test_many_accounts_are_deactivated_at_once_and_deleted_once_their_number_is_typed(grace: Client) -> None:
    """However many are chosen, no statement has their ids as parameters: PostgreSQL takes 65,535."""
    keys = [str(PersonFactory(nickname="Chosen").pk) for _ in range(40)]
    form: dict[str, Any] = {"action": "deactivate", "_selected_action": keys[0], "select_across": "1"}
    assert "Switch off: 40 chosen" in text_of(grace.post(f"{USERS}?q=chosen", form))
    assert not User.objects.filter(is_active=False).exists()
    with CaptureQueriesContext(connection) as queries:
        answer = grace.post(f"{USERS}?q=chosen", form | {"post": "yes"})
    assert "40 accounts are switched off" in text_of(grace.get(answer["Location"]))
    entries = AuditEntry.objects.filter(action="account_deactivated", key__in=keys)
    assert (User.objects.filter(pk__in=keys, is_active=False).count(), entries.count()) == (40, 40)
    written = [each["sql"] for each in queries if not each["sql"].startswith("INSERT")]
    assert not [sql for sql in written if keys[7].replace("-", "") in sql.replace("-", "")]
    people, form = User.objects.filter(pk__in=keys[:3]), {"action": "delete_selected", "_selected_action": keys[:3]}
    people.filter(pk=keys[0]).update(last_login=timezone.now())
    assert "To delete all of them, type their number, 3" in text_of(grace.post(USERS, form))
    left = []
    for typed in ("", "2", "three", " 3 "):
        grace.post(USERS, {**form, "post": "yes", "typed": typed})
        left.append(people.count())
    assert left == [3, 3, 3, 0]


def test_an_action_on_objects_one_by_one_takes_a_thousand(grace: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_site, "MOST_AT_ONCE", 2)
    PersonFactory.create_batch(3, is_active=False)
    ApplicationFactory.create_batch(3)
    for path, action in ((USERS, "delete_selected"), ("/admin/oauth_bridge/application/", "disable")):
        form = {"action": action, "_selected_action": "1", "select_across": "1", "post": "yes", "typed": "3"}
        said = text_of(grace.post(path, form, follow=True))
        assert "More than 2 are chosen, so nothing is done. Search or filter the list, and choose fewer." in said
    left = User.objects.filter(is_active=False).count(), Application.objects.filter(is_enabled=True).count()
    assert left == (3, 3)


def test_each_page_needs_its_permission_and_to_look_is_not_to_act(tried: Attempt) -> None:
    consent = ConsentFactory(user=PersonFactory(), application=tried.application.row, fingerprint="x")
    url, application = f"{USERS}{consent.user.pk}/", admin_page(tried.application.row)
    pages = {"/admin/activity/": ACTIVITY, record_page(): ACTIVITY, url: PEOPLE, application: VIEW}
    for page, permission in pages.items():
        browsers = staff(permission), staff(*{*pages.values()} - {permission}), Client()
        assert [each.get(page).status_code for each in browsers] == [200, 403, 302], page
    browser = staff(PEOPLE)
    assert "act=" not in html_of(browser.get(url))
    for act in ("reset", "sign-out", f"end&client_id={tried.application.client_id}"):
        assert browser.post(f"{url}?act={act}").status_code == 403


@pytest.mark.integration
def test_no_filter_breaks_the_page(tried: Attempt, grace: Client) -> None:
    wrong = ["days=x", "step=x", "before=x", "client_id=x", "reference=ABCD", "show=x", "cause=x"]
    for query in (*wrong, "show=failed&days=30&who=192.0.2.1&before=2026-11-23T16:00:00"):
        assert grace.get(f"/admin/activity/?{query}").status_code == 200, query


def test_names_are_shown_as_text_and_a_credential_in_the_link_nowhere(grace: Client) -> None:
    script = "<script>alert"
    attempt = Attempt(name=f"{script}(1)</script>")
    secret = attempt.application.secret
    address = f"https://a:{secret}@client.example/{script}(2)</script>?x={secret}"
    attempt.browser.get(attempt.link(redirect_uri=address, client_secret=secret, scope=secret), **HTML)
    counts.flush()
    listed = "/admin/", "/admin/activity/", "/admin/oauth_bridge/application/"
    for url in (*listed, admin_page(attempt.application.row), record_page()):
        page = html_of(grace.get(url))
        assert (script in page, secret in page) == (False, False), url


def test_each_cause_has_a_title_and_a_fix_and_each_fault_of_an_operation_is_one_or_has_finer_ones() -> None:
    for cause in CAUSES:
        assert not title_of(cause).endswith(".")
        assert fix_of(cause)
        assert not re.search(r"[{}]|%\(", title_of(cause) + fix_of(cause)), cause
        assert words_of(cause) or not TERMS.search(title_of(cause)), cause
    assert words_of("verifier_wrong")[0].startswith("PKCE: a proof that")
    assert words_of("password_wrong") == words_of("a_cause_of_a_later_release") == []
    # The functions that raise these name the cause.
    finer = "CHALLENGE_METHOD LOGOUT_HINT CLIENT_SECRET_MISSING CLIENT_SWITCHED_OFF CLIENT_SECRET_EXPIRED"
    finer += " CODE_PERSON_AWAY CODE_REVOKED REQUEST_DAMAGED"
    assert {name for name in OAuthFault.__members__ if name.lower() not in CAUSES} == {"SPECULATIVE", *finer.split()}


def test_the_overview_has_failures_and_what_to_look_at(grace: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    said = text_of(grace.get("/admin/"))
    assert "No application turns people away" in said
    assert "No application is registered yet" in said
    ends, lacks = (ApplicationFactory(name=name).row for name in ("Ends", "Lacks"))
    ends.secrets.update(expires_at=timezone.now() + timedelta(days=3))
    lacks.secrets.all().delete()
    ApplicationFactory(name="Public", client_type="public")
    ada, facts = PersonFactory(nickname="Ada Lovelace"), {"at": timezone.now(), "step": "exchange", "outcome": "failed"}
    ActivityRecord.objects.create(cause="secret_wrong", client_id=ends.client_id, person=ada, **facts)
    said = text_of(grace.get("/admin/"))
    for told in (
        "Ends Risky Its last client secret ends in less than 3 days. Make a new one",
        "Lacks Failing It has no client secret that works. Make a new one",
        "Access: The client secret is wrong Ada Lovelace · Ends",
    ):
        assert told in said
    assert "Public" not in said
    Application.objects.filter(pk=ends.pk).update(created=timezone.now() - timedelta(days=200))
    ends.secrets.update(expires_at=None)
    assert "Ends Stale No sign-in for 200 days" in text_of(grace.get("/admin/"))
    monkeypatch.setattr(overview, "MOST_SUMMARISED", 1)
    said = text_of(grace.get("/admin/")).partition("Applications to look at")[2]
    assert ("Lacks Failing" in said, "Ends" in said) == (True, False), "what fails is looked at first"


def test_each_page_says_which_installation_this_is(grace: Client, settings: Any) -> None:
    for name in ("Production", "Staging"):
        settings.ENVIRONMENT = name
        said = text_of(grace.get("/admin/activity/"))
        assert (name in said, "Accounts here are for tests" in said) == (True, name != "Production")
