"""A new password by mail, and confirming an address with a code."""

from __future__ import annotations

import time
from smtplib import SMTPServerDisconnected
from typing import Any

import pytest
import time_machine
from allauth.account.models import EmailAddress
from django.core import mail
from django.test import Client

from accounts.mail import outbox
from accounts.models import Session, User
from accounts.sign_in import verification
from tests.contract_coverage import contract
from tests.factories import PASSWORD, PersonFactory
from tests.pages import (
    AUTHORIZE,
    NEW_PASSWORD,
    ask_for_link,
    choose,
    mailed_code,
    mailed_link,
    mailed_path,
    sign_in,
    type_code,
    with_session,
)

pytestmark = pytest.mark.django_db


# Asking ---------------------------------------------------------------------------------------------------------------


def test_the_link_leads_to_auth_url_whatever_host_was_named(client: Client, alice: User, settings: Any) -> None:
    settings.AUTH_URL = "http://sign-in.example"
    settings.ALLOWED_HOSTS = ["mallory.example", "sign-in.example"]
    asking = ("/accounts/password/reset", {"email": alice.email})
    assert client.post(*asking, headers={"host": "mallory.example"}).status_code == 404
    assert not mail.outbox
    client.post(*asking, headers={"host": "sign-in.example", "x-forwarded-host": "mallory.example"})
    assert mailed_link().startswith("http://sign-in.example/accounts/password/reset/")
    assert "mallory" not in mail.outbox[0].body


def test_the_mail_is_plain_and_says_what_it_is(client: Client, settings: Any) -> None:
    settings.SERVICE_NAME = "Tom & <Jerry>"
    alice = PersonFactory()
    ask_for_link(client, alice.email)
    message = mail.outbox[0]
    assert message.subject == "Choose a new password for Tom & <Jerry>"
    assert "Tom & <Jerry>" in message.body
    assert message.to == [alice.email]
    assert message.extra_headers["Auto-Submitted"] == "auto-generated"


def test_nobody_learns_whether_an_account_exists(client: Client, alice: User) -> None:
    known, unknown = ask_for_link(client, alice.email), ask_for_link(client, "nobody@example.com")
    assert known["Location"] == unknown["Location"] == "/accounts/password/reset/sent"
    assert client.get("/accounts/password/reset/sent").status_code == 200
    assert [message.to for message in mail.outbox] == [[alice.email], ["nobody@example.com"]]
    assert "/accounts/password/reset" not in mail.outbox[1].body


def test_a_deactivated_person_gets_no_link(client: Client) -> None:
    bob = PersonFactory(is_active=False)
    ask_for_link(client, bob.email)
    assert "no account" in mail.outbox[0].body


def test_the_link_goes_to_the_address_on_file(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email.upper())
    assert mail.outbox[0].to == [alice.email]


def test_a_stranger_can_not_flood_a_mailbox(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "10/15m"}
    pages = [ask_for_link(client, alice.email)["Location"] for _ in range(7)]
    assert set(pages) == {"/accounts/password/reset/sent"}
    assert len(mail.outbox) == 5


@pytest.mark.parametrize("value", ["\x00", "a\x00@example.com", "a\x1b@example.com", "", "x" * 3000, "no address"])
def test_no_address_can_break_the_form(client: Client, value: str) -> None:
    response = ask_for_link(client, value)
    assert response.status_code == 200
    assert response.context["form"].errors
    assert not mail.outbox


@pytest.mark.parametrize("failure", [ConnectionRefusedError(), SMTPServerDisconnected()])
def test_a_mail_server_that_is_away_is_no_500(
    client: Client, alice: User, failure: Exception, monkeypatch: Any
) -> None:
    def away(*_: object) -> None:
        raise failure

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", away)
    page = client.post("/accounts/password/reset", {"email": alice.email}, follow=True)
    assert page.status_code == 200
    assert b"The mail could not be sent yet" in page.content


# Choosing -------------------------------------------------------------------------------------------------------------


def test_a_new_password_signs_in_and_ends_the_old_one(client: Client, alice: User) -> None:
    elsewhere = with_session(alice)
    ask_for_link(client, alice.email)
    assert choose(client, mailed_path())["Location"] == "/accounts/profile"
    assert client.get("/accounts/profile").status_code == 200
    assert elsewhere.get("/accounts/profile").status_code == 302
    assert sign_in(Client(), alice.email).status_code == 200
    assert sign_in(Client(), alice.email, NEW_PASSWORD).status_code == 302


def test_the_person_is_told_that_the_password_was_changed(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email)
    choose(client, mailed_path())
    assert outbox.deliver_next()
    assert mail.outbox[-1].subject.endswith("was changed")
    assert mail.outbox[-1].to == [alice.email]


