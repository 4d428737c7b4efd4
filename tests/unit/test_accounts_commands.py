"""`manage.py account`, the operator's interface of the contract. D21."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import AuditEntry, User
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.grants import Log
from tests.pages import SECOND, Account, browser_of, code_of, known_browser, sign_in

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> tuple[str, str]:
    out, errors = io.StringIO(), io.StringIO()
    call_command("account", *arguments, stdout=out, stderr=errors)
    return out.getvalue(), errors.getvalue()


@pytest.fixture
def type_password(monkeypatch: pytest.MonkeyPatch) -> Any:
    def run_with(*arguments: str, stdin: str = PASSWORD + "\n") -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        return run(*arguments, "--password-stdin")[0]

    return run_with


@contract("O.account.create", "O.account.verified")
def test_create_answers_json_or_a_sentence_and_the_password_is_the_first_line(
    type_password: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = json.loads(type_password("create", "New@Example.com", "--nickname", "New", "--json", stdin=PASSWORD))
    user = User.objects.get(email="new@example.com")
    assert answer == {"sub": str(user.pk), "email": "new@example.com", "nickname": "New"}
    sentence = type_password("create", "bob@example.com", "--nickname", "Bob", stdin=PASSWORD + "\r\n")
    assert sentence.startswith("bob@example.com has an account now.")
    assert PASSWORD not in sentence
    type_password("create", "eve@example.com", "--nickname", "Eve", "--unverified", stdin=PASSWORD + "\nmore")
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", PASSWORD)
    call_command("createsuperuser", "--noinput", "--email=root@example.com", "--nickname=Root", stdout=io.StringIO())
    led = [sign_in(Client(), f"{name}@example.com")["Location"] for name in ("new", "bob", "root", "eve")]
    assert led == ["/accounts/profile"] * 3 + ["/accounts/confirm-email"]


def test_create_says_in_a_sentence_what_is_wrong(type_password: Any) -> None:
    PersonFactory(email="taken@example.com")
    for email, nickname, stdin, sentence in (
        ("TAKEN@example.com", "New", PASSWORD, "Somebody already uses this address."),
        ("new@example.com", "a\x1bb", PASSWORD, "characters that can't be used"),
        ("new@example.com", "New", "new@example.com", "too similar"),
        ("new@example.com", "New", "", "The password on standard input is empty."),
    ):
        with pytest.raises(CommandError, match=sentence):
            type_password("create", email, "--nickname", nickname, stdin=stdin)
    with pytest.raises(CommandError, match="--password-stdin"):
        run("create", "new@example.com", "--nickname", "New")
    assert User.objects.count() == 1


def test_the_list_is_by_address_and_says_what_somebody_is() -> None:
    PersonFactory(email="b@example.com", is_active=False, email_verified_at=None)
    root = PersonFactory(email="a@example.com", is_staff=True, is_superuser=True, nickname="Ål")
    first, second = json.loads(run("list", "--json")[0])
    true = dict.fromkeys(("active", "confirmed", "administrator", "superuser"), True)
    assert first == {"sub": str(root.pk), "email": "a@example.com", "nickname": "Ål", **true}
    assert (second["email"], second["active"], second["confirmed"]) == ("b@example.com", False, False)
    assert [mark for mark in ("(deactivated, not confirmed)", "(superuser)") if mark not in run("list")[0]] == []


def test_the_list_is_searched_and_bounded_and_says_when_there_are_more() -> None:
    alice, *_others = [PersonFactory(email=f"{number}@example.com", nickname=f"No {number}") for number in range(3)]
    for text in ("0@EXAMPLE", "no 0", str(alice.pk), alice.pk.hex):
        assert [each["sub"] for each in json.loads(run("list", "--search", text, "--json")[0])] == [str(alice.pk)]
    out, errors = run("list", "--limit", "2", "--json")
    assert [each["email"] for each in json.loads(out)] == ["0@example.com", "1@example.com"]
    assert errors == "There are more than 2. Raise --limit, or use --search.\n"
    assert run("list", "--limit", "3")[1] == ""
    for limit in (-1, 2**40):
        with pytest.raises(CommandError, match="--limit: "):
            run("list", f"--limit={limit}")


def test_show_says_all_that_is_known_and_neither_a_secret_nor_what_could_steer_a_terminal(account: Account) -> None:
    User.objects.filter(pk=account.person.pk).update(nickname="A\x1b[2J\u202eb")
    person = User.objects.get(pk=account.person.pk)
    person.groups.add(Group.objects.create(name="readers"))
    found = json.loads(run("show", person.email.upper(), "--json")[0])
    assert found.items() >= {"sub": str(person.pk), "groups": ["readers"], "permissions": []}.items()
    assert ("totp" in found["second_factors"], found["browsers"] >= 1) == (True, True)
    text = run("show", person.email)[0]
    assert "active:            yes" in text
    assert not [each for each in (person.password, account.secret, *account.codes) if each in text + str(found)]
    for shown in (text, run("list")[0]):
        assert ("\x1b" in shown, "A\\u001b[2J\\u202eb" in shown) == (False, True)


def test_unlock_lets_the_person_try_again_in_each_browser_and_nobody_else(alice: User) -> None:
    known, bob = known_browser(alice), PersonFactory()
    tries = [(Client(), alice), (known, alice), (Client(), bob)]
    for browser, person in tries:
        for _ in range(11):
            sign_in(browser, person.email, "wrong")
        assert sign_in(browser, person.email).status_code == 429
    assert "can try" in run("unlock", alice.email)[0]
    assert [sign_in(browser, person.email).status_code for browser, person in tries] == [302, 302, 429]


def test_unlock_ends_the_limit_of_second_factors(account: Account) -> None:
    browser = account.browser_before_code()
    answers = [browser.post(SECOND, {"code": "000000"}) for _ in range(11)]
    assert answers[-1].status_code == 429
    run("unlock", account.person.email)
    assert browser.post(SECOND, {"code": code_of(account.secret)}).status_code == 302


def rights(person: User) -> tuple[bool, bool, set[str]]:
    person = User.objects.get(pk=person.pk)
    return person.is_staff, person.is_superuser, set(person.user_permissions.values_list("codename", flat=True))


def test_an_administrator_has_every_right_and_is_recorded_once(alice: User, event_log: Log) -> None:
    assert "every right" in run("make-administrator", alice.email)[0]
    assert browser_of(alice).get("/admin/", follow=True).status_code == 200
    assert rights(alice)[:2] == (True, True)
    assert AuditEntry.objects.get().changes == {"is_staff": [False, True], "is_superuser": [False, True]}
    assert len(event_log.of("rights_changed")) == len(event_log.of("administered")) == 1
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert "deactivated" in run("make-administrator", alice.email)[1]


def test_named_permissions_are_all_that_is_given_but_not_to_the_last_administrator(alice: User) -> None:
    User.objects.filter(is_superuser=True).delete()
    close = r".*oauth_bridge\.view_application"
    for name, sentence in (("oauth_bridge.view_aplication", close), ("\x00", ""), ("sessions.add_session", "")):
        with pytest.raises(CommandError, match=f"^--permission: there is no permission {sentence}"):
            run("make-administrator", alice.email, "--permission", name)
    assert rights(alice) == (False, False, set())
    run("make-administrator", alice.email, "--permission=oauth_bridge.view_application")
    run("make-administrator", alice.email, "--permission=accounts.view_auditentry", "--permission=accounts.view_user")
    assert rights(alice) == (True, False, {"view_auditentry", "view_user"})
    run("make-administrator", alice.email)
    with pytest.raises(CommandError, match=r"^Nobody could administer the service then"):
        run("make-administrator", alice.email, "--permission", "accounts.view_user")
    assert rights(alice)[:2] == (True, True)


def test_set_replaces_the_groups_and_makes_those_that_do_not_exist(alice: User) -> None:
    keepers = Group.objects.create(name="keepers")
    for refused, sentence in ((["--group", "fine", "--group", "x" * 151], "^--group: "), ([], "Nothing to change")):
        with pytest.raises(CommandError, match=sentence):
            run("set", alice.email, *refused)
    assert (Group.objects.count(), alice.groups.count()) == (1, 0)
    answer, warning = run("set", alice.email, "--group", "keepers", "--group", "new ones", "--json")
    assert json.loads(answer)["groups"] == ["keepers", "new ones"]
    assert warning == "The group new ones did not exist and was made.\n"
    assert AuditEntry.objects.filter(action="group_created", name="new ones").count() == 1
    assert run("set", alice.email, "--group", "keepers")[1] == ""
    assert list(alice.groups.all()) == [keepers]
    assert "no group" in run("set", alice.email, "--group", "")[0]
    assert not alice.groups.exists()
