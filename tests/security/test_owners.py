"""Mallory owns an application. She sees and edits that one, and nothing of any other, of people, or of rights."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEntry, User
from oauth_bridge.activity import counts
from oauth_bridge.activity.causes import title_of
from oauth_bridge.applications import registry
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, Registered
from tests.grants import HTML, link_of, redeem
from tests.pages import admin_browser, admin_page, html_of, proven, secret_on, staff, text_of, with_session

pytestmark = pytest.mark.django_db

WRONG = "https://www.client.example/callback"
FORM = {"name": "Renamed", "redirect_uris": "https://mallory.example/callback", "id_token_alg": "RS256"}
UNKNOWN = Application(pk=999999)
PAGES = ["", "change", "secret"]
ACTS = ["switch-off", "switch-on", "end-access", "trust", "distrust", "owners"]


@pytest.fixture
def mallory() -> User:
    return PersonFactory(nickname="Mallory", is_staff=True)


@pytest.fixture
def hers(mallory: User) -> Registered:
    made: Registered = ApplicationFactory(name="Hers")
    registry.set_owners(made.row, [mallory])
    return made


@pytest.fixture
def browser(mallory: User) -> Client:
    return proven(with_session(mallory))


@pytest.fixture
def alice() -> User:
    return PersonFactory(nickname="Alice Liddell", email="alice@liddell.example")


@pytest.fixture
def other(alice: User) -> Registered:
    return tried(ApplicationFactory(name="Sunflower"), alice)


def tried(application: Registered, person: User) -> Registered:
    Client().get(link_of(application, redirect_uri=WRONG), **HTML)
    CodeFactory(application=application, user=person, redeemed_at=timezone.now())
    CodeFactory(application=application, user=person, issued_at=timezone.now() - timedelta(seconds=700))
    ConsentFactory(application=application.row, user=person, fingerprint="x")
    secret_rotation.rotate(application.row, timedelta(days=3))
    counts.flush()
    return application


def record_of(application: Registered) -> ActivityRecord:
    return ActivityRecord.objects.filter(client_id=application.row.client_id).latest("id")


def test_ownership_ends_with_the_right_it_was_given_under(hers: Registered, mallory: User) -> None:
    """Whichever way the right ends, another right later gives nothing back. Each end is in the audit trail."""
    grace = admin_browser()
    change = reverse("admin:accounts_user_change", args=[mallory.pk])
    form = {"nickname": "Mallory"}

    def unticked() -> None:
        assert grace.post(change, form)["Location"] == reverse("admin:person", args=[mallory.pk])

    def command(*permissions: str) -> None:
        given = [f"--permission={each}" for each in permissions]
        call_command("account", "make-administrator", mallory.email, *given, stdout=io.StringIO())

    ways: list[tuple[list[Callable[[], object]], bool]] = [
        ([unticked, lambda: command("auth.view_group")], False),
        ([unticked, command], False),
        ([unticked, lambda: grace.post(change, {**form, "is_staff": "on"})], False),
        ([lambda: command("auth.view_group")], False),
        ([lambda: User.objects.filter(pk=mallory.pk).update(is_staff=False), command], False),
        ([lambda: grace.post(change, {**form, "is_staff": "on"})], True),
        ([command], True),
    ]
    for steps, is_kept in ways:
        User.objects.filter(pk=mallory.pk).update(is_staff=True, is_superuser=False)
        registry.set_owners(hers.row, [mallory])
        before = AuditEntry.objects.count()
        for step in steps:
            step()
        changes = [each.changes for each in AuditEntry.objects.order_by("id")[before:] if each.kind == "application"]
        assert changes == ([] if is_kept else [{"owners": [[str(mallory.pk)], []]}])
        assert list(hers.row.owners.all()) == [mallory] * is_kept
        User.objects.filter(pk=mallory.pk).update(is_superuser=False)
        browser = proven(with_session(User.objects.get(pk=mallory.pk)))
        answers = [browser.get(admin_page(hers.row, name), follow=True) for name in PAGES]
        assert {answer.status_code for answer in answers} == {200 if is_kept else 403}
        out = io.StringIO()
        call_command("account", "show", mallory.email, "--json", stdout=out)
        owns = [{"client_id": hers.client_id, "name": "Hers"}] * is_kept
        assert json.loads(out.getvalue())["owns"] == owns
        assert ("Owner of Hers" in text_of(grace.get(reverse("admin:person", args=[mallory.pk])))) is is_kept


def test_she_sees_the_records_of_her_own_and_adds_the_refused_address_and_learns_of_no_other(
    browser: Client, hers: Registered, alice: User
) -> None:
    tried(hers, alice)
    record = record_of(hers)
    said = text_of(browser.get("/admin/activity/"))
    assert "The callback address isn’t registered" in said
    assert "Not yet mended." in text_of(browser.get(reverse("admin:record", args=[record.pk])))
    assert browser.get("/admin/find/", {"q": record.reference})["Location"].endswith(f"/{record.pk}/")
    assert browser.get("/admin/find/", {"q": hers.client_id})["Location"] == admin_page(hers.row)
    assert "1 application turns people away" in text_of(browser.get("/admin/"))
    ApplicationFactory(redirect_uris=WRONG)
    add = reverse("admin:add_address", args=[record.pk])
    for address in (add, reverse("admin:record", args=[record.pk])):
        said = text_of(browser.get(address))
        assert "Another host." in said
        assert "her application has registered it" not in said
    browser.post(add)
    hers.row.refresh_from_db()
    assert WRONG in hers.row.callback_addresses


def test_another_application_seems_not_to_exist(browser: Client, hers: Registered, other: Registered) -> None:
    before = Application.objects.filter(pk=other.row.pk).values().get()
    secrets = list(other.row.secrets.values())
    form = {**FORM, "overlap": "24", "post": "yes", "typed": "Sunflower"}
    for name in (*PAGES, "delete", "history"):
        unknown = browser.get(admin_page(UNKNOWN, name))
        answers = browser.post(admin_page(other.row, name), form), browser.get(admin_page(other.row, name)), unknown
        assert {answer.status_code for answer in answers} == {404}, name
    for address in (
        admin_page(other.row, "act", "new-secret"),
        *(admin_page(other.row, "secret_act", "1", name) for name in ("end", "leaked")),
    ):
        assert browser.post(address, form).status_code == 404
    assert Application.objects.filter(pk=other.row.pk).values().get() == before
    assert list(other.row.secrets.values()) == secrets
    record = record_of(other)
    client_id = other.row.client_id
    for address in (
        "/admin/",
        "/admin/oauth_bridge/application/",
        "/admin/oauth_bridge/application/?q=Another",
        "/admin/activity/?days=30",
        f"/admin/activity/?days=30&reference={record.reference}",
        f"/admin/activity/?days=30&who={record.address}",
        f"/admin/find/?q={record.reference}",
        f"/admin/find/?q={client_id}",
    ):
        answer = browser.get(address)
        assert answer.status_code == 200, address
        said = html_of(answer).replace(f'value="{client_id}"', "")
        for hidden in ("Sunflower", admin_page(other.row), "isn’t registered", "redirect_uri_mismatch"):
            assert hidden not in said, (address, hidden)
    assert browser.get(f"/admin/activity/?client_id={client_id}").status_code == 404
    for name in ("record", "add_address"):
        address = reverse(f"admin:{name}", args=[record.pk])
        assert {browser.get(address).status_code, browser.post(address).status_code} == {404}


def test_she_neither_registers_nor_deletes_nor_switches_nor_acts_on_an_application_as_a_whole(
    browser: Client, hers: Registered, other: Registered, mallory: User
) -> None:
    columns = "pk", "is_enabled", "is_trusted", "credentials_version"
    rows, shown = list(Application.objects.values(*columns)), html_of(browser.get(admin_page(hers.row)))
    form: dict[str, Any] = {"owners": [str(mallory.pk)]}
    for act in ACTS:
        unknown = browser.post(admin_page(UNKNOWN, "act", act), form).status_code
        assert browser.post(admin_page(other.row, "act", act), form).status_code == unknown
        for application in (hers, other):
            address = admin_page(application.row, "act", act)
            assert {browser.get(address).status_code, browser.post(address, form).status_code} <= {403, 404}
            assert address not in shown
    assert browser.get(reverse("admin:oauth_bridge_application_add")).status_code == 403
    typed = {"post": "yes", "typed": "Hers"}
    assert browser.post(admin_page(hers.row, "delete"), typed).status_code == 403
    for action in ("disable", "delete_selected"):
        form = {"action": action, "_selected_action": [hers.row.pk, other.row.pk], "post": "yes"}
        browser.post(reverse("admin:oauth_bridge_application_changelist"), form)
    assert list(Application.objects.values(*columns)) == rows
    assert not other.row.owners.exists()


def test_she_changes_her_own_and_its_secrets_but_no_right(browser: Client, hers: Registered, mallory: User) -> None:
    group = Group.objects.create(name="Readers")
    change = admin_page(hers.row, "change")
    for name in ("is_trusted", "is_restricted", "groups", "owners", "is_enabled"):
        assert f'name="{name}"' not in html_of(browser.get(change))
    more = {"is_trusted": "on", "is_restricted": "on", "groups": [group.pk], "owners": [str(PersonFactory().pk)]}
    assert browser.post(change, {**FORM, **more}).status_code == 302
    kept = {"is_trusted": False, "is_restricted": False, "is_enabled": True, "owners": mallory.pk, "groups": None}
    assert Application.objects.filter(pk=hers.row.pk).values(*FORM, *kept).get() == FORM | kept
    secrets = admin_page(hers.row, "act", "new-secret")
    assert secret_on(browser.get(browser.post(secrets, {"overlap": "24"})["Location"]))
    browser.post(admin_page(hers.row, "secret_act", "1", "end"))
    assert not hers.row.secrets.get(number=1).works


def test_an_attempt_shows_her_own_events(browser: Client, hers: Registered, other: Registered, alice: User) -> None:
    """Her application sent another's code: the record is hers, the rest of the attempt is not."""
    attempt = uuid4()
    CodeFactory(application=other, user=alice, attempt=attempt, redirect_uri="https://secret.example/callback")
    facts = {"attempt": attempt, "outcome": Outcome.FAILED, "address": "192.0.2.1", "person_id": alice.pk, "detail": {}}
    now = timezone.now()
    for client_id, step, cause, at in (
        (hers.row.client_id, Step.EXCHANGE, "code_of_other", now - timedelta(seconds=2)),
        (other.row.client_id, Step.PROFILE, "token_expired", now - timedelta(seconds=1)),
    ):
        ActivityRecord.objects.create(client_id=client_id, step=step, cause=cause, at=at, **facts)
    record = reverse("admin:record", args=[record_of(hers).pk])
    for address in ("/admin/activity/", record, admin_page(hers.row)):
        answer = browser.get(address)
        assert answer.status_code == 200
        hidden = ("secret.example", "Sunflower", title_of("token_expired"))
        assert [each for each in hidden if each in text_of(answer)] == []