def test_a_link_works_once(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email)
    path = mailed_path()
    choose(client, path)
    page = Client().get(path)
    assert page.context["token_fail"]
    assert b"This link no longer works" in page.content


def test_a_link_is_good_for_an_hour(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email)
    with time_machine.travel(time.time() + 3599):
        assert Client().get(mailed_path()).status_code == 302
    with time_machine.travel(time.time() + 3602):
        assert Client().get(mailed_path()).context["token_fail"]


def test_the_key_is_in_no_address_that_a_page_can_pass_on_and_in_no_row(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email)
    key = mailed_path().partition("-")[2]
    page = client.get(mailed_path())
    assert page["Location"].endswith("-set-password")
    assert key not in str(list(Session.objects.values()))


@pytest.mark.parametrize(
    "tail", ["x-y", "0-0", "%00-%00", "a-%00", "z" * 40 + "-set-password", "{sub}-set-password", "{sub}-x"]
)
def test_no_link_can_break_the_page(client: Client, alice: User, tail: str) -> None:
    response = client.get(f"/accounts/password/reset/{tail.format(sub=alice.pk.hex)}")
    assert response.status_code in (200, 404)


@pytest.mark.parametrize(
    ("password", "again"),
    [
        ("short", None),
        ("password1234", None),
        (NEW_PASSWORD, "something else"),
        ("x\x00" * 10, None),
        ("a\x07" * 9, None),
        ("x" * 1025, None),
    ],
)
def test_a_poor_password_is_refused_with_a_reason(
    client: Client, alice: User, password: str, again: str | None
) -> None:
    ask_for_link(client, alice.email)
    response = choose(client, mailed_path(), password, again)
    assert response.status_code == 200
    assert response.context["form"].errors
    assert sign_in(Client(), alice.email).status_code == 302


def test_somebody_elses_link_signs_nobody_out_by_being_opened(client: Client, alice: User) -> None:
    mallory = PersonFactory(nickname="Mallory")
    ask_for_link(Client(), mallory.email)
    client.force_login(alice)
    client.get(mailed_path(), follow=True)
    assert client.get("/accounts/profile").context["person"]["email"] == alice.email
    choose(client, mailed_path())
    assert client.get("/accounts/profile").context["person"]["email"] == mallory.email
    assert sign_in(Client(), alice.email).status_code == 302


def test_a_reset_opens_an_account_that_strangers_have_locked(client: Client, alice: User, settings: Any) -> None:
    settings.RATES = {"sign_in_account": "2/15m"}
    for _ in range(3):
        sign_in(Client(), alice.email, "wrong password")
    ask_for_link(client, alice.email)
    choose(client, mailed_path())
    client.post("/accounts/sign-out")
    assert sign_in(client, alice.email, NEW_PASSWORD).status_code == 302


# The way back ---------------------------------------------------------------------------------------------------------


def test_the_way_back_is_kept_over_a_reset_in_the_same_browser(client: Client, alice: User) -> None:
    page = client.get("/accounts/password/reset", {"next": AUTHORIZE})
    assert page.context["redirect_field_value"] == AUTHORIZE
    assert not Session.objects.exists()
    sent = ask_for_link(client, alice.email, next=AUTHORIZE)["Location"]
    assert sent.startswith("/accounts/password/reset/sent?")
    assert choose(client, mailed_path())["Location"] == AUTHORIZE


@contract("D8.leads-on")
def test_the_way_back_is_kept_where_somebody_else_is_signed_in(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email, next=AUTHORIZE)
    client.force_login(PersonFactory())
    assert choose(client, mailed_path())["Location"] == AUTHORIZE


def test_the_way_back_is_kept_when_the_old_password_comes_back_to_mind(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email, next=AUTHORIZE)
    assert sign_in(client, alice.email)["Location"] == AUTHORIZE
    client.post("/accounts/sign-out")
    assert sign_in(client, alice.email)["Location"] == "/accounts/profile"


def test_another_browser_does_not_know_the_way_back(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email, next=AUTHORIZE)
    assert choose(Client(), mailed_path())["Location"] == "/accounts/profile"


def test_the_way_back_is_forgotten_after_an_hour(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email, next=AUTHORIZE)
    with time_machine.travel(time.time() + 3601):
        assert sign_in(client, alice.email)["Location"] == "/accounts/profile"


def test_a_return_path_to_another_site_is_ignored_after_a_reset(client: Client, alice: User) -> None:
    ask_for_link(client, alice.email, next="https://mallory.example/")
    assert choose(client, mailed_path())["Location"] == "/accounts/profile"


