"""An address that was typed wrong at sign-up is corrected on the page that asks for the code."""

from __future__ import annotations

import time
from typing import Any

import pytest
import time_machine
from django.core import mail
from django.test import Client
from django.urls import reverse

from accounts.models import User
from accounts.passwords import hashing
from accounts.sign_in import who_may_sign_up
from tests.pages import AUTHORIZE, CODE_PAGE, NEW, SIGN_UP, html_of, mailed_code, sign_in, sign_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]

TYPED = "new@exmaple.org"
CHANGE = "Wrong address? Change it"


def begin_again(browser: Client) -> Any:
    """The sign-up form after the button on the page of the code."""
    answer = browser.post(CODE_PAGE, {"begin_again": ""})
    assert answer["Location"].startswith(SIGN_UP)
    return browser.get(answer["Location"])


def test_the_form_is_as_it_was_typed_and_the_corrected_address_gets_the_code(client: Client) -> None:
    sign_up(client, email=TYPED, next=AUTHORIZE)
    assert CHANGE in html_of(client.get(CODE_PAGE))
    form = begin_again(client)
    assert f'value="{TYPED}"' in html_of(form)
    assert 'value="Nia"' in html_of(form)
    assert NEW["password1"] not in html_of(form)
    assert form.context["redirect_field_value"] == AUTHORIZE
    assert sign_up(client, next=AUTHORIZE)["Location"].startswith(CODE_PAGE)
    assert mail.outbox[-1].to == ["new@example.org"]
    assert client.post(CODE_PAGE, {"code": mailed_code()})["Location"] == AUTHORIZE
    assert User.objects.get(email="new@example.org").email_verified_at
    assert User.objects.get(email=TYPED).email_verified_at is None


def test_the_code_of_the_wrong_address_is_worth_nothing_then(client: Client) -> None:
    sign_up(client, email=TYPED)
    of_the_wrong_one = mailed_code()
    begin_again(client)
    assert client.get(CODE_PAGE)["Location"] == reverse("account_login")
    sign_up(client)
    assert client.post(CODE_PAGE, {"code": of_the_wrong_one}).status_code == 200
    assert client.get("/accounts/profile").status_code == 302


def test_an_address_that_was_right_after_all_takes_another_password(client: Client) -> None:
    sign_up(client)
    begin_again(client)
    with time_machine.travel(time.time() + 11):
        sign_up(client, nickname="Ada", password1="quite another phrase")
        client.post(CODE_PAGE, {"code": mailed_code()})
    person = User.objects.get()
    assert person.email_verified_at
    assert person.nickname == "Ada"
    assert person.check_password("quite another phrase")


def test_only_the_browser_that_made_the_account_sets_its_password_so(client: Client) -> None:
    sign_up(client)
    mallory = Client()
    sign_up(mallory, email="mallory@example.org")
    begin_again(mallory)
    with time_machine.travel(time.time() + 11):
        sign_up(mallory, password1="the phrase of mallory")
    assert mail.outbox[-1].subject.startswith("You already have an account")
    assert User.objects.get(email="new@example.org").check_password(NEW["password1"])


def test_an_account_that_was_confirmed_meanwhile_keeps_its_password(client: Client) -> None:
    sign_up(client)
    begin_again(client)
    User.objects.update(email_verified_at="2026-01-01T00:00Z")
    sign_up(client, password1="quite another phrase")
    assert User.objects.get().check_password(NEW["password1"])


def test_a_taken_address_looks_the_same_and_costs_one_hash_too(client: Client, alice: User, monkeypatch: Any) -> None:
    turns, turn = [], hashing.hashes.turn

    def counted() -> Any:
        turns.append("a hash")
        return turn()

    pages, hashes = [], []
    for email in (alice.email, "new@example.org"):
        browser = Client()
        sign_up(browser, email=email)
        page = browser.get(CODE_PAGE)
        form = begin_again(browser)
        assert browser.get(CODE_PAGE).status_code == 302
        monkeypatch.setattr(hashing.hashes, "turn", counted)
        with time_machine.travel(time.time() + 11):
            answer = sign_up(browser, email=email, password1="quite another phrase")
        monkeypatch.undo()
        assert answer["Location"].startswith(CODE_PAGE)
        pages.append((CHANGE in html_of(page), form.status_code, f'value="{email}"' in html_of(form)))
        hashes.append(len(turns))
    assert pages == [(True, 200, True)] * 2
    assert hashes == [1, 2]


def test_what_was_typed_is_shown_after_the_button_only_and_forgotten_with_the_code(client: Client) -> None:
    sign_up(client, email=TYPED)
    assert TYPED not in html_of(client.get(SIGN_UP))
    client.post(CODE_PAGE, {"code": mailed_code()})
    assert client.session.get("sign_up") is None


@pytest.mark.parametrize("when", ["a new address", "a sign-in"])
def test_other_codes_have_no_sign_up_to_go_back_to(client: Client, alice: User, when: str) -> None:
    if when == "a new address":
        sign_in(client, alice.email)
        client.post("/accounts/email", {"email": "else@example.org"})
    else:
        User.objects.update(email_verified_at=None)
        sign_in(client, alice.email)
    assert CHANGE not in html_of(client.get(CODE_PAGE))
    client.post(CODE_PAGE, {"begin_again": ""})
    assert client.get(CODE_PAGE).status_code == 200


def test_an_invitation_is_for_one_address(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "invitation"
    link = who_may_sign_up.link("new@example.org")
    client.post(link[link.index("/accounts") :], NEW)
    assert CHANGE not in html_of(client.get(CODE_PAGE))
