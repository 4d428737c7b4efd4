"""Sessions: filed under a digest, read with the person in one statement, and worth nothing in a dump."""

from __future__ import annotations

import hashlib
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.hashers import make_password
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import Session, User
from accounts.sessions.credential_changes import end_credentials
from accounts.sessions.store import SessionStore, digest
from tests.factories import PersonFactory
from tests.pages import is_signed_in, sign_in, with_session

pytestmark = pytest.mark.django_db


def key_of(browser: Client) -> str:
    return browser.cookies[settings.SESSION_COOKIE_NAME].value


def table() -> str:
    """Everything the table of sessions holds, as a dump shows it."""
    return json.dumps(list(Session.objects.values()), default=str)


def test_a_session_is_filed_under_the_digest_of_its_key(browser: Client, alice: User) -> None:
    row = Session.objects.get()
    assert row.session_key == hashlib.sha256(key_of(browser).encode()).hexdigest()
    assert row.user == alice


def test_the_table_never_holds_a_key(browser: Client) -> None:
    browser.get("/accounts/profile")
    assert key_of(browser) not in table()


def test_what_a_session_holds_can_not_be_read_from_the_table() -> None:
    store = SessionStore()
    store["secret"] = "a code that was mailed"
    store.create()
    store.save()
    row = Session.objects.get()
    assert SessionStore(row.session_key).decode(row.session_data) == {}
    assert SessionStore(store.session_key).load() == {"secret": "a code that was mailed"}


def test_the_digest_from_a_dump_opens_no_session(browser: Client) -> None:
    mallory = Client()
    mallory.cookies[settings.SESSION_COOKIE_NAME] = digest(key_of(browser))
    assert not is_signed_in(mallory)


def test_session_and_person_are_read_in_one_statement(browser: Client, alice: User) -> None:
    with CaptureQueriesContext(connection) as statements:
        store = SessionStore(key_of(browser))
        assert store[SESSION_KEY] == str(alice.pk)
        assert store.person == alice
    assert len(statements) == 1


def test_saving_a_session_reads_nothing(browser: Client) -> None:
    session = browser.session
    session["anything"] = 1
    with CaptureQueriesContext(connection) as statements:
        session.save()
    assert "SELECT" not in {query["sql"].split()[0] for query in statements}


def test_a_key_that_mallory_made_up_becomes_nobodys_session(alice: User) -> None:
    victim, made_up = Client(), "a" * 32
    victim.cookies[settings.SESSION_COOKIE_NAME] = made_up
    assert sign_in(victim, alice.email).status_code == 302
    assert is_signed_in(victim)
    assert key_of(victim) != made_up
    assert SessionStore(made_up).load() == {}


def test_nothing_is_stored_under_a_key_that_mallory_made_up() -> None:
    store = SessionStore("a" * 32)
    assert store.get("anything") is None
    store["anything"] = 1
    store.save()
    assert store.session_key != "a" * 32
    assert Session.objects.get().session_key == digest(store.session_key or "")


def test_a_page_that_asks_who_is_signed_in_spends_one_statement_on_it(browser: Client) -> None:
    with CaptureQueriesContext(connection) as statements:
        browser.get("/accounts/sign-in")
    assert len(statements) == 1


def test_nobody_signed_in_costs_no_statement() -> None:
    with CaptureQueriesContext(connection) as statements:
        Client().get("/accounts/sign-in")
    assert len(statements) == 0


def test_looking_at_the_sign_in_page_stores_no_session() -> None:
    Client().get("/accounts/sign-in?next=/accounts/profile")
    assert not Session.objects.exists()


@pytest.mark.parametrize("cookie", ["", "x", "\\000", "é" * 40, "a" * 4000, "%00" * 20])
def test_a_malformed_session_cookie_signs_nobody_in(cookie: str) -> None:
    stranger = Client()
    stranger.cookies[settings.SESSION_COOKIE_NAME] = cookie
    assert stranger.get("/accounts/profile").status_code == 302


def test_a_deactivated_person_is_signed_out_at_once(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    assert not is_signed_in(browser)


def test_a_new_password_ends_sessions_begun_with_the_old_one(browser: Client, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(password=make_password("another battery staple"))
    assert not is_signed_in(browser)
    assert not Session.objects.exists()


def test_a_backend_that_is_no_longer_configured_signs_nobody_in(browser: Client, settings: Any) -> None:
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
    assert not is_signed_in(browser)


def test_a_session_remembers_when_it_began(browser: Client) -> None:
    began = timezone.now() - timedelta(days=3)
    Session.objects.update(created_at=began)
    session = browser.session
    session["anything"] = 1
    session.save()
    assert Session.objects.get().created_at == began
    session.cycle_key()
    assert Session.objects.get().created_at > began


def test_an_expired_session_is_over(browser: Client) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_signed_in(browser)


def test_a_retired_secret_key_keeps_people_signed_in(browser: Client, settings: Any) -> None:
    retired = settings.SECRET_KEY
    before = key_of(browser)
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = "a new key that is long enough to be one" * 2, [retired]
    assert is_signed_in(browser)
    assert key_of(browser) != before
    settings.SECRET_KEY_FALLBACKS = []
    assert is_signed_in(browser)


def test_a_secret_key_that_was_dropped_signs_everybody_out(browser: Client, settings: Any) -> None:
    settings.SECRET_KEY = "a new key that is long enough to be one" * 2
    assert not is_signed_in(browser)


def test_ending_credentials_spares_the_session_that_asked(browser: Client, alice: User) -> None:
    other = with_session(alice)
    end_credentials(alice, except_session=key_of(browser))
    assert [row.session_key for row in Session.objects.all()] == [digest(key_of(browser))]
    assert not is_signed_in(other)


def test_mallory_can_not_end_alices_sessions(browser: Client) -> None:
    end_credentials(PersonFactory(nickname="Mallory"))
    assert is_signed_in(browser)


def test_a_deleted_person_takes_the_sessions_along(browser: Client, alice: User) -> None:
    alice.delete()
    assert not Session.objects.exists()
    assert not is_signed_in(browser)


def test_expired_sessions_can_be_cleared(browser: Client) -> None:
    Session.objects.update(expire_date=timezone.now() - timedelta(days=1))
    SessionStore.clear_expired()
    assert not Session.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_asynchronous_half_of_the_store_uses_digests_too() -> None:
    async def use() -> None:
        store = SessionStore()
        await store.aset("kept", "here")
        await store.acreate()
        await store.asave()
        again = SessionStore(store.session_key)
        assert await again.aexists(store.session_key or "")
        assert await sync_to_async(table)() != "[]"
        assert (store.session_key or "") not in await sync_to_async(table)()
        await again.adelete()
        assert not await again.aexists(store.session_key or "")

    async_to_sync(use)()
