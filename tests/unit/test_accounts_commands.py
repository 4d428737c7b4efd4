"""`manage.py account`, the operator's interface of the contract."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts.models import Session, User
from tests.factories import PASSWORD, PersonFactory
from tests.pages import NEW_PASSWORD, with_session

pytestmark = pytest.mark.django_db


def account(monkeypatch: pytest.MonkeyPatch, *arguments: str, stdin: str = PASSWORD + "\n") -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
    output = io.StringIO()
    call_command("account", *arguments, stdout=output)
    return output.getvalue()


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *arguments, **options: account(monkeypatch, *arguments, **options)


def can_sign_in(email: str, password: str = PASSWORD) -> bool:
    response = Client().post("/accounts/sign-in", {"login": email, "password": password})
    return response.status_code == 302 and response["Location"] == "/accounts/profile"


def test_create_answers_json_and_the_person_can_sign_in(run: Any) -> None:
    answer = json.loads(run("create", "New@Example.com", "--nickname", "New", "--password-stdin", "--json"))
    user = User.objects.get(email="new@example.com")
    assert answer == {"sub": str(user.pk), "email": "new@example.com", "nickname": "New"}
    assert user.email_verified_at is not None
    assert can_sign_in("new@example.com")


def test_create_without_json_answers_a_sentence(run: Any) -> None:
    answer = run("create", "new@example.com", "--nickname", "New", "--password-stdin")
    assert answer.startswith("new@example.com has an account now.")
    assert PASSWORD not in answer


def test_create_can_leave_the_address_to_be_confirmed(run: Any) -> None:
    run("create", "new@example.com", "--nickname", "New", "--password-stdin", "--unverified")
    assert User.objects.get().email_verified_at is None
    assert not can_sign_in("new@example.com")


@pytest.mark.parametrize("stdin", [PASSWORD, PASSWORD + "\n", PASSWORD + "\r\n", PASSWORD + "\nmore"])
def test_the_password_is_the_first_line(run: Any, stdin: str) -> None:
    run("create", "new@example.com", "--nickname", "New", "--password-stdin", stdin=stdin)
    assert User.objects.get().check_password(PASSWORD)


@pytest.mark.parametrize(
    ("email", "nickname", "stdin", "sentence"),
    [
        ("taken@example.com", "New", PASSWORD, "Somebody already uses this address."),
        ("TAKEN@example.com", "New", PASSWORD, "Somebody already uses this address."),
        ("no address", "New", PASSWORD, "Enter a valid email address."),
        ("a\x00@example.com", "New", PASSWORD, "valid|Null|characters"),
        ("new@example.com", "x" * 61, PASSWORD, "at most 60 characters"),
        ("new@example.com", "a\x1bb", PASSWORD, "characters that can't be used"),
        ("new@example.com", "New", "short", "too short"),
        ("new@example.com", "New", "password1234", "too common"),
        ("new@example.com", "New", "new@example.com", "too similar"),
        ("new@example.com", "New", "x" * 1025, "too long"),
        ("new@example.com", "New", "", "is empty"),
    ],
)
def test_create_says_in_a_sentence_what_is_wrong(
    run: Any, email: str, nickname: str, stdin: str, sentence: str
) -> None:
    PersonFactory(email="taken@example.com")
    with pytest.raises(CommandError, match=sentence):
        run("create", email, "--nickname", nickname, "--password-stdin", stdin=stdin)
    assert User.objects.count() == 1


def test_a_password_is_never_an_argument(run: Any) -> None:
    with pytest.raises(CommandError, match="--password-stdin"):
        run("create", "new@example.com", "--nickname", "New")


def test_set_password_ends_every_session(run: Any) -> None:
    alice = PersonFactory()
    with_session(alice)
    run("set-password", alice.email, "--password-stdin", stdin=f"{NEW_PASSWORD}\n")
    assert not Session.objects.exists()
    assert not can_sign_in(alice.email)
    assert can_sign_in(alice.email, NEW_PASSWORD)


def test_deactivate_signs_out_and_keeps_out_until_activate(run: Any) -> None:
    alice, bob = PersonFactory(), PersonFactory()
    browsers = [Client(), Client()]
    for browser, person in zip(browsers, (alice, bob), strict=True):
        browser.force_login(person)
    run("deactivate", alice.email.upper())
    assert [browser.get("/accounts/profile").status_code for browser in browsers] == [302, 200]
    assert not can_sign_in(alice.email)
    run("activate", alice.email)
    assert browsers[0].get("/accounts/profile").status_code == 302
    assert not Session.objects.filter(user=alice).exists()
    assert can_sign_in(alice.email)


@pytest.mark.parametrize("action", ["set-password", "deactivate", "activate"])
@pytest.mark.parametrize("email", ["nobody@example.com", "a\x00b"])
def test_an_unknown_address_is_named(run: Any, action: str, email: str) -> None:
    options = ["--password-stdin"] if action == "set-password" else []
    with pytest.raises(CommandError, match="There is no account with the address"):
        run(action, email, *options)


@pytest.mark.parametrize("arguments", [[], ["alice@example.com"]])
def test_djangos_own_command_for_passwords_names_the_one_to_use(arguments: list[str]) -> None:
    with pytest.raises(CommandError, match=r"Use manage\.py account set-password EMAIL"):
        call_command("changepassword", *arguments)
