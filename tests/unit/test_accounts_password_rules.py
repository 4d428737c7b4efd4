"""The rules of a new password on the three pages that ask for one."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from accounts.models import User
from tests.factories import PASSWORD
from tests.pages import SIGN_UP, ask_for_link, mailed_path, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]

CHANGE = "/accounts/password/change"


@pytest.fixture(params=["sign-up", "reset", "change"])
def page(request: pytest.FixtureRequest, client: Client, alice: User) -> tuple[Client, str]:
    """A browser, and the path of a form for a new password."""
    if request.param == "sign-up":
        return client, SIGN_UP
    if request.param == "change":
        sign_in(client, alice.email)
        return client, CHANGE
    ask_for_link(client, alice.email)
    return client, client.get(mailed_path())["Location"]


def test_the_rules_are_in_view_and_describe_the_field(page: tuple[Client, str]) -> None:
    browser, path = page
    text = browser.get(path).content.decode()
    rules = re.search(r'<ul\s[^>]*id="id_password1_helptext".*?</ul>', text, re.S)
    assert rules
    assert rules[0].count("<li") == 3
    assert "At least 15 characters" in rules[0]
    assert 'aria-describedby="id_password1_helptext"' in text
    assert "js/password.js" in text
    assert text.count("At least 15 characters") == 1


@pytest.mark.parametrize("password", ["alice", "passwordpassword", "aaaa", "alice alice alice"])
def test_a_password_that_breaks_several_rules_gets_one_sentence(page: tuple[Client, str], password: str) -> None:
    browser, path = page
    typed = {"email": "alice.new@example.org", "nickname": "Alice", "oldpassword": PASSWORD}
    answer = browser.post(path, typed | {"password1": password, "password2": password})
    assert len(answer.context["form"].errors["password1"]) == 1


def test_a_nickname_that_is_typed_with_it_is_no_password(client: Client) -> None:
    typed = {"email": "nia@example.org", "password1": "Wanderer Nordwind"}
    answer = client.post(SIGN_UP, typed | {"nickname": "Nordwind Wanderer"})
    assert "password1" in answer.context["form"].errors
    assert client.post(SIGN_UP, typed | {"nickname": "Nia"}).status_code == 302


def test_password_managers_learn_whose_password_it_is(page: tuple[Client, str]) -> None:
    browser, path = page
    fields = re.findall(r"<input[^>]*autocomplete=\"username\"[^>]*>", browser.get(path).content.decode())
    assert len(fields) == 1
    assert 'type="email"' in fields[0]
    assert ("hidden" in fields[0]) == (path != SIGN_UP)
