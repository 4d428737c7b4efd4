"""A new account: who may make one, what its owner must prove, and what strangers do not learn."""

from __future__ import annotations

import json
import re
import time
from html import unescape
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from accounts import return_path
from accounts.models import User
from accounts.passwords import hashing
from accounts.sessions.credential_changes import set_active
from accounts.sign_in.adapter import AccountAdapter
from accounts.sign_in.sign_up import invite
from tests.factories import PASSWORD, PersonFactory
from tests.grants import choose_password_by_mail
from tests.pages import (
    AUTHORIZE,
    CODE_PAGE,
    NEW,
    SIGN_UP,
    deliver_all,
    html_of,
    is_signed_in,
    mailed_code,
    sign_in,
    sign_up,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]

TYPED = "new@exmaple.org"
CHANGE = "Wrong address? Change it"


def test_a_person_signs_up_confirms_the_address_and_goes_on(client: Client) -> None:
    sign_in_page = html_of(client.get("/accounts/sign-in", {"next": AUTHORIZE}))
    [link] = re.findall(rf'href="({SIGN_UP}\?[^"]*)"', sign_in_page)
    way_back = client.get(unescape(link)).context["return_to"]
    assert sign_up(client, next=way_back)["Location"].startswith(CODE_PAGE)
    person = User.objects.get()
    assert (person.email, person.nickname, person.email_verified_at) == ("new@example.org", "Nia", None)
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == AUTHORIZE
    person.refresh_from_db()
    assert person.email_verified_at is not None
    assert is_signed_in(client)
    assert client.get(SIGN_UP)["Location"] == "/accounts/profile"
    assert deliver_all() == 0, "the first sign-in is not one of a new browser"


def test_a_form_that_is_posted_again_leads_to_a_page_that_takes_its_code(client: Client) -> None:
    sign_up(client)
    again = Client()
    with time_machine.travel(time.time() + 11):  # more often no code is sent to an address
        sign_up(again, nickname="Ada", next=AUTHORIZE)
        assert again.post(CODE_PAGE, {"code": mailed_code()})["Location"] == AUTHORIZE
    assert User.objects.get(nickname="Nia").email_verified_at


@pytest.mark.parametrize("which", ["other password", "confirmed", "deactivated", "passkey"])
def test_the_owner_of_a_taken_address_gets_a_mail_and_the_page_looks_the_same(client: Client, which: str) -> None:
    path = f"{SIGN_UP}/passkey" if which == "passkey" else SIGN_UP
    person = PersonFactory(email_verified_at=timezone.now() if which == "confirmed" else None)
    if which == "deactivated":
        set_active(person, False)
    password = NEW["password1"] if which == "other password" else PASSWORD
    answer, other = sign_up(client, path, email=person.email, password1=password), sign_up(Client(), path)
    assert (answer.status_code, answer["Location"]) == (other.status_code, other["Location"])
    assert person.email in html_of(client.get(CODE_PAGE))
    assert mail.outbox[0].subject.startswith("You already have an account")
    assert mail.outbox[0].to == [person.email]
    assert User.objects.count() == 2


def test_what_is_refused_keeps_what_was_typed(client: Client) -> None:
    refused = [{"email": "nobody"}, {"email": ""}, {"nickname": "x" * 61}, {"nickname": "a\x00b"}]
    refused += [{"password1": "short"}, {"password1": "new@example.org!"}, {"password1": "x" * 5000}]
    for change in refused:
        answer = html_of(sign_up(client, **change))
        assert f'value="{(NEW | change)["email"]}"' in answer or not change.get("email", "x"), change
        assert NEW["password1"] not in answer
    assert not User.objects.exists()


@pytest.mark.parametrize("path", [SIGN_UP, f"{SIGN_UP}/passkey"])
def test_the_code_of_an_account_that_was_deleted_meanwhile_leads_to_the_sign_in(client: Client, path: str) -> None:
    sign_up(client, path, next=AUTHORIZE)
    User.objects.all().delete()
    answer = client.post(CODE_PAGE, {"code": mailed_code(), "next": AUTHORIZE})
    assert answer["Location"] == return_path.sign_in_url(AUTHORIZE)
    sign_up(client, path, email="again@example.org")
    assert client.post(CODE_PAGE, {"code": mailed_code()}).status_code == 302
    assert User.objects.get().email_verified_at


def test_an_account_deleted_at_the_moment_of_the_code_leads_to_the_sign_in(client: Client, monkeypatch: Any) -> None:
    sign_up(client)
    finish = AccountAdapter.confirm_email
    monkeypatch.setattr(AccountAdapter, "confirm_email", lambda *given: User.objects.all().delete() and finish(*given))
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == "/accounts/sign-in"
    assert not User.objects.exists()


