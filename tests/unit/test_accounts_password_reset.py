"""A new password by mail, and confirming an address with a code."""

from __future__ import annotations

import time
from typing import Any

import pytest
import time_machine
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client

from accounts.models import Session, User
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.pages import (
    AUTHORIZE,
    ask_for_link,
    choose,
    deliver_all,
    mailed_code,
    mailed_path,
    sign_in,
    type_code,
    with_session,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def bob() -> Any:
    """Whose address is not confirmed."""
    return PersonFactory(nickname="Bob", email_verified_at=None)


def assert_is_confirmed(person: User) -> None:
    person.refresh_from_db()
    assert person.email_verified_at is not None
    rows = EmailAddress.objects.filter(user=person).values_list("email", "primary", "verified")
    assert list(rows) == [(person.email, True, True)]


def test_the_link_leads_to_auth_url_whatever_host_was_named(client: Client, alice: User, settings: Any) -> None:
    settings.AUTH_URL = "http://sign-in.example"
    settings.ALLOWED_HOSTS = ["mallory.example", "sign-in.example"]
    asking = ("/accounts/password/reset", {"email": alice.email})
    assert client.post(*asking, headers={"host": "mallory.example"}).status_code == 404
    assert not mail.outbox
    client.post(*asking, headers={"host": "sign-in.example", "x-forwarded-host": "mallory.example"})
    assert "http://sign-in.example/accounts/password/reset/" in mail.outbox[0].body
    assert "mallory" not in mail.outbox[0].body


def test_nobody_learns_whether_an_account_exists(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"reset_mail": "5/h"}
    emails = [alice.email, "nobody@example.com", PersonFactory(is_active=False).email, *[alice.email] * 7]
    assert {ask_for_link(client, email)["Location"] for email in emails} == {"/accounts/password/reset/sent"}
    assert [message.to for message in mail.outbox] == [[email] for email in emails[:7]], "nor that no more are sent"
    bodies = [str(message.body) for message in mail.outbox[:4]]
    assert ["no account" in body for body in bodies] == [False, True, True, False]
    assert ["/accounts/password/reset" in body for body in bodies] == [True, False, False, True]


def test_a_link_works_once_leaves_its_key_nowhere_and_confirms_the_address(client: Client, bob: User) -> None:
    ask_for_link(client, bob.email)
    path = mailed_path()
    for seconds, status in ((3599, 302), (3602, 200)):
        with time_machine.travel(time.time() + seconds):
            assert Client().get(path).status_code == status
    assert client.get(path)["Location"].endswith("-set-password")  # an address that a page can pass on
    assert path.partition("-")[2] not in str(list(Session.objects.values()))
    assert choose(client, path)["Location"] == "/accounts/profile"
    assert_is_confirmed(bob)
    assert b"This link no longer works" in Client().get(path).content
    assert deliver_all() == 1
    assert (mail.outbox[-1].to, mail.outbox[-1].subject.endswith("was changed")) == ([bob.email], True)


def test_no_link_can_break_the_page(client: Client, alice: User) -> None:
    tails = ["x-y", "0-0", "%00-%00", "z" * 40 + "-set-password", f"{alice.pk.hex}-set-password", f"{alice.pk.hex}-x"]
    assert {client.get(f"/accounts/password/reset/{tail}").status_code for tail in tails} <= {200, 404}


def test_somebody_elses_link_signs_nobody_out_by_being_opened(client: Client, alice: User) -> None:
    mallory = PersonFactory(nickname="Mallory")
    ask_for_link(Client(), mallory.email)
    client.force_login(alice)
    client.get(mailed_path(), follow=True)
    assert client.get("/accounts/profile").context["person"]["email"] == alice.email
    choose(client, mailed_path())
    assert client.get("/accounts/profile").context["person"]["email"] == mallory.email
    assert sign_in(Client(), alice.email).status_code == 302


@contract("D8.leads-on")
def test_the_way_back_is_kept_in_this_browser_for_an_hour(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {}
    for seconds, end in ((3590, AUTHORIZE), (3601, "/accounts/profile")):
        ask_for_link(browser := Client(), alice.email, next=AUTHORIZE)
        with time_machine.travel(time.time() + seconds):
            assert sign_in(browser, alice.email)["Location"] == end, "the old password comes back to mind"
    for browser, way, end in (
        (client, AUTHORIZE, AUTHORIZE),
        (with_session(PersonFactory()), AUTHORIZE, AUTHORIZE),
        (Client(), "https://mallory.example/", "/accounts/profile"),
    ):
        ask_for_link(browser, alice.email, next=way)
        assert choose(browser, mailed_path())["Location"] == end
    ask_for_link(Client(), alice.email, next=AUTHORIZE)
    assert choose(Client(), mailed_path())["Location"] == "/accounts/profile"


def test_an_unconfirmed_address_is_confirmed_with_a_code_and_the_way_back_kept(client: Client, bob: User) -> None:
    assert sign_in(client, bob.email, next=AUTHORIZE)["Location"].startswith("/accounts/confirm-email?next=")
    assert client.get("/accounts/profile").status_code == 302
    for nonsense in ("\x00", "x" * 3000):
        assert type_code(client, nonsense).status_code == 200
    assert type_code(client, mailed_code())["Location"] == AUTHORIZE
    assert_is_confirmed(bob)


def test_three_wrong_codes_end_the_attempt_but_not_the_way_back(client: Client, bob: User, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"confirm_email": None}
    sign_in(client, bob.email, next=AUTHORIZE)
    code = mailed_code()
    assert [type_code(client, "WRONG").status_code for _ in range(3)] == [200, 200, 302]
    assert type_code(client, code)["Location"].startswith("/accounts/sign-in?next=")
    sign_in(client, bob.email)
    assert type_code(client, mailed_code())["Location"] == AUTHORIZE


def test_a_code_works_only_in_the_browser_that_asked(client: Client, alice: User, bob: User) -> None:
    sign_in(client, bob.email)
    stranger = Client()
    assert type_code(stranger, mailed_code())["Location"] == "/accounts/sign-in"
    assert stranger.get("/accounts/confirm-email")["Location"] == "/accounts/sign-in"
    stranger.force_login(alice)
    assert stranger.get("/accounts/confirm-email", follow=True).redirect_chain[-1] == ("/accounts/profile", 302)


def test_somebody_signed_in_can_ask_for_a_code_and_for_another(client: Client, bob: User, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"confirm_email": None}
    client.force_login(bob)
    assert client.get("/accounts/confirm-email/send")["Location"] == "/accounts/profile"
    assert not mail.outbox
    assert client.post("/accounts/confirm-email/send")["Location"].startswith("/accounts/confirm-email")
    client.post("/accounts/confirm-email", {"action": "resend"})
    assert len(mail.outbox) == 2
    assert type_code(client, mailed_code())["Location"] == "/accounts/profile"
    assert_is_confirmed(bob)


def test_an_operators_account_signs_in_without_a_code(client: Client) -> None:
    root = User.objects.create_superuser("root@example.com", PASSWORD, nickname="Root")
    EmailAddress.objects.create(user=root, email="old@example.com", primary=True, verified=False)
    assert sign_in(client, root.email)["Location"] == "/accounts/profile"
    assert not mail.outbox
    assert_is_confirmed(root)
