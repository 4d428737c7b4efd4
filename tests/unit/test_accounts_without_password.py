"""Accounts without a password: sign-up with a passkey, the last passkey, and passkeys that another host made."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from accounts import return_path
from accounts.factors import authenticators
from accounts.models import User
from accounts.sessions.credential_changes import set_active, set_password
from accounts.sign_in.sign_up import invite
from tests.factories import PASSWORD, PersonFactory
from tests.grants import pending_path
from tests.pages import (
    ADD,
    AUTHORIZE,
    CODE_PAGE,
    NEW_PASSWORD,
    SECOND,
    Account,
    Device,
    add,
    add_many,
    admin_browser,
    ask_for_link,
    browser_of,
    choose,
    codes_on,
    creation,
    deliver_all,
    html_of,
    is_signed_in,
    mailed_code,
    mailed_path,
    proven,
    request_options,
    sign_in,
    sign_up,
    text_of,
    type_code,
    with_session,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("sign_up_is_open", "passkeys_over_http")]

SIGN_UP = "/accounts/sign-up/passkey"
FIRST = f"{SIGN_UP}/add"


def up_to_the_passkey(browser: Client, path: str = SIGN_UP) -> None:
    sign_up(browser, path)
    assert type_code(browser, mailed_code())["Location"].partition("?")[0] == FIRST


def post(browser: Client, answer: dict[str, Any]) -> Any:
    return browser.post(FIRST, {"credential": json.dumps(answer)})


@pytest.fixture
def owner(client: Client) -> Client:
    """A person has signed up with a passkey, and is signed in."""
    up_to_the_passkey(client)
    assert post(client, Device().made(creation(client, FIRST))).status_code == 302
    return client


def test_a_person_signs_up_with_a_passkey_and_goes_on(client: Client) -> None:
    there = pending_path()
    answer = sign_up(client, return_path.url_of(SIGN_UP, there), next=there)
    assert "Photo Printer" in html_of(client.get(answer["Location"]))
    assert client.get(FIRST, follow=True).redirect_chain[-1][0].startswith(CODE_PAGE), "the address comes first"
    answer = client.post(answer["Location"], {"code": mailed_code(), "next": there})
    assert "Photo Printer" in html_of(client.get(answer["Location"]))
    assert post(client, {}).status_code == 200
    assert not is_signed_in(client)
    offer = post(client, Device().made(creation(client, FIRST)))["Location"]
    page = client.get(offer)
    assert "If you lose it, a recovery code replaces it" in text_of(page)
    assert f'href="{escape(there)}">Continue without' in html_of(page)
    page = client.get(client.post(offer)["Location"])
    assert (len(codes_on(page)), page.context["onward"]) == (10, there)
    person = User.objects.get()
    assert not person.has_usable_password(), "what was typed into the other field is not stored"
    assert person.email_verified_at


def test_a_passkey_takes_the_invitation_along(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "invitation"
    link = invite(User(email="new@example.org"))
    [action] = re.findall(r'formaction="([^"]+)"', html_of(client.get(link)))
    sign_up(client, SIGN_UP)
    assert mail.outbox == []
    up_to_the_passkey(client, unescape(action))


def test_where_passkeys_are_not_possible_none_is_offered(client: Client, monkeypatch: Any) -> None:
    assert "formaction" in html_of(client.get("/accounts/sign-up"))
    monkeypatch.setattr(authenticators, "passkey_host", lambda: "192.0.2.1")
    assert "formaction" not in html_of(client.get("/accounts/sign-up"))


@pytest.mark.parametrize(
    "end", [lambda person: set_password(person, PASSWORD), lambda person: set_active(person, False), User.delete]
)
def test_an_open_sign_up_adds_no_passkey_once_the_credentials_have_ended(client: Client, end: Any) -> None:
    """Mallory finds the open page on a shared computer, after the owner has ended the credentials elsewhere."""
    up_to_the_passkey(client)
    answer = Device().made(creation(client, FIRST))
    end(User.objects.get())
    for response in (post(client, answer), client.get(FIRST)):
        assert response.status_code == 302
    assert not Authenticator.objects.exists()
    assert not is_signed_in(client)


def test_a_lost_cookie_leads_to_the_sign_in_of_the_request(client: Client, settings: Any) -> None:
    settings.SIGN_UP = "invitation"  # without an invitation, the sign-up page leads nowhere
    address = return_path.url_of(FIRST, pending_path())
    for answer in (client.get(address), client.post(address)):
        assert answer["Location"] == address.replace(FIRST, "/accounts/sign-in")
    assert "Photo Printer" in html_of(client.get(answer["Location"]))


@pytest.mark.parametrize("is_moved", [False, True])
def test_the_last_passkey_that_can_be_used_stays_until_there_is_a_password(
    owner: Client, settings: Any, monkeypatch: Any, is_moved: bool
) -> None:
    person = User.objects.get()
    if is_moved:
        moved(settings, monkeypatch)
    proven(owner)
    assert add(owner, Device().made(creation(owner))).status_code == 302
    first, last = Authenticator.objects.filter(type="webauthn").order_by("pk")
    for passkey, is_removed in ((last, not is_moved), (first, is_moved)):
        owner.post(reverse("mfa_remove_webauthn", args=[passkey.pk]))
        assert Authenticator.objects.filter(pk=passkey.pk).exists() is not is_removed
    person.set_password(PASSWORD)
    person.save()
    left = last if is_moved else first
    proven(with_session(person)).post(reverse("mfa_remove_webauthn", args=[left.pk]))
    assert not Authenticator.objects.exists()


def test_a_password_by_mail_makes_the_passkey_the_second_factor(client: Client) -> None:
    device = Device()
    up_to_the_passkey(client)
    post(client, device.made(creation(client, FIRST)))
    assert is_signed_in(client)
    ask_for_link(client, "new@example.org", next=AUTHORIZE)
    answer = choose(client, mailed_path(), PASSWORD)
    assert answer["Location"].partition("?")[0] == SECOND
    assert not is_signed_in(client)
    page = html_of(client.get(answer["Location"]))
    assert [text in page for text in ("Your new password is saved.", "You are signed out")] == [True, False]
    signed = device.signed(request_options(client, SECOND))
    assert client.post(SECOND, {"credential": json.dumps(signed)})["Location"] == AUTHORIZE


def test_a_session_is_not_enough_for_a_change(owner: Client) -> None:
    stolen = with_session(User.objects.get())
    for path in ("/accounts/email", ADD):
        assert stolen.get(path, follow=True).redirect_chain[-1][0].startswith("/accounts/confirm/passkey"), path
    assert stolen.get("/accounts/password/change")["Location"] == "/accounts/password/reset"


ELSEWHERE = "Your passkeys were made for testserver, an earlier address of this service. They can't be used here."
HELP = "https://help.example.org/sign-in"


def moved(settings: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(authenticators, "passkey_host", lambda: "login.new.example")
    settings.SUPPORT_URL = HELP


def by_link(person: User) -> Client:
    """The browser in which the person has chosen a new password with a mailed link."""
    ask_for_link(Client(), person.email)
    browser = Client()
    choose(browser, mailed_path())
    return browser


def test_a_link_is_enough_if_only_unusable_passkeys_are_left(owner: Client, settings: Any, monkeypatch: Any) -> None:
    person = User.objects.get()
    moved(settings, monkeypatch)
    browser = by_link(person)
    deliver_all()
    (told,) = [sent for sent in mail.outbox if sent.subject.startswith("A sign-in without a second factor")]
    assert "your passkeys were made for testserver" in " ".join(str(told.body).split())
    security = browser.get("/accounts/security")
    assert "Made for testserver, so it can't be used at this address." in text_of(security)
    # The password alone is not enough: whoever knows it may not read the mails.
    other = Client()
    assert sign_in(other, person.email, NEW_PASSWORD)["Location"].startswith(SECOND)
    page = html_of(other.get(SECOND))
    assert ELSEWHERE in text_of(page)
    shown = [f'href="{HELP}"', 'href="/accounts/password/reset', "Use a passkey"]
    assert [text in page for text in shown] == [True, True, False]
    # A new passkey is asked for again, after a link too.
    assert add(browser, Device().made(creation(browser))).status_code == 302
    assert not is_signed_in(by_link(person))


@pytest.mark.parametrize("left", ["an app", "recovery codes", "codes that are used up"])
def test_a_factor_that_can_be_used_is_asked_for_after_a_mailed_link(settings: Any, monkeypatch: Any, left: str) -> None:
    """Each of these people has a passkey of another host, too."""
    person = PersonFactory()
    browser = proven(Account(person).browser if left == "an app" else browser_of(person))
    assert add_many(browser, 1) == [302]
    codes = Authenticator.objects.get(type="recovery_codes")
    if left == "an app":
        codes.delete()
    if left == "codes that are used up":
        codes.data["used_mask"] = 2**10 - 1
        codes.save()
    moved(settings, monkeypatch)
    browser = by_link(person)
    assert is_signed_in(browser) == (left == "codes that are used up")
    if left != "codes that are used up":
        page = html_of(browser.get(SECOND))
        assert [text in page for text in ('name="code"', "Use a passkey")] == [True, False]


@pytest.mark.parametrize("right", ["is_staff", "is_superuser"])
def test_no_link_is_enough_for_an_administrator(owner: Client, settings: Any, monkeypatch: Any, right: str) -> None:
    User.objects.update(**{right: True})
    person = User.objects.get()
    moved(settings, monkeypatch)
    page = text_of(by_link(person).get(SECOND))
    assert ELSEWHERE in page
    assert f"manage.py account remove-factors {person.email}" in page
    assert "Get a link by mail" not in page
    call_command("account", "remove-factors", person.email, stdout=io.StringIO())
    assert is_signed_in(by_link(person))


def test_who_is_affected_by_another_host_is_counted_and_shown(owner: Client, monkeypatch: Any, settings: Any) -> None:
    person = User.objects.get()
    PersonFactory()
    count, listed, shown = io.StringIO(), io.StringIO(), io.StringIO()
    moved(settings, monkeypatch)
    call_command("account", "list", "--unusable-passkeys", stdout=listed, stderr=count)
    assert (listed.getvalue().count("\n"), person.email in listed.getvalue()) == (1, True)
    assert count.getvalue() == (
        "Accounts with a passkey of another host than login.new.example: 1. "
        "Those of them without a second factor that works: 1.\n"
    )
    call_command("account", "show", person.email, stdout=shown)
    assert "second_factors:    none\nunusable_passkeys: testserver\n" in shown.getvalue()
    page = text_of(admin_browser().get(f"/admin/accounts/user/{person.pk}/"))
    assert "1 passkey 1 not usable here" in page
    assert "Remove the second factors" in page
