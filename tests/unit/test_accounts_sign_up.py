"""A new account: who may make one, what its owner must prove, and what strangers do not learn."""

from __future__ import annotations

import json
import re
import time
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import time_machine
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts.models import User
from accounts.passwords import hashing
from accounts.sessions.credential_changes import set_active
from accounts.sign_in import who_may_sign_up
from accounts.sign_in.adapter import AccountAdapter
from accounts.sign_in.sign_up import SignUpForm
from tests.factories import PASSWORD, PersonFactory
from tests.pages import AUTHORIZE, CODE_PAGE, NEW, SIGN_UP, deliver_all, html_of, mailed_code, sign_in, sign_up
from tests.sending import choose_password_by_mail

pytestmark = pytest.mark.django_db


@pytest.fixture
def by_invitation(settings: Any) -> None:
    settings.SIGN_UP = "invitation"


# Open ----------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_person_signs_up_confirms_the_address_and_goes_on(client: Client) -> None:
    answer = sign_up(client, next=AUTHORIZE)
    assert answer["Location"].startswith(CODE_PAGE)
    person = User.objects.get()
    assert (person.email, person.nickname, person.email_verified_at) == ("new@example.org", "Nia", None)
    answer = client.post(CODE_PAGE, {"code": mailed_code()})
    assert answer["Location"] == AUTHORIZE
    person.refresh_from_db()
    assert person.email_verified_at is not None
    assert client.get("/accounts/profile").status_code == 200


@pytest.mark.usefixtures("sign_up_is_open")
def test_without_the_code_nobody_is_signed_in(client: Client) -> None:
    sign_up(client)
    assert client.get("/accounts/profile").status_code == 302
    assert client.post(CODE_PAGE, {"code": "AAAAAA"}).status_code == 200
    assert client.get("/accounts/profile").status_code == 302


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_taken_address_looks_the_same_and_its_owner_gets_a_mail(client: Client, alice: User) -> None:
    answer, other = sign_up(client, email=alice.email), sign_up(Client())
    assert (answer.status_code, answer["Location"]) == (other.status_code, other["Location"])
    pages = [html_of(each.get(CODE_PAGE)) for each in (client,)]
    assert alice.email in pages[0]
    assert mail.outbox[0].subject.startswith("You already have an account")
    assert mail.outbox[0].to == [alice.email]
    assert User.objects.count() == 2


@pytest.mark.usefixtures("sign_up_is_open")
def test_an_address_that_is_taken_at_the_same_moment_looks_the_same(
    client: Client, alice: User, monkeypatch: Any
) -> None:
    monkeypatch.setattr(SignUpForm, "validate_unique_email", lambda _form, email: email)
    assert sign_up(client, email=alice.email)["Location"].startswith(CODE_PAGE)
    assert mail.outbox[-1].subject.startswith("You already have an account")


@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.parametrize("is_taken", [True, False])
def test_a_sign_up_hashes_one_password_whether_the_address_is_taken_or_not(
    client: Client, alice: User, monkeypatch: Any, is_taken: bool
) -> None:
    turns = []
    turn = hashing.hashes.turn

    def counted() -> Any:
        turns.append("a hash")
        return turn()

    monkeypatch.setattr(hashing.hashes, "turn", counted)
    sign_up(client, **({"email": alice.email} if is_taken else {}))
    assert len(turns) == 1


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_form_that_is_posted_again_leads_to_a_page_that_takes_its_code(client: Client) -> None:
    """In another browser, ten seconds later: more often no code is sent to an address."""
    sign_up(client)
    again = Client()
    with time_machine.travel(time.time() + 11):
        assert sign_up(again, nickname="Ada", next=AUTHORIZE)["Location"].startswith(CODE_PAGE)
        assert again.post(CODE_PAGE, {"code": mailed_code()})["Location"] == AUTHORIZE
    person = User.objects.get()
    assert person.email_verified_at
    assert person.nickname == "Nia"


@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.parametrize("which", ["other password", "confirmed", "deactivated", "by passkey"])
def test_only_the_password_of_an_account_that_is_not_confirmed_gets_a_code(client: Client, which: str) -> None:
    person = PersonFactory(email_verified_at=timezone.now() if which == "confirmed" else None)
    if which == "deactivated":
        set_active(person, False)
    password = NEW["password1"] if which == "other password" else PASSWORD
    path = f"{SIGN_UP}/passkey" if which == "by passkey" else SIGN_UP
    answer, other = sign_up(client, path, email=person.email, password1=password), sign_up(Client(), path)
    assert (answer.status_code, answer["Location"]) == (other.status_code, other["Location"])
    assert mail.outbox[0].subject.startswith("You already have an account")


@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.parametrize(
    "changes",
    [
        {"email": "nobody"},
        {"email": ""},
        {"email": "a\x00@example.org"},
        {"nickname": "x" * 61},
        {"nickname": "a\x00b"},
        {"password1": "short"},
        {"password1": "passwordpassword"},
        {"password1": "new@example.org!"},
        {"password1": "x" * 5000},
    ],
)
def test_what_is_refused_keeps_what_was_typed(client: Client, changes: dict[str, str]) -> None:
    answer = sign_up(client, **changes)
    assert answer.status_code == 200
    assert not User.objects.exists()
    typed = (NEW | changes)["email"]
    assert not typed.isalnum() or f'value="{typed}"' in html_of(answer)
    assert NEW["password1"] not in html_of(answer)


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_sign_up_that_must_wait_for_another_hash_stores_nothing(client: Client, monkeypatch: Any) -> None:
    def busy(*_: Any, **__: Any) -> str:
        raise hashing.HashingBusy

    monkeypatch.setattr(hashing.PasswordHasher, "encode", busy)
    answer = sign_up(client)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert 'value="Nia"' in html_of(answer)
    assert not User.objects.exists()


