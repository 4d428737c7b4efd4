"""Credentials from before a new password, a deactivation or a disabling stay invalid. D17."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils.html import escape

from accounts.admin import PersonForm
from accounts.errors import AccountFault
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials, set_active
from oauth_bridge.administration.application_form import ApplicationForm
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.models import AccessToken, Consent
from tests.contract_coverage import contract
from tests.factories import PASSWORD, ApplicationFactory, Issued, PersonFactory, Registered, issue
from tests.grants import PAGE, answer, consent_page, link_of, read, redeem
from tests.pages import (
    NEW_PASSWORD,
    admin_browser,
    ask_for_link,
    browser_of,
    choose,
    mailed_code,
    mailed_path,
    sign_in,
    type_code,
    with_session,
)

pytestmark = pytest.mark.django_db

Ending = Callable[[User], str]


def issued(browser: Client, application: Registered) -> Issued:
    """A code for the person in the browser, whose consent to the application is remembered."""
    location = browser.get(link_of(application))["Location"]
    return Issued(parse_qs(urlsplit(location).query)["code"][0], None)


class Held:
    """All credentials of a person: a session with a known browser, a consent, a token and a code."""

    def __init__(self, owner: User, application: Registered) -> None:
        self.person, self.application = owner, application
        self.browser = Client()
        sign_in(self.browser, owner.email)
        answer(self.browser, consent_page(self.browser, application), remember="on")
        self.token = redeem(application, issued(self.browser, application)).json()["access_token"]
        self.code = issued(self.browser, application)

    def lives(self, password: str) -> dict[str, bool]:
        """The names of the credentials that are still valid after the person has signed in again."""
        is_signed_in = self.browser.get("/accounts/profile").status_code == 200
        redeemed = redeem(self.application, self.code)
        token = read(self.token)
        for refused in (redeemed, token):
            assert refused.status_code == 200 or "has been revoked" in refused.json()["error_description"]
        anew = Client()
        assert sign_in(anew, self.person.email, password).status_code == 302
        remembered = anew.get("/accounts/applications", headers=PAGE).context["unasked"]
        is_asked = consent_page(anew, self.application) != ""
        assert bool(remembered) is not is_asked
        return {
            "session": is_signed_in,
            "code": redeemed.status_code == 200,
            "token": token.status_code == 200,
            "consent": not is_asked,
            "known browser": self.is_known(password),
        }

    def is_known(self, password: str) -> bool:
        """Whether the owner can sign in from the browser while the account's limit is reached."""
        for _ in range(3):
            sign_in(Client(), self.person.email, "wrong password")
        self.browser.post("/accounts/sign-out")
        return bool(sign_in(self.browser, self.person.email, password).status_code == 302)


ALL = dict.fromkeys(("session", "code", "token", "consent", "known browser"), True)
NOTHING = dict.fromkeys(ALL, False)


@pytest.fixture
def held(alice: User, application: Registered, settings: Any) -> Held:
    settings.RATES = {"sign_in_account": "3/15m"}
    return Held(alice, application)


def account(action: str, owner: User, *options: str) -> None:
    call_command("account", action, owner.email, *options, stdout=io.StringIO())


def reset_by_mail(owner: User, browser: Client | None = None) -> str:
    browser = browser or Client()
    ask_for_link(browser, owner.email)
    choose(browser, mailed_path())
    return NEW_PASSWORD


