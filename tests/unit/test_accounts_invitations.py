"""Administrators invite people, and correct their e-mail addresses."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from allauth.account.models import EmailAddress
from django.contrib.auth.models import Group
from django.core import mail
from django.test import Client
from django.utils import timezone

from accounts.models import AuditEntry, User
from accounts.sign_in import verification
from oauth_bridge.administration.people import STATES
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import PersonFactory
from tests.pages import (
    CODE_PAGE,
    admin_browser,
    ask_for_link,
    choose,
    deliver_all,
    html_of,
    is_signed_in,
    mailed_code,
    mailed_path,
    proven,
    sign_in,
    sign_up,
    staff,
    text_of,
    type_code,
    with_session,
)

pytestmark = pytest.mark.django_db

PEOPLE = "/admin/accounts/user/"


def invite(browser: Client, **fields: Any) -> tuple[str, User]:
    answer = browser.post(f"{PEOPLE}add/", {"email": "New@Example.org", **fields}, follow=True)
    assert "An invitation goes to new@example.org." in text_of(answer)
    return mailed_invitation(), User.objects.get(email="new@example.org")


def mailed_invitation() -> str:
    found = re.search(r"^http://testserver(/accounts/sign-up\?\S+)$", str(mail.outbox[-1].body), re.MULTILINE)
    assert found
    return found[1]


def act(browser: Client, person: User, name: str, **form: str) -> Any:
    return browser.post(f"{PEOPLE}{person.pk}/?act={name}", form, follow=True)


def test_an_invited_person_is_listed_and_signs_up_with_the_mailed_link(grace: Client) -> None:
    group = Group.objects.create(name="Readers")
    path, person = invite(grace, nickname="Ada", groups=str(group.pk))
    assert mail.outbox[-1].to == ["new@example.org"]
    maker = User.objects.get(is_superuser=True).display_name
    for page in (grace.get(f"{PEOPLE}?state=invited"), grace.get(f"{PEOPLE}{person.pk}/")):
        assert f"Invited by {maker} on " in text_of(page)
    browser = Client()
    assert [value in html_of(browser.get(path)) for value in ('value="new@example.org"', 'value="Ada"')] == [True] * 2
    assert "for another address" in text_of(sign_up(browser, path, email="mallory@example.org"))
    assert sign_up(browser, path, email="new@example.org")["Location"].startswith(CODE_PAGE)
    type_code(browser, mailed_code())
    assert is_signed_in(browser)
    person.refresh_from_db()
    assert (person.nickname, person.invited_at, list(person.groups.all())) == ("Nia", None, [group])
    assert "New accounts are by invitation" in text_of(Client().get(path)), "the link is used up"
    assert "Nothing fits" in text_of(grace.get(f"{PEOPLE}?state=invited"))


def test_an_invitation_is_sent_again_and_dead_once_it_is_withdrawn_or_old(grace: Client) -> None:
    helper = staff("view_user", "add_user")
    _path, person = invite(helper)
    with time_machine.travel(time.time() + 7 * 24 * 3600 + 2):
        assert "Invitation ended" in text_of(admin_browser().get(PEOPLE))
        assert "An invitation goes to new@example.org." in text_of(act(proven(helper), person, "invite"))
        path = mailed_invitation()
        assert "new@example.org" in html_of(Client().get(path))
        assert "Its link is dead." in text_of(act(proven(helper), person, "withdraw"))
        assert not User.objects.filter(pk=person.pk).exists()
        invite(admin_browser())
        assert "New accounts are by invitation" in text_of(Client().get(path))
    actions = AuditEntry.objects.filter(key=str(person.pk)).order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["account_invited", "account_invited", "invitation_withdrawn"]


def test_an_address_that_is_invited_twice_at_one_moment_gets_one_invitation(grace: Client, monkeypatch: Any) -> None:
    PersonFactory(email="new@example.org")
    checks = iter([lambda _person, **_options: None, User.validate_constraints])
    monkeypatch.setattr(User, "validate_constraints", lambda person, **options: next(checks)(person, **options))
    page = grace.post(f"{PEOPLE}add/", {"email": "new@example.org"})
    assert "Somebody already uses this address." in text_of(page)
    assert (mail.outbox, AuditEntry.objects.exists()) == ([], False)


def test_whoever_only_adds_people_chooses_no_groups_and_acts_on_nobody(alice: User) -> None:
    helper, group = staff("view_user", "add_user"), Group.objects.create(name="Readers")
    _path, invited = invite(helper, groups=str(group.pk))
    assert not invited.groups.exists()
    for name in ("deactivate", "reset", "correct-address"):
        assert act(helper, alice, name).status_code == 403
    assert act(staff("view_user", "change_user"), invited, "withdraw").status_code == 403
    User.objects.filter(pk=invited.pk).update(is_staff=True)
    assert act(helper, invited, "withdraw").status_code == 403


def test_a_second_use_of_the_link_ends_the_first(grace: Client) -> None:
    """Mallory has the link, too, and sets a password while the owner looks for the code."""
    path, person = invite(grace)
    owner = Client()
    sign_up(owner, path)
    code = mailed_code()
    with time_machine.travel(time.time() + 11):
        sign_up(Client(), path, password1="the phrase of mallory")
        type_code(owner, code)
    person.refresh_from_db()
    assert (is_signed_in(owner), person.email_verified_at) == (False, None)


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_a_password_is_stored_only_if_the_invitation_waits(grace: Client, monkeypatch: Any, is_withdrawn: bool) -> None:
    """Mallory, who has the link too, posts it at the moment when the owner accepts it or an administrator withdraws."""
    (path, invited), hashed = invite(grace), User.set_password

    def meanwhile(person: User, password: str | None) -> None:
        hashed(person, password)
        for waiting in User.objects.filter(pk=person.pk, email_verified_at=None):
            waiting.delete() if is_withdrawn else verification.mark_verified(waiting)

    monkeypatch.setattr(User, "set_password", meanwhile)
    answer = sign_up(Client(), path, email="new@example.org", password1="the phrase of mallory")
    assert answer["Location"].startswith(CODE_PAGE)
    owner = User.objects.filter(pk=invited.pk).first()
    assert owner is None if is_withdrawn else owner and not owner.has_usable_password()


def test_acts_on_an_invitation_that_was_accepted_meanwhile_lead_to_the_person(grace: Client) -> None:
    helper = staff("view_user", "add_user")
    _path, person = invite(helper)
    verification.mark_verified(person)
    for name in ("withdraw", "invite"):
        assert act(helper, person, name).redirect_chain == [(f"{PEOPLE}{person.pk}/", 302)]
    assert len(mail.outbox) == 1


def test_whoever_is_signed_in_learns_how_to_accept_the_invitation_of_another_account(grace: Client) -> None:
    (path, invited), other = invite(grace), with_session(PersonFactory())
    page = other.get(path, follow=True)
    assert page.redirect_chain == [("/accounts/profile", 302)]
    assert "The invitation is for another account. Sign out, then open its link again." in text_of(page)
    invited.delete()
    assert "The invitation is for" not in text_of(other.get(path, follow=True))


@pytest.fixture
def office() -> Client:
    return staff("view_user", "change_email_address")


def test_a_corrected_address_is_told_to_the_old_one_and_confirmed_at_the_next_sign_in(office: Client) -> None:
    person = PersonFactory(email="adda@example.org")
    said = text_of(act(office, person, "correct-address", email="Ada@Example.org"))
    assert ("The address is corrected." in said, "Not confirmed" in said) == (True, True)
    deliver_all()
    told, body = mail.outbox[-1], " ".join(str(mail.outbox[-1].body).split())
    assert (told.to, "replaced this address in an account" in body) == (["adda@example.org"], True)
    assert "ada@example.org" not in body
    assert sign_in(Client(), "adda@example.org").status_code == 200
    again = Client()
    assert sign_in(again, "ada@example.org")["Location"].startswith(CODE_PAGE)
    assert mail.outbox[-1].to == ["ada@example.org"]
    type_code(again, mailed_code())
    assert is_signed_in(again)
    assert AuditEntry.objects.get(key=str(person.pk), action="address_corrected").changes == {}


def test_a_code_for_the_old_address_does_not_bring_it_back(office: Client) -> None:
    person, stranger = PersonFactory(email="adda@example.org", email_verified_at=None), Client()
    sign_in(stranger, person.email)
    code = mailed_code()
    act(office, person, "correct-address", email="ada@example.org")
    type_code(stranger, code)
    person.refresh_from_db()
    assert (person.email, person.email_verified_at, is_signed_in(stranger)) == ("ada@example.org", None, False)


def test_a_link_to_the_old_address_sets_no_password_while_it_is_corrected(alice: User, monkeypatch: Any) -> None:
    ask_for_link(Client(), alice.email)
    path, stranger, hashed = mailed_path(), Client(), User.set_password

    def meanwhile(person: User, password: str) -> None:
        hashed(person, password)
        verification.correct(User.objects.get(pk=person.pk), "ada@example.org")

    monkeypatch.setattr(User, "set_password", meanwhile)
    assert choose(stranger, path)["Location"] == "/accounts/sign-in"
    assert not is_signed_in(stranger)
    found = User.objects.get(pk=alice.pk)
    assert (found.email, found.email_verified_at, found.password) == ("ada@example.org", None, alice.password)
    verification.mark_verified(alice)  # read before the correction
    assert User.objects.get(pk=alice.pk).email_verified_at is None
    assert not EmailAddress.objects.filter(user=alice, verified=True).exists()
    assert not AuditEntry.objects.filter(action="address_confirmed", key=str(alice.pk)).exists()


def test_an_address_is_corrected_only_with_the_right_and_below_the_own_rights(office: Client, alice: User) -> None:
    other = PersonFactory()
    assert act(staff("view_user", "change_user"), alice, "correct-address", email="x@example.org").status_code == 403
    for above in (PersonFactory(is_staff=True), PersonFactory(is_superuser=True)):
        assert act(office, above, "correct-address", email="x@example.org").status_code == 403
    for taken in (other.email, alice.email):
        page = act(office, alice, "correct-address", email=taken)
        assert "Somebody already uses this address." in text_of(page)
        assert f'value="{taken}"' in html_of(page)
    assert User.objects.get(pk=alice.pk).email == alice.email


def test_the_list_shows_the_state_of_each_person_and_the_last_sign_in(grace: Client) -> None:
    of_states = {
        "Active": PersonFactory(last_login=timezone.now() - timedelta(hours=3)),
        "Off": PersonFactory(is_active=False),
        "Not confirmed": PersonFactory(email_verified_at=None),
        "Limited until": (limited := PersonFactory()),
        "Invited": PersonFactory(email_verified_at=None, invited_at=timezone.now()),
    }
    facts = {"person": limited, "step": "sign_in", "outcome": "refused", "cause": "sign_in_limited_account"}
    ActivityRecord.objects.create(at=timezone.now(), detail={"seconds": 600}, **facts)
    for word, person in of_states.items():
        page = text_of(grace.get(PEOPLE, {"q": person.email}))
        assert re.search(rf"{re.escape(person.email)} Alice Ægir {word}", page), word
        assert ("3 hours ago" in page) is (word == "Active")
    found = {state: grace.get(PEOPLE, {"state": state}).context["cl"].result_list for state in STATES}
    words = {"invited": "Invited", "off": "Off", "unconfirmed": "Not confirmed"}
    assert [list(found[state]) for state in words] == [[of_states[word]] for word in words.values()]
    assert len(found["active"]) == 3  # grace is active, too
