"""People in the administration."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from accounts.models import Session, StoredPicture, User
from tests.factories import PASSWORD, PersonFactory
from tests.pages import deliver_all, html_of, sign_in, staff, text_of, with_session

pytestmark = pytest.mark.django_db

PEOPLE = "/admin/accounts/user/"


@pytest.fixture
def helper() -> Client:
    return staff("view_user", "add_user", "change_user", "delete_user")


def change(browser: Client, person: User, **fields: str) -> Any:
    return browser.post(f"{PEOPLE}{person.pk}/change/", {"nickname": person.nickname, **fields})


def test_the_administration_is_entered_by_our_own_page_and_takes_no_password_itself(
    client: Client, admin_user: User
) -> None:
    response = client.post("/admin/login/", {"username": admin_user.email, "password": PASSWORD})
    assert response["Location"].startswith("/accounts/sign-in")
    assert not Session.objects.exists()
    page = client.get("/admin/", follow=True)
    assert sign_in(client, admin_user.email, next=page.context["return_to"])["Location"] == "/admin/"
    assert client.get("/admin/login/?next=https://mallory.example/")["Location"] == "/admin/"
    assert client.get("/admin/password_change/")["Location"] == "/accounts/password/change"
    assert client.post("/admin/logout/")["Location"] == "/accounts/sign-out"


def test_who_is_no_administrator_is_refused_and_gets_ways_out(mallory: User, admin_user: User) -> None:
    browser = with_session(mallory)
    assert browser.get("/admin/")["Location"].startswith("/admin/login/")
    assert browser.get("/admin/login/").json()["error"] == "access_denied"
    page = browser.get(PEOPLE, follow=True, headers={"accept": "text/html"})
    assert page.status_code == 403
    for said in ("This account can't open the administration", mallory.email, f'name="next" value="{PEOPLE}"'):
        assert said in page.content.decode()
    to_sign_in = browser.post("/accounts/sign-out", {"next": PEOPLE})["Location"]
    assert to_sign_in == "/accounts/sign-in?next=%2Fadmin%2Faccounts%2Fuser%2F"
    assert sign_in(browser, admin_user.email, next=PEOPLE)["Location"] == PEOPLE


def test_people_are_found_and_no_search_breaks_the_page(admin_client: Client, alice: User) -> None:
    assert list(admin_client.get(PEOPLE, {"q": str(alice.pk)}).context["cl"].result_list) == [alice]
    for query, statuses in (("\x00", (200, 302)), ("%", (200,)), ("a " * 251, (400,))):
        assert admin_client.get(PEOPLE, {"q": query}).status_code in statuses


def test_the_address_and_the_digest_can_not_be_changed_here(admin_client: Client, alice: User) -> None:
    before = (alice.email, alice.password, alice.pk)
    change(admin_client, alice, email="other@example.com", password="x", id="x", nickname="Zoe")
    alice.refresh_from_db()
    assert (alice.email, alice.password, alice.pk, alice.nickname) == (*before, "Zoe")


def test_a_person_who_is_switched_off_has_no_picture_in_the_administration(admin_client: Client) -> None:
    """It is served to nobody: the initial stands there instead."""
    person = PersonFactory(nickname="émile", is_active=False)
    for path in (f"{PEOPLE}?q={person.email}", f"{PEOPLE}{person.pk}/"):
        page = html_of(admin_client.get(path))
        assert f"/avatars/{person.pk}/" not in page
        assert re.search(r'<span class="portrait[^>]*initial[^>]*>É</span>', page)


def test_a_deleted_person_is_told_so_and_the_picture_is_deleted(admin_client: Client) -> None:
    for path in ("{sub}/delete/", ""):
        StoredPicture.objects.create(name="avatars/a.png", content=b"png")
        alice = PersonFactory(avatar="avatars/a.png")
        form = {"action": "delete_selected", "_selected_action": str(alice.pk), "post": "yes"}
        admin_client.post(PEOPLE + path.format(sub=alice.pk), form | {"typed": alice.email if path else "1"})
        assert not User.objects.filter(pk=alice.pk).exists()
        assert StoredPicture.read(alice.avatar) is None
        deliver_all()
        message = mail.outbox.pop()
        assert message.to == [alice.email]
        assert "an administrator deleted your account" in " ".join(message.body.split())


def test_a_bulk_act_counts_apart_what_needed_no_change_and_what_is_not_allowed(
    helper: Client, admin_user: User
) -> None:
    people = [PersonFactory(), PersonFactory(is_active=False), admin_user]
    form = {"action": "deactivate", "_selected_action": [str(person.pk) for person in people], "post": "yes"}
    said = text_of(helper.post(PEOPLE, form, follow=True))
    assert "1 account is switched off, and signed out everywhere. 1 needed no change. 1 you may not change." in said
    assert helper.post(PEOPLE, form | {"_selected_action": "x"}).status_code == 400
    many = helper.post(PEOPLE, form | {"_selected_action": [str(n) for n in range(70)]})
    assert (many.status_code, "at most 30 at once" in html_of(many)) == (400, True)


def test_staff_promote_nobody_and_touch_no_administrator(helper: Client, admin_user: User, alice: User) -> None:
    mallory = User.objects.get(is_staff=True, is_superuser=False)
    assert change(helper, alice, is_staff="on", is_superuser="on").status_code == 302
    assert change(helper, mallory, is_superuser="on").status_code == 403
    assert list(User.objects.filter(is_superuser=True)) == [admin_user]
    assert User.objects.filter(is_staff=True).count() == 2
    assert change(helper, admin_user).status_code == 403
    for path in ("?act=deactivate", "delete/"):
        assert helper.post(f"{PEOPLE}{admin_user.pk}/{path}", {"post": "yes"}).status_code == 403
    form = {"action": "delete_selected", "_selected_action": str(admin_user.pk), "post": "yes", "typed": "1"}
    helper.post(PEOPLE, form)
    assert User.objects.get(pk=admin_user.pk).is_active


def test_only_permissions_for_what_is_shown_are_offered(admin_client: Client, alice: User) -> None:
    page = admin_client.get(f"{PEOPLE}{alice.pk}/change/")
    offered = [str(label) for _value, label in page.context["adminform"].form.fields["user_permissions"].choices]
    assert sorted(offered) == [
        *(f"Can {act} {kind}" for act in ("add", "change") for kind in ("application", "group", "person")),
        "Can correct e-mail addresses of people",
        *(f"Can delete {kind}" for kind in ("application", "group", "person")),
        "Can make new client secrets",
        "Can mark applications as trusted",
        "Can switch applications off and on",
        *(f"Can view {kind}" for kind in ("activity record", "application", "group", "person", "the audit trail")),
    ]


def test_pages_say_rights_and_what_ends_in_words_of_their_own(admin_client: Client, alice: User) -> None:
    """Not "Designates that …" and "User-group relationships: 1"."""
    said = text_of(admin_client.get(f"{PEOPLE}{alice.pk}/change/"))
    assert "With every right May see and change everything here" in said
    assert "Designates" not in said
    with_session(alice)
    assert "It ends: Accounts: 1 Signed-in browsers: 1 " in text_of(admin_client.get(f"{PEOPLE}{alice.pk}/delete/"))
