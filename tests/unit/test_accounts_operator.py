"""`manage.py account list`, `show`, `unlock` and `make-administrator`. Contract, operator's interface; D21."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import AuditEntry, FailedFactor, User
from tests.events import Log
from tests.factories import PASSWORD, PersonFactory
from tests.factors import SECOND, Account, code_of
from tests.pages import browser_of, known_browser, sign_in, with_session

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    """Standard output and standard error."""
    out, errors = io.StringIO(), io.StringIO()
    call_command("account", *arguments, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


def listed(*arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("list", *arguments, "--json")[0])
    return found


# Finding people -------------------------------------------------------------------------------------------------------


def test_the_list_is_by_address_and_says_what_somebody_is() -> None:
    PersonFactory(email="b@example.com", is_active=False, email_verified_at=None)
    root = PersonFactory(email="a@example.com", is_staff=True, is_superuser=True, nickname="Ål")
    first, second = listed()
    assert first == {
        "sub": str(root.pk),
        "email": "a@example.com",
        "nickname": "Ål",
        "active": True,
        "confirmed": True,
        "administrator": True,
        "superuser": True,
    }
    assert (second["email"], second["active"], second["confirmed"]) == ("b@example.com", False, False)
    assert "(deactivated, not confirmed)" in run("list")[0]
    assert "(superuser)" in run("list")[0]


def test_the_list_is_bounded_and_says_when_there_are_more() -> None:
    for number in range(3):
        PersonFactory(email=f"{number}@example.com")
    out, errors = run("list", "--limit", "2", "--json")
    assert [each["email"] for each in json.loads(out)] == ["0@example.com", "1@example.com"]
    assert errors == "There are more than 2. Raise --limit, or use --search.\n"
    assert run("list", "--limit", "3")[1] == ""


def test_the_list_costs_one_statement_however_long_it_is() -> None:
    for _ in range(5):
        PersonFactory()
    with CaptureQueriesContext(connection) as statements:
        run("list")
    assert len(statements) == 1


@pytest.mark.parametrize("text", ["ALICE", "liddell", "{pk}", "{pk_hex}"])
def test_people_are_found_by_address_nickname_or_user_id(text: str) -> None:
    alice = PersonFactory(email="alice@example.com", nickname="Liddell")
    PersonFactory(email="bob@example.com", nickname="Bob")
    assert [each["sub"] for each in listed("--search", text.format(pk=alice.pk, pk_hex=alice.pk.hex))] == [
        str(alice.pk)
    ]
    assert listed("--search", "%") == []


def test_an_empty_list_is_json_too() -> None:
    assert listed() == []


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--limit=0", "--limit: "),
        ("--limit=-1", "--limit: "),
        (f"--limit={2**40}", "--limit: "),
        ("--search=a\x00b", "--search: "),
        ("--search=\ud800", "--search: "),
    ],
)
def test_a_malformed_option_is_named(option: str, sentence: str) -> None:
    with pytest.raises(CommandError, match=sentence):
        run("list", option)


def test_what_could_steer_a_terminal_is_written_as_numbers(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(nickname="A\x1b[2J\u202eb")
    for arguments in (["list"], ["show", alice.email]):
        text = run(*arguments)[0]
        assert "\x1b" not in text
        assert "A\\u001b[2J\\u202eb" in text


def test_show_says_all_that_is_known_and_no_secret(alice: User) -> None:
    alice.groups.add(Group.objects.create(name="readers"))
    Account(alice)
    browser_of(alice)
    found = json.loads(run("show", alice.email.upper(), "--json")[0])
    assert (found["sub"], found["groups"], found["permissions"]) == (str(alice.pk), ["readers"], [])
    assert "totp" in found["second_factors"]
    assert found["browsers"] >= 1
    assert found["last_sign_in"]
    text = run("show", alice.email)[0]
    assert "active:         yes" in text
    alice.refresh_from_db()
    assert alice.password not in text + json.dumps(found)


@pytest.mark.parametrize("action", ["show", "unlock", "make-administrator"])
@pytest.mark.parametrize("email", ["nobody@example.com", "a\x00b"])
def test_an_unknown_address_is_named(action: str, email: str) -> None:
    with pytest.raises(CommandError, match="There is no account with the address"):
        run(action, email)


# Unlocking ------------------------------------------------------------------------------------------------------------


def lock_out(person: User, address: str = "192.0.2.1") -> None:
    for _ in range(11):
        sign_in(Client(), person.email, "wrong", address=address)
    assert sign_in(Client(), person.email, address=address).status_code == 429


def test_unlock_lets_the_person_try_again_at_once(alice: User) -> None:
    lock_out(alice)
    assert "can try" in run("unlock", alice.email)[0]
    assert sign_in(Client(), alice.email, address="192.0.2.1").status_code == 302


def test_a_known_browser_is_unlocked_too(alice: User) -> None:
    browser = known_browser(alice)
    for _ in range(11):
        sign_in(browser, alice.email, "wrong")
    assert sign_in(browser, alice.email).status_code == 429
    run("unlock", alice.email)
    assert sign_in(browser, alice.email).status_code == 302


def test_after_unlock_the_limit_holds_anew(alice: User) -> None:
    lock_out(alice)
    run("unlock", alice.email)
    lock_out(alice, "192.0.2.2")


def test_unlock_of_one_account_leaves_others_locked(alice: User) -> None:
    """Mallory's failures at Bob's account stay counted when Alice's is unlocked."""
    bob = PersonFactory()
    lock_out(bob)
    run("unlock", alice.email)
    assert sign_in(Client(), bob.email, address="192.0.2.1").status_code == 429


