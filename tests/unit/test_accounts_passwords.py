"""Which new passwords are accepted, the password that is typed again, and what a hash costs."""

from __future__ import annotations

import re
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.contrib.auth.password_validation import validate_password
from django.core import mail
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.crypto import get_random_string

from accounts import return_path
from accounts.models import User
from accounts.passwords import hashing, validators
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.grants import pending_path
from tests.pages import (
    NEW_PASSWORD,
    SIGN_UP,
    ask_for_link,
    deliver_all,
    html_of,
    is_signed_in,
    mailed_path,
    sign_in,
    text_of,
    with_session,
)
from tests.server import wait_until

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
    passwords += ["only 15 letters", "".join(secrets.choice("abcdefghijkmnpqrstuvwxyz") for _ in range(1024))]
    refused = {password: codes_of(password, user) for user in (owner, None) for password in passwords}
    assert {password: codes for password, codes in refused.items() if codes} == {}


def test_a_weak_password_is_refused(owner: User) -> None:
    longer = ["passwordpassword", "password12345678", "12345password67890", "PASSWORD!!!!!!!!!!"]
    patterns = ["aaaaaaaaaaaaaaaa", "abcabcabcabcabcabc"]
    patterns += ["abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlk", "1234567890123456789", "qwertzuiopasdfghjkl"]
    patterns += ["ＡＢＣＤＥＦＧＨＩＪＫＬＭＮＯ", "27182818284590452353"]
    names = ["harboursignin2026", "Harbour Sign-In 1!", "alice.liddell@wonderland.example"]
    names += ["AliceLiddell1865", "liddell-wonderland", "alice Ægir harbour"]
    phrases = ["correcthorsebatterystaple", "CorrectHorseBatteryStaple1", "iloveyouforever!"]
    phrases += ["manchesterunited1", "1qaz2wsx3edc4rfv", "m4nch3st3run1t3d"]
    odd = ["", " ", "a", "\ud800" * 20, "\x00" * 20]
    assert [each for each in (*longer, *patterns, *names, *phrases, *odd) if not codes_of(each, owner)] == []
    assert codes_of("only 14 lettrs", owner) == {"password_too_short"}
    for long in ("xq7" * 342, "a" * 100_000, "ab" * 50_000):
        assert "password_too_long" in codes_of(long, owner)
    assert codes_of("wonderlandliddellzz", None) == set()
    assert "password_is_guessed" in codes_of("wonderlandliddellzz", owner), "the own data are common words"


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


def test_the_rules_are_in_view_and_what_breaks_several_gets_one_sentence(page: tuple[Client, str]) -> None:
    browser, path = page
    text = html_of(browser.get(path))
    [rules] = re.findall(r'<ul\s[^>]*id="id_password1_helptext".*?</ul>', text, re.S)
    assert (rules.count("<li"), rules.count("At least 15 characters")) == (3, 1)
    assert 'aria-describedby="id_password1_helptext"' in text
    assert "js/password.js" in text
    # Password managers learn whose password it is.
    [name] = re.findall(r'<input type="email"[^>]*autocomplete="username"[^>]*>', text)
    assert ("hidden" in name) == (path != SIGN_UP)
    typed = {"email": "alice.new@example.org", "nickname": "Alice", "oldpassword": PASSWORD}
    answer = browser.post(path, typed | dict.fromkeys(("password1", "password2"), "alice"))
    assert len(answer.context["form"].errors["password1"]) == 1


def test_a_nickname_that_is_typed_with_it_is_no_password(client: Client) -> None:
    typed = {"email": "nia@example.org", "password1": "Wanderer Nordwind"}
    answer = client.post(SIGN_UP, typed | {"nickname": "Nordwind Wanderer"})
    assert "password1" in answer.context["form"].errors
    assert client.post(SIGN_UP, typed | {"nickname": "Nia"}).status_code == 302


CONFIRM = "/accounts/confirm"


def change(browser: Client, present: str = PASSWORD, new: str = NEW_PASSWORD, again: str | None = None) -> Any:
    form = {"oldpassword": present, "password1": new, "password2": new if again is None else again}
    return browser.post(CHANGE, form)


def test_a_new_password_replaces_the_old_one_ends_other_sessions_and_is_told(client: Client, alice: User) -> None:
    client.force_login(alice)  # so there is no row in the table of addresses
    elsewhere, key = with_session(alice), client.session.session_key
    assert change(client)["Location"] == "/accounts/security"
    assert client.session.session_key != key
    assert [is_signed_in(each) for each in (client, elsewhere)] == [True, False]
    assert deliver_all() == 1
    assert (mail.outbox[-1].to, mail.outbox[-1].subject.endswith("was changed")) == ([alice.email], True)
    assert [sign_in(Client(), alice.email, each).status_code for each in (PASSWORD, NEW_PASSWORD)] == [200, 302]


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
    for refused in (change(browser), browser.post(CONFIRM, {"password": PASSWORD})):
        assert (refused.status_code, int(refused["Retry-After"]) > 0) == (429, True)
    assert sign_in(Client(), alice.email).status_code == 302, "the owner signs in elsewhere"


