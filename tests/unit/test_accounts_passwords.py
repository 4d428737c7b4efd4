"""Which new passwords are accepted on the pages that ask for one, and the password that is typed again."""

from __future__ import annotations

import re
import secrets
import threading
from typing import Any

import pytest
from django.contrib.auth.hashers import make_password
from django.contrib.auth.password_validation import validate_password
from django.core import mail
from django.core.exceptions import ValidationError
from django.test import Client

from accounts.mail import outbox
from accounts.models import Session, User
from accounts.passwords import hashing, validators
from tests.factories import PASSWORD, PersonFactory
from tests.pages import (
    NEW_PASSWORD,
    SIGN_UP,
    ask_for_link,
    html_of,
    is_signed_in,
    mailed_path,
    sign_in,
    text_of,
    with_session,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open")]

CHANGE = "/accounts/password/change"


@pytest.fixture
def owner(settings: Any) -> User:
    settings.SERVICE_NAME = "Harbour Sign-In"
    return User(email="alice.liddell@wonderland.example", nickname="Alice Ægir")


def codes_of(password: str, user: User | None) -> set[str]:
    try:
        validate_password(password, user)
    except ValidationError as refused:
        return {str(error.code) for error in refused.error_list}
    return set()


def without(code: str, passwords: list[str], user: User) -> list[str]:
    """Those that are not refused with the code."""
    return [password for password in passwords if code not in codes_of(password, user)]


def test_long_passwords_of_any_kind_are_good(owner: User) -> None:
    passwords = [
        "correct horse battery staple",
        "李小龍喜歡在河邊看書並且喝茶嗎",
        "the sign-in of my harbour is green",
        "alice and seven other people",
        "!#%&/()=?*^~<>|",
        "x" + "Zq7" * 3 + "vorlage",
        "tr0ub4dor&3 tr0mb0ne",
        *(secrets.token_urlsafe(12) for _ in range(100)),  # what a password manager makes
    ]
    refused = {password: codes_of(password, user) for user in (owner, None) for password in passwords}
    assert {password: codes for password, codes in refused.items() if codes} == {}


def test_fourteen_characters_are_too_few(owner: User) -> None:
    assert codes_of("only 14 lettrs", owner) == {"password_too_short"}
    assert codes_of("only 15 letters", owner) == set()


def test_up_to_1024_characters_are_accepted(owner: User) -> None:
    longest = "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz") for _ in range(1024))
    assert codes_of(longest, owner) == set()
    assert without("password_too_long", [longest + "k", "a" * 100_000, "ab" * 50_000], owner) == []


def test_a_weak_password_is_refused(owner: User) -> None:
    longer = ["passwordpassword", "password12345678", "12345password67890", "PASSWORD!!!!!!!!!!"]
    patterns = ["aaaaaaaaaaaaaaaa", "abcabcabcabcabcabc"]
    patterns += ["abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlk", "1234567890123456789", "qwertzuiopasdfghjkl"]
    patterns += ["ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯ", "27182818284590452353"]
    names = ["harboursignin2026", "Harbour Sign-In 1!", "alice.liddell@wonderland.example"]
    names += ["AliceLiddell1865", "liddell-wonderland", "alice Ægir harbour"]
    phrases = ["correcthorsebatterystaple", "CorrectHorseBatteryStaple1", "iloveyouforever!"]
    phrases += ["manchesterunited1", "1qaz2wsx3edc4rfv", "m4nch3st3run1t3d"]
    assert [each for each in (*longer, *patterns, *names, *phrases) if not codes_of(each, owner)] == []


def test_the_own_data_count_as_common_words_in_an_estimate(owner: User) -> None:
    assert codes_of("wonderlandliddellzz", None) == set()
    assert "password_is_guessed" in codes_of("wonderlandliddellzz", owner)


