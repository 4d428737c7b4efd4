"""What administrators and operators change is on record: who, what, before and after, from where."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.db import IntegrityError
from django.test import Client
from django.urls import reverse

from accounts.models import AuditEntry, User
from oauth_bridge.administration.trail import ACTIONS
from oauth_bridge.models import Application
from oauth_bridge.storage import secret_rotation
from tests.events import Attempt
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory
from tests.pages import admin_browser, html_of, text_of, with_session

pytestmark = pytest.mark.django_db

REGISTRATION = {
    "name": "Reading List",
    "client_type": "confidential",
    "id_token_alg": "RS256",
    "redirect_uris": "https://client.example/callback",
}
NEW_PERSON = {
    "email": "new@example.com",
    "nickname": "New",
    "password1": "correct horse battery staple",
    "password2": "correct horse battery staple",
    "is_verified": "on",
}


@pytest.fixture
def grace() -> Client:
    return admin_browser()


@pytest.fixture
def application() -> Application:
    return ApplicationFactory(name="Reading List").row  # type: ignore[no-any-return]


@pytest.fixture
def alice() -> User:
    return PersonFactory(nickname="Rosa")


def of_application(application: Application, page: str) -> str:
    return reverse(f"admin:oauth_bridge_application_{page}", args=[application.pk])


def act(browser: Client, person: User, name: str, **query: str) -> Any:
    url = reverse("admin:person", args=[person.pk])
    return browser.post(f"{url}?{'&'.join(f'{key}={value}' for key, value in {'act': name, **query}.items())}")


def change_form(application: Application, **changes: str) -> dict[str, str]:
    kept = {"redirect_uris": application.redirect_uris, "homepage": application.homepage}
    return {**REGISTRATION, **kept, **changes}


def trail(**filters: Any) -> list[tuple[str, dict[str, Any]]]:
    return [(each.action, each.changes) for each in AuditEntry.objects.filter(**filters).order_by("id")]


def audit(client_id: str) -> list[dict[str, Any]]:
    out = io.StringIO()
    call_command("application", "audit", client_id, "--json", stdout=out)
    found: list[dict[str, Any]] = json.loads(out.getvalue())
    return found


# What an entry says --------------------------------------------------------------------------------------------------


def test_a_change_names_who_what_before_and_after_and_from_where(grace: Client, application: Application) -> None:
    addresses = "https://client.example/callback\r\nhttps://other.example/callback"
    answer = grace.post(
        of_application(application, "change"),
        change_form(application, name="Reading", redirect_uris=addresses),
        REMOTE_ADDR="192.0.2.7",
    )
    (entry,) = AuditEntry.objects.all()
    assert (entry.kind, entry.key, entry.action) == ("application", application.client_id, "application_changed")
    assert entry.changes == {
        "name": ["Reading List", "Reading"],
        "redirect_uris": [["https://client.example/callback"], sorted(addresses.splitlines())],
    }
    assert entry.actor == User.objects.get(is_superuser=True).pk
    assert entry.address == "192.0.2.7"
    assert entry.reference == answer["X-Reference"]


def test_another_signature_of_id_tokens_is_an_entry(grace: Client, application: Application) -> None:
    grace.post(of_application(application, "change"), change_form(application, id_token_alg="ES256"))
    assert trail() == [("application_changed", {"id_token_alg": ["RS256", "ES256"]})]


def test_a_form_without_a_change_leaves_no_entry(grace: Client, application: Application) -> None:
    lines = f"{application.redirect_uris}\r\n"
    grace.post(of_application(application, "change"), change_form(application, redirect_uris=lines))
    assert not AuditEntry.objects.exists()


def test_a_change_that_is_undone_leaves_no_entry(grace: Client) -> None:
    own = User.objects.get(is_superuser=True)
    grace.post(reverse("admin:accounts_user_delete", args=[own.pk]), {"post": "yes"})
    act(grace, own, "deactivate")
    assert User.objects.filter(pk=own.pk, is_active=True).exists()
    assert not AuditEntry.objects.exists()


def test_what_people_change_of_their_own_leaves_no_entry(application: Application, alice: User) -> None:
    ConsentFactory(user=alice, application=application)
    with_session(alice).post("/account/connections", {"client_id": application.client_id})
    attempt = Attempt()
    attempt.browser.get(attempt.link())
    assert not AuditEntry.objects.exists()


def test_entries_are_neither_changed_nor_deleted(grace: Client, application: Application) -> None:
    grace.post(of_application(application, "delete"), {"post": "yes", "typed": "Reading List"})
    entry = AuditEntry.objects.get()
    with pytest.raises(TypeError):
        AuditEntry.objects.update(actor_name="Mallory")
    with pytest.raises(TypeError):
        AuditEntry.objects.filter(pk=entry.pk).delete()
    with pytest.raises(TypeError):
        entry.delete()
    entry.actor_name = "Mallory"
    with pytest.raises(IntegrityError):
        entry.save()


def test_no_entry_has_a_secret_a_password_or_the_address_of_a_person(grace: Client) -> None:
    grace.post("/admin/oauth_bridge/application/add/", REGISTRATION)
    grace.post("/admin/accounts/user/add/", NEW_PERSON)
    made = secret_rotation.rotate(Application.objects.get()).secret
    act(grace, User.objects.get(email=NEW_PERSON["email"]), "reset")
    stored = json.dumps(list(AuditEntry.objects.values()), default=str)
    assert AuditEntry.objects.count() >= 4
    for hidden in (made, NEW_PERSON["password1"], NEW_PERSON["email"], "digest", "pbkdf2", "argon2"):
        assert hidden not in stored


# Every act -----------------------------------------------------------------------------------------------------------

Made = tuple[Client, Application, User, Group]


def post(url: str, **data: str) -> Callable[[Made], Any]:
    def do(made: Made) -> Any:
        browser, application, person, group = made
        keys = {"application": application.pk, "person": person.pk, "group": group.pk, "email": person.email}
        keys["grace"] = User.objects.get(is_superuser=True).pk
        return browser.post(url.format(**keys), {name: value.format(**keys) for name, value in data.items()})

    return do


def person_act(name: str, *before: str) -> Callable[[Made], Any]:
    def do(made: Made) -> None:
        browser, application, person, _ = made
        for each in (*before, name):
            act(browser, person, each, client_id=application.client_id)

    return do


def command(*words: str) -> Callable[[Made], Any]:
    def do(made: Made) -> None:
        _, application, person, _ = made
        values = {"client_id": application.client_id, "email": person.email}
        call_command(*(word.format(**values) for word in words), stdout=io.StringIO(), stderr=io.StringIO())

    return do


APPLICATION, PERSON, GROUP = (
    "/admin/oauth_bridge/application/",
    "/admin/accounts/user/",
    "/admin/auth/group/",
)
ACTS = [
    ("application_registered", post(f"{APPLICATION}add/", **(REGISTRATION | {"name": "Second"}))),
    ("application_registered", command("application", "create", "Second", "--redirect-uri", "https://b.example/cb")),
    ("application_changed", post(f"{APPLICATION}{{application}}/change/", **(REGISTRATION | {"name": "Renamed"}))),
    ("application_changed", command("application", "set", "{client_id}", "--group", "Readers")),
    ("application_changed", command("application", "set", "{client_id}", "--name", "Renamed", "--group", "Readers")),
    ("application_switched_off", post(APPLICATION, action="disable", _selected_action="{application}")),
    ("application_switched_off", command("application", "disable", "{client_id}")),
    ("application_switched_off", post(f"{APPLICATION}{{application}}/act/switch-off/")),
    ("application_changed", post(f"{APPLICATION}{{application}}/act/trust/")),
    ("application_changed", post(f"{APPLICATION}{{application}}/act/owners/", owners="{grace}")),
    ("all_access_ended", post(f"{APPLICATION}{{application}}/act/end-access/")),
    ("application_deleted", post(f"{APPLICATION}{{application}}/delete/", post="yes", typed="Reading List")),
    ("application_deleted", command("application", "delete", "{client_id}")),
    ("secret_made", post(f"{APPLICATION}{{application}}/secret/", overlap="24")),
    ("secret_made", command("application", "rotate-secret", "{client_id}")),
    ("secret_ended", post(f"{APPLICATION}{{application}}/secret/", end="1", number="1", confirmed="on")),
    ("secret_ended", command("application", "revoke-secret", "{client_id}", "1")),
    ("secret_leaked", command("application", "revoke-secret", "{client_id}", "1", "--leaked")),
    ("account_created", post(f"{PERSON}add/", **NEW_PERSON)),
    ("address_confirmed", post(f"{PERSON}add/", **NEW_PERSON)),
    ("account_changed", post(f"{PERSON}{{person}}/change/", nickname="Alicia", is_active="on")),
    ("account_changed", post(f"{PERSON}{{person}}/change/", nickname="Rosa", is_active="on", groups="{group}")),
    ("account_changed", command("account", "set", "{email}", "--group", "Readers")),
    ("account_deactivated", person_act("deactivate")),
    ("account_deactivated", command("account", "deactivate", "{email}")),
    ("account_deactivated", post(PERSON, action="deactivate", _selected_action="{person}")),
    ("account_deactivated", post(f"{PERSON}{{person}}/change/", nickname="Rosa")),
    ("account_activated", person_act("activate", "deactivate")),
    ("account_deleted", post(f"{PERSON}{{person}}/delete/", post="yes", typed="{email}")),
    ("account_deleted", post(PERSON, action="delete_selected", _selected_action="{person}", post="yes", typed="1")),
    ("factors_removed", command("account", "remove-factors", "{email}")),
    ("reset_sent", person_act("reset")),
    ("signed_out", person_act("sign-out")),
    ("account_unlocked", person_act("unlock")),
    ("account_unlocked", command("account", "unlock", "{email}")),
    ("account_changed", command("account", "make-administrator", "{email}")),
    ("access_ended", person_act("end")),
    ("access_ended", person_act("end-all")),
    ("group_created", post(f"{GROUP}add/", name="Writers")),
    ("group_changed", post(f"{GROUP}{{group}}/change/", name="Lenders")),
    ("group_deleted", post(f"{GROUP}{{group}}/delete/", post="yes")),
]
ELSEWHERE = {
    "application_switched_on",  # as switched off
    "password_set",  # below
    "sign_in_tested",  # tests/browser/test_sign_in_test.py
}


@pytest.mark.parametrize(("action", "do"), ACTS, ids=[f"{number} {each[0]}" for number, each in enumerate(ACTS)])
def test_every_act_leaves_an_entry(
    grace: Client, application: Application, alice: User, action: str, do: Callable[[Made], Any]
) -> None:
    ConsentFactory(user=alice, application=application)
    do((grace, application, alice, Group.objects.create(name="Readers")))
    assert [name for name, _ in trail(action=action)] == [action]


def test_a_new_nickname_leaves_no_name_in_an_entry(grace: Client, application: Application, alice: User) -> None:
    change = post(f"{PERSON}{{person}}/change/", nickname="Alicia", is_active="on")
    change((grace, application, alice, Group.objects.create(name="Readers")))
    assert AuditEntry.objects.get(action="account_changed").changes == {"nickname": [False, True]}


def test_every_action_has_a_title_and_an_act_above() -> None:
    assert {action for action, _ in ACTS} | ELSEWHERE == set(ACTIONS)


def test_a_password_from_the_command_line_is_an_entry(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("another long and good passphrase\n"))
    call_command("account", "set-password", alice.email, "--password-stdin", stdout=io.StringIO())
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.key, entry.changes) == ("password_set", str(alice.pk), {})
    assert entry.actor_name.startswith("command line")
    assert entry.actor is None


# Where it is read ----------------------------------------------------------------------------------------------------


def test_the_command_line_prints_it_even_after_application_and_actor_are_gone(
    grace: Client, application: Application
) -> None:
    grace.post(of_application(application, "change"), change_form(application, name="Reading"))
    grace.post(of_application(application, "delete"), {"post": "yes", "typed": "Reading"})
    PersonFactory(is_staff=True, is_superuser=True)
    actor = User.objects.order_by("created_at").first()
    assert actor is not None
    actor.delete()
    deleted, changed = audit(application.client_id)
    assert (deleted["action"], changed["action"]) == ("application_deleted", "application_changed")
    assert (changed["before"], changed["after"]) == ({"name": "Reading List"}, {"name": "Reading"})
    assert deleted["before"]["redirect_uris"] == application.callback_addresses
    assert deleted["actor"] == changed["actor"] == actor.display_name
    assert set(changed) >= {"time", "actor", "action", "before", "after", "address", "reference"}


def test_the_page_says_what_changed_and_who_did_it(grace: Client, application: Application) -> None:
    grace.post(of_application(application, "change"), change_form(application, name="<b>Reading</b>"))
    for address in ("/admin/trail/", of_application(application, "history")):
        page = grace.get(address, follow=True)
        assert "Changed the application" in text_of(page)
        assert "Name Reading List <b>Reading</b>" in text_of(page)
        assert "<b>Reading" not in html_of(page)
        said = text_of(page)
        assert User.objects.get(is_superuser=True).display_name in said


def test_the_pages_of_the_trail_go_on(grace: Client, application: Application) -> None:
    AuditEntry.objects.bulk_create(
        [
            AuditEntry(actor_name="Grace", action="sign_in_tested", kind="application", key=application.client_id)
            for _ in range(51)
        ],
        batch_size=100,
    )
    page = grace.get("/admin/trail/")
    assert page.context["older_url"]
    assert len(grace.get(page.context["older_url"]).context["rows"]) == 1
    assert len(grace.get("/admin/trail/?before=" + "9" * 40).context["rows"]) == 50


@pytest.mark.parametrize(
    ("permission", "whole", "history"),
    [("view_application", 403, 200), ("view_auditentry", 200, 200), ("view_user", 403, 403)],
)
def test_the_trail_of_an_application_is_for_those_who_may_see_it(
    application: Application, permission: str, whole: int, history: int
) -> None:
    person = PersonFactory(is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename=permission))
    browser = with_session(person)
    assert browser.get("/admin/trail/").status_code == whole
    of_one = f"/admin/trail/?kind=application&key={application.client_id}"
    assert browser.get(of_one).status_code == history


def test_a_person_who_may_not_be_seen_is_a_number(alice: User, grace: Client) -> None:
    act(grace, alice, "sign-out")
    reader = PersonFactory(is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_auditentry"))
    said = text_of(with_session(reader).get("/admin/trail/"))
    assert str(alice.pk) in said
    assert "Rosa" not in said


def test_djangos_log_stays_empty(grace: Client, application: Application, alice: User) -> None:
    grace.post(of_application(application, "change"), change_form(application, name="Reading"))
    grace.post("/admin/accounts/user/add/", NEW_PERSON)
    grace.post(reverse("admin:accounts_user_delete", args=[alice.pk]), {"post": "yes"})
    assert AuditEntry.objects.count() >= 3
    assert not LogEntry.objects.exists()