def test_a_deleted_or_trusted_application_is_named_by_right(hers: Registered, mallory: User, other: Registered) -> None:
    """Pages and refused forms name it, and who deleted it, by the same rights."""
    grace = PersonFactory(nickname="Grace Hopper", is_staff=True, is_superuser=True)
    ApplicationFactory(name="Trusty", is_trusted=True)
    typed = {"post": "yes", "typed": "Sunflower"}
    proven(with_session(grace)).post(admin_page(other.row, "delete"), typed)
    assert redeem(other, CodeFactory(application=hers, user=PersonFactory())).status_code == 401
    counts.flush()
    record = ActivityRecord.objects.get(cause="client_deleted", client_id=hers.client_id)
    everything = {"view_application", "change_application", "view_activityrecord", "view_user", "trust_application"}
    for names, sees_all, sees_people in (
        (set(), False, False),
        ({"view_user"}, False, True),
        ({"view_activityrecord"}, True, False),
        ({"view_application"}, True, False),
        (everything, True, True),
    ):
        mallory.user_permissions.set(Permission.objects.filter(codename__in=names))
        browser = proven(with_session(User.objects.get(pk=mallory.pk)))
        of_record = reverse("admin:record", args=[record.pk])
        for address in ("/admin/activity/?days=30", of_record, admin_page(hers.row)):
            said = html_of(browser.get(address))
            assert ("Sunflower" in said) is sees_all, (names, address)
            assert ("Grace Hopper" in said) is (sees_all and sees_people), (names, address)
        said = html_of(browser.post(admin_page(hers.row, "change"), {**FORM, "name": "TRUSTY!"}))
        assert ("could take" in said, "“Trusty”" in said) == (True, "view_application" in names)
        if names == everything:
            history = f"/admin/trail/?kind=application&key={other.client_id}"
            assert "Grace Hopper" in html_of(browser.get(history))
            mallory.user_permissions.remove(Permission.objects.get(codename="view_user"))
            said = html_of(with_session(User.objects.get(pk=mallory.pk)).get(history))
            assert ("Grace Hopper" in said, "Deleted the application" in said) == (False, True)
    Application.objects.filter(pk=hers.row.pk).update(name="trusty.")
    mallory.user_permissions.set(Permission.objects.filter(codename="trust_application"))
    browser = proven(with_session(User.objects.get(pk=mallory.pk)))
    said = text_of(browser.post(admin_page(hers.row, "act", "trust"), follow=True))
    assert "People could take another application for this one, and one of the two is trusted." in said
    assert "Trusty" not in said


