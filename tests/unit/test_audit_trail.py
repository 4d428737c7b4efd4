"""What administrators and operators change is on record: who, what, before and after, from where."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEntry, User
from config.infrastructure.events import Event
from oauth_bridge.administration.trail import ACTIONS
from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application
from oauth_bridge.openid import signing_keys
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory
from tests.grants import Log
from tests.pages import admin_page, html_of, staff, text_of, with_session
from tests.unit.test_events import WAYS, only_line

pytestmark = pytest.mark.django_db

REGISTRATION = {
    "name": "Reading List",
    "client_type": "confidential",
    "id_token_alg": "RS256",
    "redirect_uris": "https://client.example/callback",
}
NEW_PERSON = {"email": "new@example.com", "nickname": "Newcomer"}


@pytest.fixture
def application() -> Application:
    return ApplicationFactory(name="Reading List").row  # type: ignore[no-any-return]


def act(browser: Client, person: User, name: str) -> Any:
    return browser.post(f"{reverse('admin:person', args=[person.pk])}?act={name}")


def change_form(application: Application, **changes: str) -> dict[str, str]:
    kept = {"redirect_uris": application.redirect_uris, "homepage": application.homepage}
    return {**REGISTRATION, **kept, **changes}


def test_a_change_names_who_what_before_and_after_and_from_where(grace: Client, application: Application) -> None:
    addresses = "https://client.example/callback\r\nhttps://other.example/callback"
    answer = grace.post(
        admin_page(application, "change"),
        change_form(application, name="Reading", redirect_uris=addresses, id_token_alg="ES256"),
        REMOTE_ADDR="192.0.2.7",
    )
    (entry,) = AuditEntry.objects.all()
    assert (entry.kind, entry.key, entry.action) == ("application", application.client_id, "application_changed")
    assert entry.changes == {
        "name": ["Reading List", "Reading"],
        "redirect_uris": [[], ["https://other.example/callback"]],
        "id_token_alg": ["RS256", "ES256"],
    }
    by = User.objects.get(is_superuser=True).pk, "192.0.2.7", answer["X-Reference"]
    assert (entry.actor, entry.address, entry.reference) == by


def test_what_changes_nothing_and_what_people_change_of_their_own_leaves_no_entry(
    grace: Client, application: Application, alice: User
) -> None:
    lines = f"{application.redirect_uris}\r\n"
    grace.post(admin_page(application, "change"), change_form(application, redirect_uris=lines))
    act(grace, User.objects.get(is_superuser=True), "deactivate")  # it is refused: the last one
    ConsentFactory(user=alice, application=application)
    with_session(alice).post("/accounts/applications", {"disconnect": application.client_id})
    assert not AuditEntry.objects.exists()


def test_no_entry_has_a_secret_a_password_or_the_address_or_name_of_a_person(grace: Client) -> None:
    grace.post("/admin/oauth_bridge/application/add/", REGISTRATION)
    grace.post("/admin/accounts/user/add/", NEW_PERSON)
    made = secret_rotation.rotate(Application.objects.get()).secret
    person = User.objects.get(email=NEW_PERSON["email"])
    act(grace, person, "invite")
    grace.post(reverse("admin:accounts_user_change", args=[person.pk]), {"nickname": "Alicia"})
    assert AuditEntry.objects.get(action="account_changed").changes == {"nickname": [False, True]}
    stored = json.dumps(list(AuditEntry.objects.values()), default=str)
    hidden = (made, *NEW_PERSON.values(), "Alicia", "digest", "pbkdf2", "argon2")
    assert [each for each in hidden if each in stored] == []
    assert not LogEntry.objects.exists(), "Django's own log stays empty"


# Every act -----------------------------------------------------------------------------------------------------------

APPLICATIONS, PEOPLE, GROUPS = "/admin/oauth_bridge/application/", "/admin/accounts/user/", "/admin/auth/group/"
APPLICATION, PERSON, GROUP = f"{APPLICATIONS}{{application}}/", f"{PEOPLE}{{person}}/", f"{GROUPS}{{group}}/"
# The action, and a path with the form that is posted there, or the words of a command.
ACTS: list[tuple[str, str, dict[str, str]]] = [
    ("application_registered", f"{APPLICATIONS}add/", REGISTRATION | {"name": "Second"}),
    ("application_changed", f"{APPLICATION}change/", REGISTRATION | {"name": "Renamed"}),
    ("application_changed", "application set {client_id} --name Renamed --group Readers", {}),
    ("application_switched_off", f"{APPLICATION}act/switch-off/", {}),
    ("application_switched_on", f"{APPLICATIONS}{{off}}/act/switch-on/", {}),
    ("application_changed", f"{APPLICATION}act/trust/", {}),
    ("application_changed", f"{APPLICATION}act/owners/", {"owners": "{grace}"}),
    ("all_access_ended", f"{APPLICATION}act/end-access/", {}),
    ("application_deleted", f"{APPLICATION}delete/", {"post": "yes", "typed": "Reading List"}),
    ("secret_made", f"{APPLICATION}act/new-secret/", {"overlap": "24"}),
    ("secret_ended", f"{APPLICATION}secret/1/end/", {}),
    ("secret_leaked", f"{APPLICATION}secret/1/leaked/", {}),
    ("account_created", "account create second@example.com --nickname Second --password-stdin", {}),
    ("address_confirmed", "account create second@example.com --nickname Second --password-stdin", {}),
    ("account_invited", f"{PEOPLE}add/", NEW_PERSON),
    ("account_invited", f"{PEOPLE}{{invited}}/?act=invite", {}),
    ("invitation_withdrawn", f"{PEOPLE}{{invited}}/?act=withdraw", {}),
    ("address_corrected", f"{PERSON}?act=correct-address", {"email": "other@example.com"}),
    ("account_changed", f"{PERSON}change/", {"nickname": "Alice Ægir", "groups": "{group}"}),
    ("account_changed", "account set {email} --group Readers", {}),
    ("account_changed", "account make-administrator {email}", {}),
    ("account_deactivated", f"{PERSON}?act=deactivate", {}),
    ("account_activated", f"{PEOPLE}{{away}}/?act=activate", {}),
    ("account_deleted", f"{PERSON}delete/", {"post": "yes", "typed": "{email}"}),
    ("factors_removed", "account remove-factors {email}", {}),
    ("password_set", "account set-password {email} --password-stdin", {}),
    ("reset_sent", f"{PERSON}?act=reset", {}),
    ("signed_out", f"{PERSON}?act=sign-out", {}),
    ("account_unlocked", f"{PERSON}?act=unlock", {}),
    ("access_ended", f"{PERSON}?act=end&client_id={{client_id}}", {}),
    ("group_created", f"{GROUPS}add/", {"name": "Writers"}),
    ("group_changed", f"{GROUP}change/", {"name": "Lenders"}),
    ("group_changed", GROUP, {"addresses": "{email}"}),
    ("group_deleted", f"{GROUP}delete/", {"post": "yes"}),
    ("signing_key_made", "signing-key rotate --algorithm ES256", {}),
    ("signing_key_revoked", "signing-key revoke {kid}", {}),
]
# The actions whose event has another name; the others have theirs, or none.
EVENTS = {"all_access_ended": "application_access_ended", "secret_leaked": "secret_ended"}


@pytest.mark.parametrize(("action", "what", "form"), ACTS)
def test_every_act_leaves_an_entry_and_writes_its_event(
    grace: Client,
    application: Application,
    alice: User,
    action: str,
    what: str,
    form: dict[str, str],
    event_log: Log,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("another long and good passphrase\n"))
    ConsentFactory(user=alice, application=application)
    values: dict[str, Any] = {
        "application": application.pk,
        "client_id": application.client_id,
        "person": alice.pk,
        "email": alice.email,
        "away": PersonFactory(is_active=False).pk,
        "off": ApplicationFactory(is_enabled=False).row.pk,
        "invited": PersonFactory(invited_at=timezone.now(), email_verified_at=None).pk,
        "group": Group.objects.create(name="Readers").pk,
        "grace": User.objects.get(is_superuser=True).pk,
        "kid": signing_keys.rotate("ES256").kid,
    }
    what = what.format(**values)
    if what.startswith("/"):
        grace.post(what, {name: value.format(**values) for name, value in form.items()})
    else:
        call_command(*what.split(), stdout=io.StringIO(), stderr=io.StringIO())
    entry = AuditEntry.objects.get(action=action)
    assert "passphrase" not in str(entry.changes)
    is_typed = not what.startswith("/")
    assert (entry.actor_name.startswith("command line"), entry.actor is None) == (is_typed, is_typed)
    assert action in [line["action"] for line in event_log.of("administered")]
    event = Event.__members__.get(EVENTS.get(action, action).upper())
    if event and event.name.lower() not in WAYS and "owners" not in form:
        only_line(event, event_log, is_in_request=not is_typed)


def test_every_action_has_a_title_and_an_act_above_and_every_event_a_test() -> None:
    actions = {action for action, *_ in ACTS}
    assert actions == set(ACTIONS)
    events = {EVENTS.get(action, action) for action in actions} | WAYS.keys() | {"administered"}
    assert events >= {event.name.lower() for event in Event}


def test_the_command_line_prints_it_even_after_application_and_actor_are_gone(
    grace: Client, application: Application
) -> None:
    grace.post(admin_page(application, "change"), change_form(application, name="Reading"))
    grace.post(admin_page(application, "delete"), {"post": "yes", "typed": "Reading"})
    actor = User.objects.get(is_superuser=True)
    PersonFactory(is_staff=True, is_superuser=True)
    actor.delete()
    out = io.StringIO()
    call_command("application", "audit", application.client_id, "--json", stdout=out)
    deleted, changed = json.loads(out.getvalue())
    assert (deleted["action"], changed["action"]) == ("application_deleted", "application_changed")
    assert (changed["before"], changed["after"]) == ({"name": "Reading List"}, {"name": "Reading"})
    assert deleted["before"]["redirect_uris"] == application.callback_addresses
    assert deleted["actor"] == changed["actor"] == actor.display_name


def test_the_page_says_what_changed_and_who_did_it_and_goes_on(grace: Client, application: Application) -> None:
    grace.post(admin_page(application, "change"), change_form(application, name="<b>Reading</b>"))
    history = html_of(grace.get(admin_page(application, "history"), follow=True))
    row = {"actor_name": "Grace", "action": "all_access_ended", "kind": "application", "key": application.client_id}
    AuditEntry.objects.bulk_create([AuditEntry(**row) for _ in range(50)], batch_size=100)
    older = grace.get(grace.get("/admin/trail/").context["older_url"])
    assert len(older.context["rows"]) == 1
    mine = User.objects.get(is_superuser=True).display_name
    for page in (history, html_of(older)):
        found = [text in text_of(page) for text in ("Name Reading List <b>Reading</b>", mine)]
        assert (found, "<b>Reading" in page) == ([True, True], False)
    for typed, fits in ((mine, 1), ("changed the app", 1), ("zzz", 0)):
        assert len(grace.get("/admin/trail/", {"q": typed}).context["rows"]) == fits, typed


def test_the_trail_is_for_those_who_may_see_it_and_a_person_who_may_not_be_seen_is_a_number(
    application: Application, grace: Client
) -> None:
    rosa = PersonFactory(nickname="Rosa")
    act(grace, rosa, "sign-out")
    grace.post(admin_page(application, "act", "switch-off"))
    paths = "/admin/trail/", f"/admin/trail/?kind=application&key={application.client_id}"
    permissions = "view_application", "view_user", "view_auditentry"
    of_one, _of_none, of_all = browsers = [staff(permission) for permission in permissions]
    answers = [[browser.get(path).status_code for path in paths] for browser in browsers]
    assert answers == [[403, 200], [403, 403], [200, 200]]
    found = [of_one.get(f"{paths[1]}&q={typed}").context["rows"] for typed in ("off", "Ægir")]
    assert [len(rows) for rows in found] == [1, 0], "who acted is not shown, and not searched"
    said = text_of(of_all.get("/admin/trail/"))
    assert (str(rosa.pk) in said, "Rosa" in said) == (True, False)