@pytest.mark.usefixtures("sign_up_is_open")
def test_the_sign_in_page_leads_to_it_and_keeps_the_request(client: Client) -> None:
    page = html_of(client.get("/accounts/sign-in", {"next": AUTHORIZE}))
    found = re.search(rf'href="({SIGN_UP}[^"]*)"', page)
    assert found
    assert parse_qs(urlsplit(found[1].replace("&amp;", "&")).query)["next"] == [AUTHORIZE]


@pytest.mark.usefixtures("sign_up_is_open")
def test_a_foreign_address_is_no_way_on(client: Client) -> None:
    sign_up(client, next="https://evil.example/")
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == "/accounts/profile"


@pytest.mark.usefixtures("sign_up_is_open")
@pytest.mark.parametrize("path", [SIGN_UP, f"{SIGN_UP}/passkey"])
def test_the_code_of_an_account_that_was_deleted_meanwhile_leads_to_the_sign_in(client: Client, path: str) -> None:
    sign_up(client, path, next=AUTHORIZE)
    User.objects.all().delete()
    answer = client.post(CODE_PAGE, {"code": mailed_code(), "next": AUTHORIZE})
    assert answer["Location"] == f"/accounts/sign-in?{urlencode({'next': AUTHORIZE})}"
    assert client.get(answer["Location"]).status_code == 200
    sign_up(client, path, email="again@example.org")
    assert client.post(CODE_PAGE, {"code": mailed_code()}).status_code == 302
    assert User.objects.get().email_verified_at


@pytest.mark.usefixtures("sign_up_is_open")
def test_an_account_that_is_deleted_at_the_moment_of_the_code_leads_to_the_sign_in(
    client: Client, monkeypatch: Any
) -> None:
    sign_up(client)
    finish = AccountAdapter.confirm_email

    def late(adapter: Any, request: Any, address: Any) -> bool:
        User.objects.all().delete()
        return bool(finish(adapter, request, address))

    monkeypatch.setattr(AccountAdapter, "confirm_email", late)
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == "/accounts/sign-in"
    assert not User.objects.exists()


# Closed, by invitation ------------------------------------------------------------------------------------------------


def test_closed_is_the_default(client: Client) -> None:
    for answer in (client.get(SIGN_UP), sign_up(client)):
        assert "New accounts are by invitation" in html_of(answer)
    assert not User.objects.exists()
    assert SIGN_UP not in html_of(client.get("/accounts/sign-in"))


@pytest.mark.usefixtures("by_invitation")
def test_an_invited_person_signs_up_with_that_address_only(client: Client) -> None:
    path = who_may_sign_up.link("new@example.org").removeprefix("http://testserver")
    assert 'value="new@example.org"' in html_of(client.get(path))
    assert "for another address" in html_of(sign_up(client, path, email="mallory@example.org"))
    assert sign_up(client, path)["Location"].startswith(CODE_PAGE)
    assert client.post(CODE_PAGE, {"code": mailed_code()}).status_code == 302
    assert client.get("/accounts/profile").status_code == 200


@pytest.mark.usefixtures("by_invitation")
@pytest.mark.parametrize("seal", ["", "x", "new@example.org", "\x00"])
def test_without_an_invitation_nobody_signs_up(client: Client, seal: str) -> None:
    sign_up(client, f"{SIGN_UP}?invitation={seal}", invitation=seal)
    assert not User.objects.exists()


@pytest.mark.usefixtures("by_invitation")
def test_an_invitation_ends_after_seven_days(client: Client) -> None:
    path, week = who_may_sign_up.link("new@example.org").removeprefix("http://testserver"), 7 * 24 * 3600
    with time_machine.travel(time.time() + week - 60):
        assert "older than seven days" not in html_of(client.get(path))
    with time_machine.travel(time.time() + week + 2):
        assert "older than seven days" in html_of(client.get(path))


def test_the_operator_invites(settings: Any, capsys: Any, alice: User) -> None:
    with pytest.raises(CommandError, match="SIGN_UP"):
        call_command("account", "invite", "new@example.org")
    settings.SIGN_UP = "invitation"
    with pytest.raises(CommandError, match="has an account"):
        call_command("account", "invite", alice.email)
    with pytest.raises(CommandError):
        call_command("account", "invite", "nobody")
    call_command("account", "invite", "New@Example.org", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["email"] == "new@example.org"
    assert answer["url"].startswith(f"http://testserver{SIGN_UP}?invitation=")


def test_a_person_who_is_signed_in_goes_on(client: Client, alice: User, settings: Any) -> None:
    settings.SIGN_UP = "open"
    sign_in(client, alice.email)
    assert client.get(SIGN_UP)["Location"] == "/accounts/profile"


def test_a_nickname_of_a_sign_up_that_nobody_confirmed_does_not_survive_a_password_by_mail(
    client: Client, settings: Any
) -> None:
    settings.SIGN_UP = "open"
    form = {"email": "victim@example.org", "nickname": "Free money at attacker.example", "password1": PASSWORD}
    Client().post("/accounts/sign-up", form)
    choose_password_by_mail(User.objects.get(email="victim@example.org"), client)
    deliver_all()
    assert User.objects.get(email="victim@example.org").nickname == ""
    assert not any("Free money" in f"{each.subject} {each.body}" for each in mail.outbox)


def test_a_nickname_that_an_operator_gave_survives_a_password_by_mail(client: Client) -> None:
    person = PersonFactory(nickname="Bea", email_verified_at=None)
    choose_password_by_mail(person, client)
    assert User.objects.get(pk=person.pk).nickname == "Bea"