def test_she_learns_nothing_of_people(browser: Client, hers: Registered, alice: User, mallory: User) -> None:
    tried(hers, alice)
    grace = PersonFactory(nickname="Grace Hopper", is_staff=True)
    registry.set_owners(hers.row, [mallory, grace])
    secret_rotation.rotate(hers.row, timedelta(hours=1), maker=grace)
    Application.objects.filter(pk=hers.row.pk).update(
        is_enabled=False, disabled_at=timezone.now(), disabled_by="Grace Hopper", disabled_reason="Sold"
    )
    reasons = 0
    for address in (
        *(admin_page(hers.row, name) for name in PAGES),
        "/admin/",
        "/admin/activity/?days=30",
        f"/admin/activity/?days=30&who={alice.email}",
        reverse("admin:record", args=[record_of(hers).pk]),
    ):
        said = html_of(browser.get(address, follow=True))
        reasons += "Sold" in said
        for hidden in ("Alice", "liddell", str(alice.pk), "Grace", grace.email):
            assert hidden not in said.replace(f"who={alice.email}", ""), (address, hidden)
    assert reasons
    assert "Location" not in browser.get("/admin/find/", {"q": alice.email})
    filtered, unfiltered = (
        [each["at"] for each in browser.get("/admin/activity/", {"days": "30", "who": who}).context["attempts"]]
        for who in ("nobody@x.example", "")
    )
    assert filtered == unfiltered != []
    for address in (
        reverse("admin:accounts_user_changelist"),
        reverse("admin:person", args=[alice.pk]),
        reverse("admin:accounts_user_change", args=[alice.pk]),
        reverse("admin:auth_group_changelist"),
        "/admin/trail/",
        f"/admin/trail/?kind=application&key={hers.row.client_id}",
    ):
        assert browser.get(address, follow=True).status_code == 403, address


ALL = ["view_application", "change_application", "rotate_applicationsecret", "view_activityrecord", "view_user"]


def test_only_who_has_each_right_of_owners_names_them(hers: Registered, mallory: User, alice: User) -> None:
    grace = PersonFactory(is_staff=True)
    address = admin_page(hers.row, "act", "owners")
    for lacking in ALL:
        helper = staff(*(name for name in ALL if name != lacking))
        assert helper.post(address, {"owners": []}).status_code == 403, lacking
    assert list(hers.row.owners.all()) == [mallory]
    assert mallory.email in html_of(staff(*ALL).get(address))
    for person, status in ((grace, 302), (alice, 200)):  # Alice is not in the administration
        assert staff(*ALL).post(address, {"owners": [str(person.pk)]}).status_code == status
        assert list(hers.row.owners.all()) == [grace]