def changed_on_the_page(owner: User) -> str:
    form = {"oldpassword": PASSWORD, "password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    assert browser_of(owner).post("/accounts/password/change", form).status_code == 302
    return NEW_PASSWORD


def set_by_operator(owner: User) -> str:
    with patch("sys.stdin", io.StringIO(f"{NEW_PASSWORD}\n")):
        account("set-password", owner, "--password-stdin")
    return NEW_PASSWORD


def address_changed(owner: User) -> str:
    browser = browser_of(owner)
    browser.post("/accounts/email", {"email": f"new-{owner.email}"})
    assert type_code(browser, mailed_code()).status_code == 302
    owner.refresh_from_db()
    return PASSWORD


def address_corrected(owner: User) -> str:
    path = f"/admin/accounts/user/{owner.pk}/?act=correct-address"
    assert admin_browser().post(path, {"email": f"new-{owner.email}"}).status_code == 302
    owner.refresh_from_db()
    assert type_code(browser_of(owner), mailed_code()).status_code == 302
    return PASSWORD


def activated_by_operator(owner: User) -> str:
    account("deactivate", owner)
    account("activate", owner)
    return PASSWORD


def activated_in_the_admin(owner: User) -> str:
    office = admin_browser()
    for act in ("deactivate", "activate"):
        assert office.post(f"/admin/accounts/user/{owner.pk}/?act={act}").status_code == 302
    return PASSWORD


def deactivated_by_hand_and_activated(owner: User) -> str:
    User.objects.filter(pk=owner.pk).update(is_active=False)
    account("activate", owner)
    return PASSWORD


@contract("D17.password", "D17.activated", "O.account.set-password", "O.account.deactivate")
@pytest.mark.integration
@pytest.mark.parametrize(
    "end",
    [
        reset_by_mail,
        changed_on_the_page,
        set_by_operator,
        address_changed,
        address_corrected,
        activated_by_operator,
        activated_in_the_admin,
        deactivated_by_hand_and_activated,
    ],
)
def test_a_new_password_or_address_or_a_deactivation_ends_all_that_was_given_before(held: Held, end: Ending) -> None:
    assert held.lives(end(held.person)) == NOTHING


def test_nothing_else_ends_it_and_what_is_given_out_after_an_end_lives(held: Held) -> None:
    end_credentials(held.person)
    anew = Held(held.person, held.application)
    end_credentials(PersonFactory(nickname="Mallory"))
    account("activate", held.person)
    form = {"nickname": "Al"}
    admin_browser().post(f"/admin/accounts/user/{held.person.pk}/change/", form)
    call_command("application", "enable", held.application.client_id, stdout=io.StringIO())
    saved(held.application)
    assert anew.lives(PASSWORD) == ALL


@contract("D17.password")
def test_the_browser_that_chose_the_new_password_is_known_again(held: Held) -> None:
    reset_by_mail(held.person, held.browser)
    assert held.browser.get("/accounts/profile").status_code == 200
    assert held.is_known(NEW_PASSWORD)


@contract("D17.password")
def test_somebody_elses_sign_in_does_not_make_an_ended_browser_known_again(held: Held, mallory: User) -> None:
    end_credentials(held.person)
    sign_in(held.browser, mallory.email)
    assert not held.is_known(PASSWORD)


@contract("D17.password", "D17.activated")
def test_what_is_given_to_somebody_who_was_let_in_before_the_end_is_void(alice: User, application: Registered) -> None:
    let_in = User.objects.get(pk=alice.pk)
    row = registry.find(application.client_id)
    assert row
    set_active(alice, False)
    set_active(alice, True)
    browser = with_session(let_in)
    assert browser.get("/accounts/profile").status_code == 302
    consents.remember(let_in, row)
    codes = [issue(let_in, row)]
    switched_by_operator(application)
    codes.append(issue(User.objects.get(pk=alice.pk), row))
    for code in codes:
        assert "has been revoked" in redeem(application, Issued(code, None)).json()["error_description"]
    assert not AccessToken.objects.exists()
    browser.force_login(alice)
    assert consent_page(browser, application) != ""


def test_a_code_that_takes_the_place_of_one_from_before_the_end_lives(alice: User, application: Registered) -> None:
    """D8: the second post of a consent page, after the person signed in again."""
    attempt = alice, application.row, uuid4()
    issue(*attempt)
    end_credentials(alice)
    code = issue(*attempt)
    token = redeem(application, Issued(code, None)).json()["access_token"]
    assert read(token).status_code == 200


def test_who_is_deactivated_while_choosing_a_password_stays_so(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def set_password(person: User, password: str) -> None:
        set_active(User.objects.get(pk=person.pk), False)
        original(person, password)

    original = User.set_password
    monkeypatch.setattr(User, "set_password", set_password)
    reset_by_mail(alice)
    alice.refresh_from_db()
    assert not alice.is_active


@contract("D17.password")
def test_a_save_of_a_person_keeps_a_password_set_meanwhile(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PersonForm, "clean", lambda _form: set_by_operator(alice) and None)
    form = {"nickname": "Alice B."}
    assert admin_browser().post(f"/admin/accounts/user/{alice.pk}/change/", form).status_code == 302
    alice.refresh_from_db()
    assert alice.nickname == "Alice B."
    assert alice.check_password(NEW_PASSWORD)
    assert alice.credentials_version == 1


@contract("D17.activated")
def test_a_reset_link_ends_when_the_person_is_deactivated(alice: User) -> None:
    ask_for_link(Client(), alice.email)
    for is_active in (False, True):
        set_active(alice, is_active)
        assert Client().get(mailed_path()).context["token_fail"]


@contract("D17.password", "D17.activated")
@pytest.mark.parametrize("end", [set_by_operator, activated_by_operator])
def test_a_sign_in_that_waits_for_a_code_ends_too(end: Ending) -> None:
    owner, browser = PersonFactory(email_verified_at=None), Client()
    assert sign_in(browser, owner.email)["Location"] == "/accounts/confirm-email"
    code = mailed_code()
    end(owner)
    assert type_code(browser, code)["Location"] == "/accounts/sign-in"
    assert escape(AccountFault.SIGN_IN_ENDED.translate()) in browser.get("/accounts/sign-in").text
    assert browser.get("/accounts/profile").status_code == 302


def test_a_save_of_an_application_brings_nothing_back(application: Registered, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = ApplicationForm.clean

    def disabled_meanwhile(form: ApplicationForm) -> Any:
        switch = type(application.row).objects.get(pk=application.row.pk)
        registry.set_enabled(switch, False)
        registry.set_enabled(switch, True)
        return clean(form)

    monkeypatch.setattr(ApplicationForm, "clean", disabled_meanwhile)
    saved(application, name="Another name")
    application.row.refresh_from_db()
    assert application.row.name == "Another name"
    assert application.row.credentials_version == 2


def switched_by_operator(application: Registered) -> None:
    for action in ("disable", "enable"):
        call_command("application", action, application.client_id, stdout=io.StringIO())


def switched_by_action(application: Registered) -> None:
    office, form = admin_browser(), {"_selected_action": [str(application.row.pk)]}
    for action in ("disable", "enable"):
        office.post("/admin/oauth_bridge/application/", {"action": action, "post": "yes", **form})


def switched_on_its_page(application: Registered) -> None:
    office = admin_browser()
    for act in ("switch-off", "switch-on"):
        office.post(f"/admin/oauth_bridge/application/{application.row.pk}/act/{act}/")


def switched_by_hand_and_by_operator(application: Registered) -> None:
    type(application.row).objects.filter(pk=application.row.pk).update(is_enabled=False)
    call_command("application", "enable", application.client_id, stdout=io.StringIO())


def saved(application: Registered, **fields: str) -> None:
    row = application.row
    kept = {name: getattr(row, name) for name in ("name", "homepage", "redirect_uris", "id_token_alg")}
    answered = admin_browser().post(f"/admin/oauth_bridge/application/{row.pk}/change/", {**kept, **fields})
    assert answered.status_code == 302, answered.context["errors"]


@contract("D17.enabled")
@pytest.mark.integration
@pytest.mark.parametrize(
    "switch", [switched_by_operator, switched_by_action, switched_on_its_page, switched_by_hand_and_by_operator]
)
def test_an_application_that_was_disabled_and_enabled_begins_anew(
    alice: User, application: Registered, switch: Callable[[Registered], None]
) -> None:
    held, others = Held(alice, application), Held(alice, ApplicationFactory())
    row = application.row
    before = row.credentials_version
    switch(application)
    row.refresh_from_db()
    assert row.is_enabled
    assert row.credentials_version > before
    lives = held.lives(PASSWORD)
    assert not lives["code"]
    assert not lives["token"]
    assert Consent.objects.filter(application=row).exists()
    assert all(others.lives(PASSWORD).values())
    assert read(redeem(application, issued(held.browser, application)).json()["access_token"]).status_code == 200