def test_without_an_invitation_of_the_last_seven_days_nobody_signs_up(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "invitation"
    assert SIGN_UP not in html_of(client.get("/accounts/sign-in"))
    for seal in ("", "x", "new@example.org", "\x00"):
        sign_up(client, f"{SIGN_UP}?invitation={seal}", invitation=seal)
        assert not User.objects.exists(), seal
    path = invite(User(email="new@example.org")).removeprefix("http://testserver")
    with time_machine.travel(time.time() + 7 * 24 * 3600 + 2):
        assert "older than seven days" in html_of(client.get(path))
    assert CHANGE not in html_of(client.get(sign_up(client, path)["Location"]))


def test_the_operator_invites(settings: Any, capsys: Any, alice: User) -> None:
    for mode, email, refusal in (("closed", TYPED, "SIGN_UP"), ("invitation", alice.email, "has an account")):
        settings.SIGN_UP = mode
        with pytest.raises(CommandError, match=refusal):
            call_command("account", "invite", email)
    call_command("account", "invite", "New@Example.org", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["email"] == "new@example.org"
    assert answer["url"].startswith(f"http://testserver{SIGN_UP}?invitation=")
    assert User.objects.get(email="new@example.org").invited_at


def test_only_a_nickname_that_an_operator_gave_survives_a_password_by_mail() -> None:
    sign_up(Client(), email="victim@example.org", nickname="Free money at attacker.example")
    PersonFactory(email="bea@example.org", nickname="Bea", email_verified_at=None)
    for email, nickname in (("victim@example.org", ""), ("bea@example.org", "Bea")):
        choose_password_by_mail(User.objects.get(email=email), Client())
        assert User.objects.get(email=email).nickname == nickname
    call_command("deliver", "--once")
    assert not any("Free money" in f"{each.subject} {each.body}" for each in mail.outbox)


def begin_again(browser: Client) -> Any:
    """The sign-up form after the button on the page of the code."""
    return browser.post(CODE_PAGE, {"begin_again": ""}, follow=True)


def test_the_form_is_as_it_was_typed_and_the_corrected_address_gets_a_code_of_its_own(client: Client) -> None:
    sign_up(client, email=TYPED, next=AUTHORIZE)
    assert CHANGE in html_of(client.get(CODE_PAGE))
    assert TYPED not in html_of(client.get(SIGN_UP)), "it is shown after the button only"
    of_the_wrong_one = mailed_code()
    form = begin_again(client)
    shown = [text in html_of(form) for text in (f'value="{TYPED}"', 'value="Nia"', NEW["password1"])]
    assert (shown, form.context["return_to"]) == ([True, True, False], AUTHORIZE)
    sign_up(client, next=AUTHORIZE)
    assert mail.outbox[-1].to == ["new@example.org"]
    assert client.post(CODE_PAGE, {"code": of_the_wrong_one}).status_code == 200
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == AUTHORIZE
    assert User.objects.get(email="new@example.org").email_verified_at
    assert User.objects.get(email=TYPED).email_verified_at is None


def test_only_the_browser_that_made_an_account_sets_another_password_until_it_is_confirmed(client: Client) -> None:
    sign_up(client)
    mallory = Client()
    sign_up(mallory, email="mallory@example.org")
    begin_again(mallory)
    with time_machine.travel(time.time() + 11):
        sign_up(mallory, password1="the phrase of mallory")
    assert mail.outbox[-1].subject.startswith("You already have an account")
    assert User.objects.get(email="new@example.org").check_password(NEW["password1"])
    begin_again(client)
    with time_machine.travel(time.time() + 22):
        sign_up(client, nickname="Ada", password1="quite another phrase")
        assert User.objects.get(nickname="Ada").check_password("quite another phrase")
        begin_again(client)
        User.objects.update(email_verified_at="2026-01-01T00:00Z")
        sign_up(client)
    assert User.objects.get(nickname="Ada").check_password("quite another phrase"), "it was confirmed meanwhile"


def test_a_taken_address_looks_the_same_and_each_sign_up_costs_one_hash(alice: User, monkeypatch: Any) -> None:
    turn = Mock(wraps=hashing.in_turn)
    monkeypatch.setattr(hashing, "in_turn", turn)
    for email in (alice.email, "new@example.org"):
        turn.reset_mock()
        sign_up(browser := Client(), email=email)
        assert CHANGE in html_of(browser.get(CODE_PAGE))
        assert f'value="{email}"' in html_of(begin_again(browser))
        with time_machine.travel(time.time() + 11):
            assert sign_up(browser, email=email, password1="quite another phrase")["Location"].startswith(CODE_PAGE)
        assert turn.call_count == 2


def test_other_codes_have_no_sign_up_to_go_back_to(client: Client) -> None:
    sign_in(client, PersonFactory(email_verified_at=None).email)
    assert CHANGE not in html_of(client.get(CODE_PAGE))
    client.post(CODE_PAGE, {"begin_again": ""})
    assert client.get(CODE_PAGE).status_code == 200
