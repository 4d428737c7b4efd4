"""Owners and groups of an application; acts on it as a whole; the proof before dangerous acts. D23."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts.models import AuditEntry, User
from config.infrastructure.errors import RequestError
from oauth_bridge.activity import counts
from oauth_bridge.applications import mails, registry
from oauth_bridge.credentials import tokens
from oauth_bridge.models import Application, Consent
from tests.factories import (
    PASSWORD,
    ApplicationFactory,
    CodeFactory,
    ConsentFactory,
    PersonFactory,
    Registered,
    TokenFactory,
)
from tests.grants import HTML, PAGE, Attempt, link_of, read
from tests.pages import admin_page, browser_of, html_of, staff, text_of, with_session

pytestmark = pytest.mark.django_db


ADD = "/admin/oauth_bridge/application/add/"
ALG = {"id_token_alg": "RS256"}
NEW = {"name": "Inner", "redirect_uris": "https://inner.example/cb", "client_type": "public", **ALG}


@pytest.fixture
def reading() -> Application:
    addresses = "https://a.example/cb\nhttps://b.example/cb"
    return ApplicationFactory(name="Reading List", redirect_uris=addresses).row  # type: ignore[no-any-return]


def test_owners_are_named_on_a_page_and_shown_and_in_the_trail(admin_client: Client, reading: Application) -> None:
    ada, nobody = PersonFactory(nickname="Ada", is_staff=True), PersonFactory(nickname="Nobody")
    act = admin_page(reading, "act", "owners")
    asked = text_of(admin_client.get(act))
    assert (f"Ada ({ada.email})" in asked, "Nobody (" in asked) == (True, False)
    done = text_of(admin_client.post(act, {"owners": [str(ada.pk)]}, follow=True))
    trail = text_of(admin_client.get(admin_page(reading, "history"), follow=True))
    assert [said.count("Owners Ada") for said in (done, trail)] == [1, 1]
    assert "checked" in html_of(admin_client.get(act))
    for person in (nobody, PersonFactory(is_staff=True, is_active=False)):
        with pytest.raises(ValidationError, match="may open the administration"):
            registry.set_owners(reading, [person])


def test_mails_go_to_the_owners_who_can_be_told_and_else_to_superusers(reading: Application) -> None:
    root = PersonFactory(is_staff=True, is_superuser=True)
    ada = PersonFactory(is_staff=True)
    PersonFactory(is_superuser=True, is_active=False)
    PersonFactory(is_superuser=True, email_verified_at=None)
    registry.set_owners(reading, [ada])
    found, row = [mails.owners_of(reading)], User.objects.filter(pk=ada.pk)
    for change in ({"is_active": False}, {"is_staff": False}, {"email_verified_at": None}):
        before = row.values(*change).get()
        row.update(**change)
        found.append(mails.owners_of(reading))
        row.update(**before)
    assert found == [[ada], [root], [root], [root]]
    PersonFactory.create_batch(mails.MOST_OWNERS, is_superuser=True)
    row.delete()
    assert len(mails.owners_of(reading)) == mails.MOST_OWNERS


def test_a_reason_for_switching_off_is_shown_to_administrators(admin_client: Client) -> None:
    attempt = Attempt()
    reading = attempt.application.row
    off, on = (admin_page(reading, "act", f"switch-{state}") for state in ("off", "on"))
    for reason in ("x" * 201, "a\u202eb"):
        assert 'aria-invalid="true"' in html_of(admin_client.post(off, {"reason": reason}))
    assert admin_client.get(on)["Location"] == admin_page(reading), "it is switched on already"
    assert admin_client.get(admin_page(reading, "act", "explode")).status_code == 404
    assert not AuditEntry.objects.exists()
    done = text_of(admin_client.post(off, {"reason": "Sold to <Mallory>"}, follow=True))
    name = User.objects.get(is_superuser=True).display_name
    assert "is switched off. All its access has ended." in done
    assert "A sign-in would fail. It is switched off" in done
    assert re.search(rf"{name} switched it off on .* UTC \. Reason: Sold to <Mallory>", done)
    assert AuditEntry.objects.get().changes == {"disabled_reason": [None, "Sold to <Mallory>"]}
    refused = attempt.browser.get(attempt.link(), **HTML)
    assert "Sold" not in html_of(refused)
    counts.flush()
    found = admin_client.get("/admin/find/", {"q": refused["X-Reference"]}, follow=True)
    assert "Reason: Sold to <Mallory>" in text_of(found)
    assert "<Mallory>" not in html_of(found)
    said = text_of(admin_client.post(on, follow=True))
    assert ("is switched on." in said, "Sold" in said) == (True, False)
    reading.refresh_from_db()
    assert (reading.disabled_reason, reading.disabled_at, reading.disabled_by) == ("", None, "")


def test_the_access_of_everybody_is_counted_and_ended(admin_client: Client, reading: Application) -> None:
    for _ in range(2):
        ConsentFactory(application=reading, user=PersonFactory(), fingerprint="x")
    kept = ConsentFactory(application=ApplicationFactory().row, user=PersonFactory(), fingerprint="x")
    token, others = TokenFactory(application=reading), TokenFactory()
    asked = text_of(admin_client.get(admin_page(reading, "act", "end-access")))
    assert "2 people have allowed it. It had 0 sign-ins in 30 days." in asked
    done = text_of(admin_client.post(admin_page(reading, "act", "end-access"), follow=True))
    assert "with the consents of 2 people." in done
    assert Consent.objects.get() == kept
    with pytest.raises(RequestError):
        tokens.read(token.raw)
    assert tokens.read(others.raw)
    assert Application.objects.get(pk=reading.pk).is_enabled


def test_each_dangerous_act_asks_for_a_proof_before_its_page_and_leads_back(reading: Application) -> None:
    person, group = PersonFactory(), Group.objects.create(name="Readers")
    stale = with_session(PersonFactory(is_staff=True, is_superuser=True))
    own, group_page = reverse("admin:person", args=[person.pk]), f"/admin/auth/group/{group.pk}/"
    dangerous = [
        *(admin_page(reading, "act", name) for name in ("new-secret", "trust", "owners")),
        *(admin_page(reading, "secret_act", 1, name) for name in ("end", "leaked")),
        admin_page(reading, "delete"),
        *(f"{own}{page}" for page in ("change/", "delete/", "?act=correct-address", "?act=remove-factors")),
        *("/admin/auth/group/add/", f"{group_page}change/"),
    ]
    for address in dangerous:
        asked = stale.get(address)["Location"]
        assert asked.startswith("/accounts/confirm?next="), address
        assert stale.post(address, {"post": "yes"})["Location"] == asked
    address = f"{own}?act=remove-factors"
    asked = stale.get(address)["Location"]
    away = {"action": "delete_selected", "_selected_action": str(person.pk), "post": "yes", "typed": "1"}
    assert stale.post("/admin/accounts/user/", away)["Location"].startswith("/accounts/confirm?next=")
    assert User.objects.filter(pk=person.pk).exists()
    assert stale.post(asked, {"password": PASSWORD})["Location"] == address
    assert stale.get(address)["Location"] == own, "there is nothing to remove"


def test_an_address_in_use_is_removed_after_a_question(admin_client: Client, reading: Application) -> None:
    for address, redeemed_at in (("https://a.example/cb", timezone.now()), ("https://b.example/cb", None)):
        CodeFactory(application=reading, redirect_uri=address, redeemed_at=redeemed_at)
    CodeFactory(redirect_uri="https://b.example/cb", redeemed_at=timezone.now())
    change = admin_page(reading, "change")
    form = {"name": "Reading List", "redirect_uris": "https://c.example/cb\nhttps://b.example/cb", **ALG}
    assert 'name="remove_used"' not in html_of(admin_client.get(change))
    asked = admin_client.post(change, form)
    assert "1 sign-in in the last 30 days used https://a.example/cb, which is to be removed." in text_of(asked)
    assert 'name="remove_used"' in html_of(asked)
    before, lines = reading.redirect_uris, Application.objects.values_list("redirect_uris", flat=True)
    # Nobody used b.example lately.
    for sent in ({**form, "remove_used": "on"}, {**form, "redirect_uris": "https://c.example/cb"}):
        assert lines.get(pk=reading.pk) == before
        assert admin_client.post(change, sent).status_code == 302
        before = sent["redirect_uris"]
    assert lines.get(pk=reading.pk) == before


@pytest.fixture
def readers() -> Group:
    return Group.objects.create(name="readers")


def groups_of(application: Registered, **of: str) -> tuple[bool, list[str]]:
    row = Application.objects.get(**of or {"pk": application.row.pk})
    return row.is_restricted, sorted(row.groups.values_list("name", flat=True))


def saved(browser: Client, application: Registered, **fields: Any) -> Any:
    row = application.row
    form = {"name": row.name, "homepage": row.homepage, "redirect_uris": row.redirect_uris, **ALG}
    page = browser.post(admin_page(row, "change"), {**form, **fields})
    return [] if page.status_code == 302 else list(page.context["adminform"].form.errors)


def test_the_form_takes_no_half_choice_of_groups(admin_client: Client, application: Registered, readers: Group) -> None:
    pk = readers.pk
    assert "Choose at least one group" in text_of(admin_client.post(ADD, NEW | {"is_restricted": "on"}))
    admin_client.post(ADD, NEW | {"is_restricted": "on", "groups": [pk]})
    assert groups_of(application, name="Inner") == (True, ["readers"])
    assert saved(admin_client, application, is_restricted="on", groups=[pk]) == []
    assert groups_of(application) == (True, ["readers"])
    assert saved(admin_client, application) == []
    assert groups_of(application) == (False, [])
    assert saved(admin_client, application, is_restricted="on") == ["groups"]
    assert saved(admin_client, application, groups=[pk]) == ["is_restricted"]
    readers.delete()  # while the form is open
    assert saved(admin_client, application, is_restricted="on", groups=[pk]) == ["groups"]
    assert groups_of(application) == (False, [])
    registry.set_groups(application.row, [again := Group.objects.create(name="readers")])
    again.delete()
    assert saved(admin_client, application, is_restricted="on", name="Renamed") == []
    assert groups_of(application, name="Renamed") == (True, []), "whose groups are deleted is opened to nobody"


def test_a_new_group_is_made_on_the_form_by_those_who_may_add_groups(application: Registered) -> None:
    may = "add_application", "view_application", "change_application"
    browser = staff(*may, "add_group")
    wanted = {**NEW, "new_group": " Writers "}
    staff(*may).post(ADD, wanted | {"name": "Open"})
    assert Application.objects.filter(name="Open").exists()
    assert not Group.objects.exists()
    browser.post(ADD, wanted)
    assert groups_of(application, name="Inner") == (True, ["Writers"])
    assert saved(browser, application, is_restricted="on", new_group="Writers") == []
    assert groups_of(application) == (True, ["Writers"])
    assert not Group.objects.get().permissions.exists()
    assert AuditEntry.objects.get(action="group_created").name == "Writers"
    browser.post(ADD, NEW | {"groups": [Group.objects.get().pk], "new_group": "Readers", "name": "Both"})
    assert groups_of(application, name="Both") == (True, ["Readers", "Writers"])


def test_a_group_lists_the_applications_it_opens(admin_client: Client, application: Registered, readers: Group) -> None:
    path, name, pages = f"/admin/auth/group/{readers.pk}/", application.row.name, []
    for groups, browser in (([], admin_client), ([readers], admin_client), ([readers], staff("view_group"))):
        registry.set_groups(application.row, groups)
        pages.append(name in text_of(browser.get(path)))
    assert pages == [False, True, False]
    for page in (admin_page(application.row), "/admin/auth/group/"):
        assert f'href="{path}"' in html_of(admin_client.get(page))


def test_who_is_in_two_groups_learns_them_and_who_is_in_none_confirms_no_address_first(
    alice: User, application: Registered, readers: Group
) -> None:
    chosen = [readers, Group.objects.create(name="writers")]
    registry.set_groups(application.row, chosen)
    alice.groups.set(chosen)
    assert read(TokenFactory(application=application, user=alice).raw).status_code == 200
    browser = browser_of(alice)
    page = browser.get(f"{link_of(application)}&scope=openid+groups", headers=PAGE, follow=True)
    assert "readers, writers" in text_of(page)
    assert browser.post("/accounts/export").json()["groups"] == ["readers", "writers"]
    browser = with_session(PersonFactory(email_verified_at=None))
    assert "is for certain people only" in html_of(browser.get(link_of(application), headers=PAGE))