def test_unlock_ends_the_limit_of_second_factors(alice: User) -> None:
    account, browser = Account(alice), Client()
    sign_in(browser, alice.email)
    for _ in range(11):
        browser.post(SECOND, {"code": "000000"})
    assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code != 302
    run("unlock", alice.email)
    assert not FailedFactor.objects.filter(user=alice).exists()
    assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code == 302


def test_a_failed_sign_in_runs_the_same_statements_with_and_without_an_account(alice: User) -> None:
    run("unlock", alice.email)
    counts = []
    for email in (alice.email, "nobody@example.com"):
        with CaptureQueriesContext(connection) as statements:
            sign_in(Client(), email, "wrong")
        counts.append(len([each for each in statements if "accounts_user" in each["sql"]]))
    assert counts[0] == counts[1]


def test_unlock_is_recorded(alice: User, event_log: Log) -> None:
    run("unlock", alice.email)
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.key, entry.actor) == ("account_unlocked", str(alice.pk), None)
    assert entry.actor_name.startswith("command line")
    assert [line["event"] for line in event_log.lines] == ["account_unlocked", "administered"]


def test_the_administration_unlocks_too(alice: User, admin_client: Any) -> None:
    lock_out(alice)
    admin_client.post(f"/admin/accounts/user/{alice.pk}/?act=unlock")
    assert sign_in(Client(), alice.email, address="192.0.2.1").status_code == 302


def test_who_may_only_look_at_people_unlocks_nobody(alice: User) -> None:
    mallory = PersonFactory(is_staff=True)
    mallory.user_permissions.add(Permission.objects.get(codename="view_user"))
    assert with_session(mallory).post(f"/admin/accounts/user/{alice.pk}/?act=unlock").status_code == 403
    alice.refresh_from_db()
    assert alice.unlocks == 0


# Administrators -------------------------------------------------------------------------------------------------------


def rights(person: User) -> tuple[bool, bool, set[str]]:
    person = User.objects.get(pk=person.pk)
    return (
        person.is_staff,
        person.is_superuser,
        {f"{each.content_type.app_label}.{each.codename}" for each in person.user_permissions.all()},
    )


def test_an_administrator_has_every_right_unless_permissions_are_named(alice: User) -> None:
    assert "every right" in run("make-administrator", alice.email)[0]
    assert rights(alice)[:2] == (True, True)
    assert browser_of(alice).get("/admin/", follow=True).status_code == 200


def test_named_permissions_are_all_that_is_given(alice: User) -> None:
    named = ["oauth_bridge.view_application", "accounts.view_auditentry"]
    run("make-administrator", alice.email, *(f"--permission={name}" for name in named))
    assert rights(alice) == (True, False, set(named))
    run("make-administrator", alice.email, "--permission", "accounts.view_user")
    assert rights(alice) == (True, False, {"accounts.view_user"})


@pytest.mark.parametrize("name", ["view_application", "oauth_bridge.view_aplication", "Oauth_bridge.view_application"])
def test_an_unknown_permission_is_refused_and_the_close_one_named(alice: User, name: str) -> None:
    with pytest.raises(CommandError, match=r"^--permission: there is no permission .*oauth_bridge\.view_application"):
        run("make-administrator", alice.email, "--permission", name)
    assert rights(alice) == (False, False, set())


@pytest.mark.parametrize("name", ["", "\x00", "sessions.add_session", "a" * 10_000])
def test_a_permission_that_no_page_offers_is_refused(alice: User, name: str) -> None:
    with pytest.raises(CommandError, match=r"^--permission: "):
        run("make-administrator", alice.email, "--permission", name)


def test_the_last_administrator_keeps_every_right(alice: User) -> None:
    User.objects.filter(is_superuser=True).delete()
    run("make-administrator", alice.email)
    with pytest.raises(CommandError, match=r"^--permission: this is the last administrator"):
        run("make-administrator", alice.email, "--permission", "accounts.view_user")
    assert rights(alice) == (True, True, set())


def test_a_new_administrator_is_recorded_once(alice: User, event_log: Log) -> None:
    run("make-administrator", alice.email)
    run("make-administrator", alice.email)
    (entry,) = AuditEntry.objects.all()
    assert entry.action == "account_changed"
    assert entry.changes == {"is_staff": [False, True], "is_superuser": [False, True]}
    assert [line["event"] for line in event_log.lines] == ["rights_changed", "administered"]


def test_a_deactivated_account_is_warned_of(alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert "deactivated" in run("make-administrator", alice.email)[1]


def test_a_group_that_is_made_is_said_and_recorded(alice: User) -> None:
    assert run("set", alice.email, "--group", "readers")[1] == "The group readers did not exist and was made.\n"
    assert run("set", alice.email, "--group", "readers")[1] == ""
    assert AuditEntry.objects.filter(action="group_created", name="readers").count() == 1


def test_the_password_is_still_needed(alice: User) -> None:
    """Unlocking signs nobody in."""
    run("unlock", alice.email)
    assert sign_in(Client(), alice.email, "wrong").status_code == 200
    assert sign_in(Client(), alice.email, PASSWORD).status_code == 302
