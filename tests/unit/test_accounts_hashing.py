"""Passwords: what a hash costs, how many are made at once, and what people see when that is too many."""

from __future__ import annotations

import re
import threading
from typing import Any
from unittest.mock import Mock

import pytest
from argon2.exceptions import HashingError
from django.conf import settings
from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.signals import template_rendered
from django.test.utils import CaptureQueriesContext
from django.utils.crypto import get_random_string

from accounts import return_path
from accounts.models import User
from accounts.passwords import hashing
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.grants import pending_path
from tests.pages import NEW_PASSWORD, ask_for_link, mailed_path, sign_in, text_of, with_session
from tests.peers import wait_until

pytestmark = pytest.mark.django_db

OF_TODAY = "argon2$argon2id$v=19$m=19456,t=2,p=1$"


@pytest.fixture(autouse=True)
def real(real_passwords: None) -> None:
    """Hashes are those of production."""


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


# One at a time --------------------------------------------------------------------------------------------------------


@contract("D15.hashing")
def test_hashes_are_made_one_at_a_time_and_half_of_the_threads_wait_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, go, outcomes = threading.Event(), threading.Event(), []
    real = Argon2PasswordHasher.encode

    def observed(*values: Any) -> str:
        assert not inside.is_set(), "two at once"
        inside.set()
        assert go.wait(60)
        encoded = real(*values)
        inside.clear()
        return encoded

    def hash_one() -> None:
        outcomes.append(hashing.PasswordHasher().encode(PASSWORD, "a" * 22).startswith(OF_TODAY))

    monkeypatch.setattr(Argon2PasswordHasher, "encode", observed)
    threads = [threading.Thread(target=hash_one) for _ in range(settings.WEB_THREADS // 2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: not hashing.places._value)  # type: ignore[attr-defined]
    with pytest.raises(hashing.HashingBusy):
        hash_one()
    go.set()
    for thread in threads:
        thread.join()
    assert outcomes == [True] * len(threads), "those that could wait were hashed"


def test_a_hash_that_fails_gives_its_turn_back() -> None:
    with pytest.raises(HashingError, match="Salt is too short"):
        hashing.PasswordHasher().encode(PASSWORD, "short")
    assert hashing.PasswordHasher().encode(PASSWORD, "a" * 22).startswith(OF_TODAY)


# What people see ------------------------------------------------------------------------------------------------------


@contract("D15.hashing")
def test_a_sign_in_that_is_refused_keeps_what_was_typed_and_counts_as_no_failure(
    client: Client, alice: User, settings: Any, monkeypatch: pytest.MonkeyPatch, hashed: list[str]
) -> None:
    settings.RATES = {"sign_in_account": "1/15m", "sign_in_address": "1/15m"}
    there = pending_path()
    query = return_path.url_of("", there)
    client.defaults["HTTP_ACCEPT"] = "application/json"
    emails = (alice.email, "nobody@example.com", PersonFactory(is_active=False).email)
    hashed.clear()
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        for email in emails:
            response = sign_in(client, email, query=query, next=there)
            assert response.status_code == 503
            assert int(response["Retry-After"]) >= 1
            assert response["Content-Type"].startswith("text/html")
            said = text_of(response)
            assert "Too many people are signing in at this moment." in said
            assert "Sign in to continue to Photo Printer" in said
            assert response.context["form"]["login"].value() == email
            assert PASSWORD.encode() not in response.content
            assert response.context["return_to"] == there
            assert b"autofocus" in response.content.partition(b'type="password"')[2].partition(b">")[0]
    assert hashed == []
    assert sign_in(client, alice.email).status_code == 302


@contract("D15.hashing")
def test_a_new_password_that_is_refused_can_be_sent_again(
    client: Client, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_for_link(client, alice.email)
    address = client.get(mailed_path(), follow=True).context["action_url"]
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    with monkeypatch.context() as patch:
        patch.setattr(hashing, "places", threading.Semaphore(0))
        response = client.post(address, form)
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert NEW_PASSWORD.encode() not in response.content
    assert client.post(address, form)["Location"] == "/accounts/profile"


# Hashes of an earlier release -----------------------------------------------------------------------------------------


@pytest.fixture
def bob() -> Any:
    """Whose password was hashed with other parameters."""
    return PersonFactory(nickname="Bob", password=Argon2PasswordHasher().encode(PASSWORD, get_random_string(22)))


def stored(person: User) -> str:
    return User.objects.values_list("password", flat=True).get(pk=person.pk)


@contract("D15.passwords")
def test_a_sign_in_upgrades_an_old_hash_and_ends_no_session(client: Client, bob: User) -> None:
    elsewhere, before = with_session(bob), stored(bob)
    assert not before.startswith(OF_TODAY)
    assert sign_in(client, bob.email, "wrong password").status_code == 200
    assert stored(bob) == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "upgraded", Mock(side_effect=hashing.HashingBusy))
        assert sign_in(Client(), bob.email).status_code == 302
    assert stored(bob) == before, "what would have to wait is left to the next sign-in"
    assert sign_in(client, bob.email).status_code == 302
    assert stored(bob).startswith(OF_TODAY)
    assert [browser.get("/accounts/profile").status_code for browser in (client, elsewhere)] == [200, 200]
    assert sign_in(Client(), bob.email).status_code == 302
    assert sign_in(Client(), bob.email, "wrong password").status_code == 200


def test_an_upgrade_does_not_undo_a_password_that_was_set_meanwhile(bob: User) -> None:
    meanwhile = User.objects.get(pk=bob.pk)
    meanwhile.set_password(NEW_PASSWORD)
    meanwhile.save()
    assert bob.check_password(PASSWORD)
    assert stored(bob) == meanwhile.password


# Nobody learns who has an account (the times themselves: `make fuzz`) -------------------------------------------------


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


def _without_values(statement: str) -> str:
    """The mail is a row while it is sent: its key, content, kind and times differ."""
    return re.sub(r"VALUES .*|[0-9a-f-]{32,36}|'[^']*'", "…", statement) if "outgoingmail" in statement else statement


@contract("D15.unknown")
def test_a_reset_takes_the_same_steps_whoever_it_names(client: Client, alice: User) -> None:
    signed_in_before = PersonFactory()
    sign_in(Client(), signed_in_before.email)
    emails = [alice.email, signed_in_before.email, PersonFactory(is_active=False).email, PersonFactory.build().email]
    steps: list[list[str]] = []

    def note(template: Any, **_: object) -> None:
        steps[-1].append(template.name)

    template_rendered.connect(note)
    try:
        for email in emails:
            steps.append([])
            with CaptureQueriesContext(connection) as statements:
                assert ask_for_link(client, email).status_code == 302
            steps[-1] += [_without_values(statement["sql"].replace(email, "…")) for statement in statements]
    finally:
        template_rendered.disconnect(note)
    assert [message.to for message in mail.outbox] == [[email] for email in emails]
    assert steps[1:] == steps[:-1]
    assert sum(step.startswith("SELECT") for step in steps[0]) == 2, "the account, and the unsent mails of the address"