# Confirming the address -----------------------------------------------------------------------------------------------


@pytest.fixture
def bob() -> Any:
    """Whose address is not confirmed."""
    return PersonFactory(nickname="Bob", email_verified_at=None)


def test_an_unconfirmed_address_is_confirmed_with_a_code_and_the_way_back_kept(client: Client, bob: User) -> None:
    assert sign_in(client, bob.email, next=AUTHORIZE)["Location"].startswith("/accounts/confirm-email?next=")
    assert client.get("/accounts/profile").status_code == 302
    assert client.get("/accounts/confirm-email").context["email"] == bob.email
    assert type_code(client, mailed_code())["Location"] == AUTHORIZE
    bob.refresh_from_db()
    assert bob.email_verified_at is not None
    assert_tables_agree(bob)


def test_the_code_is_in_no_row(client: Client, bob: User) -> None:
    sign_in(client, bob.email)
    assert mailed_code() not in str(list(Session.objects.values()))


def test_three_wrong_codes_end_the_attempt_but_not_the_way_back(client: Client, bob: User, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"confirm_email": None}
    sign_in(client, bob.email, next=AUTHORIZE)
    code = mailed_code()
    assert [type_code(client, "WRONG").status_code for _ in range(3)] == [200, 200, 302]
    assert type_code(client, code)["Location"].startswith("/accounts/sign-in?next=")
    sign_in(client, bob.email)
    assert type_code(client, mailed_code())["Location"] == AUTHORIZE


def test_a_code_works_only_in_the_browser_that_asked(client: Client, bob: User) -> None:
    sign_in(client, bob.email)
    assert type_code(Client(), mailed_code())["Location"] == "/accounts/sign-in"


@pytest.mark.parametrize("code", ["\x00", "", "x" * 3000, "a\x1bb"])
def test_no_code_can_break_the_page(client: Client, bob: User, code: str) -> None:
    sign_in(client, bob.email)
    assert type_code(client, code).status_code == 200


def test_a_new_code_can_be_had(client: Client, bob: User, settings: Any) -> None:
    settings.ACCOUNT_RATE_LIMITS = {"confirm_email": None}
    sign_in(client, bob.email)
    client.post("/accounts/confirm-email", {"action": "resend"})
    assert len(mail.outbox) == 2
    assert type_code(client, mailed_code()).status_code == 302


def test_using_another_account_leaves_the_code_page_and_keeps_the_way_back(
    client: Client, alice: User, bob: User
) -> None:
    sign_in(client, bob.email, next=AUTHORIZE)
    assert "next=" in client.post("/accounts/sign-out")["Location"]
    assert sign_in(client, alice.email)["Location"] == AUTHORIZE


def test_the_code_page_redirects_where_no_code_was_sent(client: Client, alice: User) -> None:
    assert client.get("/accounts/confirm-email")["Location"] == "/accounts/sign-in"
    client.force_login(alice)
    assert client.get("/accounts/confirm-email", follow=True).redirect_chain[-1] == ("/accounts/profile", 302)


def test_somebody_signed_in_can_ask_for_a_code(client: Client, bob: User) -> None:
    client.force_login(bob)
    assert client.get("/accounts/confirm-email/send")["Location"] == "/accounts/profile"
    assert not mail.outbox
    assert client.post("/accounts/confirm-email/send")["Location"].startswith("/accounts/confirm-email")
    assert client.get("/accounts/confirm-email").status_code == 200
    assert type_code(client, mailed_code())["Location"] == "/accounts/profile"
    bob.refresh_from_db()
    assert bob.email_verified_at is not None


def test_a_reset_by_mail_confirms_the_address(client: Client, bob: User) -> None:
    ask_for_link(client, bob.email)
    assert choose(client, mailed_path())["Location"] == "/accounts/profile"
    bob.refresh_from_db()
    assert bob.email_verified_at is not None
    assert_tables_agree(bob)


def test_an_operators_account_signs_in_without_a_code(client: Client) -> None:
    root = User.objects.create_superuser("root@example.com", PASSWORD, nickname="Root")
    assert sign_in(client, root.email)["Location"] == "/accounts/profile"
    assert not mail.outbox
    assert_tables_agree(root)


def test_the_persons_row_is_the_record(alice: User) -> None:
    EmailAddress.objects.create(user=alice, email="old@example.com", primary=True, verified=True)
    verification.align(alice)
    assert_tables_agree(alice)


def assert_tables_agree(person: User) -> None:
    rows = EmailAddress.objects.filter(user=person).values_list("email", "primary", "verified")
    assert list(rows) == [(person.email, True, person.email_verified_at is not None)]