def test_the_password_is_typed_again_and_the_way_goes_on(browser: Client) -> None:
    path = f"{CONFIRM}?next=/accounts/security"
    assert browser.post(path, {"password": "wrong"}).context["form"].errors["password"]
    assert browser.post(path, {"password": PASSWORD})["Location"] == "/accounts/security"
    away = browser.post(f"{CONFIRM}?next=https://mallory.example/", {"password": PASSWORD})
    assert away["Location"] == "/accounts/profile"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows by one with each hash that is made."""
    made: list[str] = []
    for name in ("encode", "verify"):
        real = getattr(Argon2PasswordHasher, name)

        def counted(self: Any, *values: Any, real: Any = real, name: str = name) -> Any:
            made.append(name)
            return real(self, *values)

        monkeypatch.setattr(Argon2PasswordHasher, name, counted)
    return made


@contract("D15.hashing")
def test_one_thread_hashes_and_half_of_the_threads_wait_at_most() -> None:
    begun: list[str] = []
    go = threading.Event()

    def hash_slowly(password: str) -> bool:
        begun.append(password)
        return go.wait(60)

    places = settings.WEB_THREADS // 2
    with ThreadPoolExecutor(places) as threads:
        hashed = [threads.submit(hashing.in_turn, hash_slowly, PASSWORD) for _ in range(places)]
        wait_until(lambda: bool(begun) and not hashing.places._value)  # type: ignore[attr-defined]
        with pytest.raises(hashing.HashingBusy):
            hashing.PasswordHasher().encode(PASSWORD, "a" * 22)
        assert begun == [PASSWORD]
        go.set()
    assert all(each.result() for each in hashed), "those that could wait were hashed"


@contract("D15.hashing")
def test_a_sign_in_that_is_refused_keeps_what_was_typed_and_counts_as_no_failure(
    client: Client, alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch, hashed: list[str]
) -> None:
    settings.RATES = {"sign_in_account": "1/15m", "sign_in_address": "1/15m"}
    there = pending_path()
    emails = (alice.email, "nobody@example.com", PersonFactory(is_active=False).email)
    hashed.clear()
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        for email in emails:
            response = sign_in(client, email, query=return_path.url_of("", there), next=there)
            assert (response.status_code, int(response["Retry-After"]) >= 1) == (503, True)
            assert "Too many people are signing in at this moment." in text_of(response)
            kept = response.context["form"]["login"].value(), response.context["return_to"]
            assert kept == (email, there)
            assert PASSWORD.encode() not in response.content
            assert b"autofocus" in response.content.partition(b'type="password"')[2].partition(b">")[0]
    assert hashed == []
    assert sign_in(client, alice.email).status_code == 302


@contract("D15.hashing")
def test_a_form_that_must_wait_can_be_sent_again(page: tuple[Client, str], monkeypatch: pytest.MonkeyPatch) -> None:
    browser, path = page
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    form |= {"email": "new@example.org", "nickname": "Nia"}
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        busy = browser.post(path, form)
    assert (busy.status_code, int(busy["Retry-After"]) > 0) == (503, True)
    assert NEW_PASSWORD not in html_of(busy)
    assert path != SIGN_UP or 'value="Nia"' in html_of(busy)
    assert not User.objects.filter(email="new@example.org").exists()
    assert browser.post(path, form).status_code == 302


@pytest.fixture
def bob() -> Any:
    return PersonFactory(nickname="Bob", password=Argon2PasswordHasher().encode(PASSWORD, get_random_string(22)))


def stored(person: User) -> str:
    return User.objects.values_list("password", flat=True).get(pk=person.pk)


@contract("D15.passwords")
@pytest.mark.usefixtures("real_passwords")
def test_a_sign_in_upgrades_an_old_hash_and_ends_no_session(client: Client, bob: User) -> None:
    elsewhere, before = with_session(bob), stored(bob)
    assert sign_in(client, bob.email, "wrong password").status_code == 200
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "upgraded", Mock(side_effect=hashing.HashingBusy))
        assert sign_in(Client(), bob.email).status_code == 302
    assert stored(bob) == before, "what would have to wait is left to the next sign-in"
    assert sign_in(client, bob.email).status_code == 302
    assert stored(bob).startswith("argon2$argon2id$v=19$m=19456,t=2,p=1$")
    assert [is_signed_in(browser) for browser in (client, elsewhere)] == [True, True]


def test_an_upgrade_does_not_undo_a_password_that_was_set_meanwhile(bob: User) -> None:
    meanwhile = User.objects.get(pk=bob.pk)
    meanwhile.set_password(NEW_PASSWORD)
    meanwhile.save()
    assert bob.check_password(PASSWORD)
    assert stored(bob) == meanwhile.password


@contract("D15.unknown")
def test_a_sign_in_costs_one_hash_and_the_same_statements_whoever_it_names(client: Client, hashed: list[str]) -> None:
    signed_in_before, kinds = PersonFactory(), []
    sign_in(Client(), signed_in_before.email)
    facts = ({}, {"password": "!" + "a" * 40}, {"is_active": False}, {"unlocks": 1})
    for person in (PersonFactory.build(), signed_in_before, *(PersonFactory(**each) for each in facts)):
        hashed.clear()
        with CaptureQueriesContext(connection) as statements:
            assert sign_in(client, person.email, "wrong password").status_code == 200
        found = [each["sql"] for each in statements.captured_queries if User._meta.db_table in each["sql"]]
        assert (len(hashed), [sql.split()[0] for sql in found if "INSERT" not in sql]) == (1, ["SELECT"] * 3), (
            "the limit is looked at, the password checked, the failure counted"
        )
        kinds.append([each["sql"].split()[0] for each in statements.captured_queries])
    assert all(each == kinds[0] for each in kinds), "the record in the activity log is written alike"