def test_no_password_makes_its_estimate_take_long(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time grows with the length, and with the signs that may stand for letters: without bounds, to minutes."""
    estimated: list[str] = []
    monkeypatch.setattr(validators, "zxcvbn", lambda text, **_: estimated.append(text) or {"guesses": 1})
    for signs in ("1|7+", "1|7+!([{<$5", "({[<", "$5|1"):
        for word in ("correcthorse", "password", signs[::-1]):
            codes_of("".join(map("".join, zip(signs * 100, word * 100, strict=False)))[:1024], owner)
    assert len(estimated) == 12
    assert max(map(len, estimated)) <= 48
    assert max(len(set(text) & set("@({[<!|$+/%")) for text in estimated) <= 2


@pytest.mark.parametrize("password", ["", " ", "a", "\ud800" * 20, "\x00" * 20])
def test_no_text_breaks_the_rules(owner: User, password: str) -> None:
    assert codes_of(password, owner)


def test_an_old_password_that_is_too_short_now_still_signs_in(client: Client) -> None:
    person = PersonFactory(password=make_password("twelve chars"))
    answer = client.post("/accounts/sign-in", {"login": person.email, "password": "twelve chars"})
    assert answer["Location"] == "/accounts/profile"


# The pages -----------------------------------------------------------------------------------------------------------


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
    """Password managers learn whose password it is."""
    browser, path = page
    text = html_of(browser.get(path))
    rules = re.search(r'<ul\s[^>]*id="id_password1_helptext".*?</ul>', text, re.S)
    assert rules
    assert rules[0].count("<li") == 3
    assert "At least 15 characters" in rules[0]
    assert 'aria-describedby="id_password1_helptext"' in text
    assert "js/password.js" in text
    assert text.count("At least 15 characters") == 1
    [name] = re.findall(r"<input[^>]*autocomplete=\"username\"[^>]*>", text)
    assert 'type="email"' in name
    assert ("hidden" in name) == (path != SIGN_UP)


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


# The page of security, and the password that is typed again -----------------------------------------------------------


CONFIRM = "/accounts/confirm"


def change(browser: Client, present: str = PASSWORD, new: str = NEW_PASSWORD, again: str | None = None) -> Any:
    form = {"oldpassword": present, "password1": new, "password2": new if again is None else again}
    return browser.post(CHANGE, form)


def test_a_new_password_replaces_the_old_one_ends_other_sessions_and_is_told(client: Client, alice: User) -> None:
    client.force_login(alice)  # so there is no row in the table of addresses
    elsewhere, key = with_session(alice), client.session.session_key
    assert change(client)["Location"] == "/accounts/security"
    assert client.session.session_key != key
    assert is_signed_in(client)
    assert not is_signed_in(elsewhere)
    assert Session.objects.filter(user=alice).count() == 1
    assert outbox.deliver_next()
    assert mail.outbox[-1].to == [alice.email]
    assert mail.outbox[-1].subject.endswith("was changed")
    assert NEW_PASSWORD not in mail.outbox[-1].body
    assert sign_in(Client(), alice.email).status_code == 200
    assert sign_in(Client(), alice.email, NEW_PASSWORD).status_code == 302


@pytest.mark.parametrize(("new", "again"), [("short", None), (NEW_PASSWORD, "something else"), ("", None)])
def test_a_poor_new_password_changes_nothing_and_costs_no_attempt(
    browser: Client, alice: User, settings: Any, new: str, again: str | None
) -> None:
    settings.RATES = {"sign_in_account": "1/15m"}
    for _ in range(3):
        assert change(browser, "wrong", new, again).context["form"].errors
    assert change(browser).status_code == 302


def test_a_stolen_session_is_not_enough_and_each_guess_counts_as_a_failed_sign_in_of_this_browser(
    browser: Client, alice: User, settings: Any
) -> None:
    settings.RATES = {"sign_in_account": "3/15m"}
    for _ in range(3):
        assert change(browser, "a guess of Mallory").context["form"].errors["oldpassword"]
    refused = change(browser)
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert browser.post(CONFIRM, {"password": PASSWORD}).status_code == 429
    assert sign_in(Client(), alice.email).status_code == 302, "the owner signs in elsewhere"


def test_somebody_without_a_password_gets_one_by_mail(client: Client) -> None:
    person = PersonFactory(password="!unusable")
    client.force_login(person)
    assert change(client, "", NEW_PASSWORD)["Location"] == "/accounts/password/reset"
    assert client.get(CHANGE)["Location"] == "/accounts/password/reset"
    assert b"Set a password by mail" in client.get("/accounts/security").content
    assert client.get(CONFIRM).status_code in (302, 403)
    person.refresh_from_db()
    assert not person.has_usable_password()


@pytest.mark.parametrize("path", [CHANGE, CONFIRM])
def test_a_password_that_must_wait_can_be_sent_again(browser: Client, path: str, monkeypatch: Any) -> None:
    form = {"password": PASSWORD, "oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        busy = browser.post(path, form)
    assert busy.status_code == 503
    assert int(busy["Retry-After"]) > 0
    assert browser.post(path, form).status_code == 302


def test_the_password_is_typed_again_and_the_way_goes_on(browser: Client) -> None:
    path = f"{CONFIRM}?next=/accounts/security"
    assert browser.post(path, {"password": "wrong"}).context["form"].errors["password"]
    assert browser.post(path, {"password": PASSWORD})["Location"] == "/accounts/security"
    away = browser.post(f"{CONFIRM}?next=https://mallory.example/", {"password": PASSWORD})
    assert away["Location"] == "/accounts/profile"


def test_an_error_of_allauth_is_in_our_words(browser: Client) -> None:
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": "a different one"}
    sentences = {"de": "Geben Sie beide Male dasselbe Passwort ein.", "zh-hans": "两次输入的密码必须相同。"}
    for language, sentence in sentences.items():
        assert sentence in text_of(browser.post(CHANGE, form, headers={"accept-language": language}))
