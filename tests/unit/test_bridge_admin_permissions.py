"""What each permission lets an administrator do with applications, and what a post of Mallory's does not get."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse

from oauth_bridge.models import Application, ApplicationSecret
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, PersonFactory
from tests.pages import admin_browser, html_of, proven, secret_on, text_of, with_session

pytestmark = pytest.mark.django_db

LIST = "/admin/oauth_bridge/application/"
FORM = {"name": "Reading List", "redirect_uris": "https://reading.example/callback", "client_type": "confidential"}
ELSEWHERE = {
    **FORM,
    "redirect_uris": "https://mallory.example/",
    "initiate_login_uri": "https://mallory.example/start",
    "post_logout_redirect_uris": "https://mallory.example/after",
    "backchannel_logout_uri": "https://mallory.example/told",
}
ALL = ["add", "change", "delete", "view", "rotate", "trust", "switch"]
Staff = Callable[..., Client]


@pytest.fixture
def staff() -> Staff:
    """`staff("add", "trust")` is the browser of an administrator with these permissions and no others."""

    def browser(*names: str) -> Client:
        codenames = ["rotate_applicationsecret" if name == "rotate" else f"{name}_application" for name in names]
        permissions = Permission.objects.filter(codename__in=codenames, content_type__app_label="oauth_bridge")
        assert len(permissions) == len(names)
        person = PersonFactory(is_staff=True, nickname="Mallory")
        person.user_permissions.set(permissions)
        return proven(with_session(person))

    return browser


def page_of(application: Application, name: str = "secret") -> str:
    return reverse(f"admin:oauth_bridge_application_{name}", args=[application.pk])


def act(application: Application, name: str) -> str:
    return reverse("admin:application_act", args=[application.pk, name])


def own(application: Application) -> str:
    return reverse("admin:application", args=[application.pk])


def others(*names: str) -> list[str]:
    return [name for name in ALL if name not in names]


def test_who_may_register_is_shown_the_new_secret_once_and_nothing_else(staff: Staff) -> None:
    browser = staff("add")
    answer = browser.post(f"{LIST}add/", FORM)
    assert browser.post(answer["Location"], {"overlap": "24"}).status_code == 403
    assert ApplicationSecret.objects.count() == 1
    page = browser.get(answer["Location"])
    assert secret_on(page)
    assert "Never used" not in text_of(page)
    assert "Make a new secret" not in text_of(page)
    for address in re.findall(r'href="(/admin/[^"]*)"', html_of(page)):
        assert browser.get(address).status_code in (200, 302), address
    assert browser.get(answer["Location"]).status_code == 403
    assert browser.post(answer["Location"], {"overlap": "24"}).status_code == 403
    assert browser.get(page_of(Application.objects.get(), "change")).status_code == 403
    page = browser.post(f"{LIST}add/", {**FORM, "name": "Kiosk", "client_type": "public"}, follow=True)
    public = Application.objects.get(client_type="public")
    assert f"Its client ID is {public.client_id}" in text_of(page)
    assert not public.secrets.exists()


def test_a_new_secret_is_shown_to_nobody_else_in_the_same_browser(staff: Staff) -> None:
    alice, mallory = staff("add"), staff("add")
    answer = alice.post(f"{LIST}add/", FORM)
    mallory.cookies["new_client_secret"] = answer.cookies["new_client_secret"].value
    assert mallory.get(answer["Location"]).status_code == 403
    root = admin_browser()
    root.cookies["new_client_secret"] = answer.cookies["new_client_secret"].value
    assert secret_on(root.get(answer["Location"])) is None


def test_without_the_permission_nobody_sees_the_page_of_secrets_or_makes_one(staff: Staff) -> None:
    browser, application = staff(*others("rotate")), ApplicationFactory().row
    assert page_of(application) not in html_of(browser.get(page_of(application, "change")))
    assert browser.get(page_of(application)).status_code == 403
    for data in ({}, {"overlap": "24"}, {"overlap": "0", "confirmed": "on"}):
        assert browser.post(page_of(application), data).status_code == 403
    assert ApplicationSecret.objects.filter(is_revoked=False, expires_at=None).count() == 1


def test_who_may_make_new_secrets_and_look_needs_no_more(staff: Staff) -> None:
    browser, application = staff("view", "rotate"), ApplicationFactory().row
    assert page_of(application) in html_of(browser.get(own(application)))
    answer = browser.post(page_of(application), {"overlap": "24"})
    assert secret_on(browser.get(answer["Location"]))
    assert browser.post(page_of(application, "change"), ELSEWHERE).status_code == 403


@contract("D7.trust")
def test_a_new_application_is_not_trusted(staff: Staff) -> None:
    browser = staff(*ALL)
    assert 'name="is_trusted"' not in html_of(browser.get(f"{LIST}add/"))
    browser.post(f"{LIST}add/", {**FORM, "is_trusted": "on"})
    assert not Application.objects.get().is_trusted


@contract("D7.trust")
def test_without_the_permission_an_application_does_not_become_trusted(staff: Staff) -> None:
    browser, application = staff(*others("trust")), ApplicationFactory().row
    assert act(application, "trust") not in html_of(browser.get(own(application)))
    assert browser.post(act(application, "trust")).status_code == 403
    assert browser.post(page_of(application, "change"), {**ELSEWHERE, "is_trusted": "on"}).status_code == 302
    application.refresh_from_db()
    assert {name: getattr(application, name) for name in ELSEWHERE} == ELSEWHERE
    assert not application.is_trusted


@contract("D7.trust")
def test_without_the_permission_codes_of_a_trusted_application_go_nowhere_else(staff: Staff) -> None:
    browser, application = staff(*others("trust")), ApplicationFactory(is_trusted=True).row
    assert 'name="redirect_uris"' not in html_of(browser.get(page_of(application, "change")))
    assert browser.post(act(application, "distrust")).status_code == 403
    assert browser.post(page_of(application, "change"), {**ELSEWHERE, "is_trusted": ""}).status_code == 302
    application.refresh_from_db()
    kept = (application.redirect_uris, application.initiate_login_uri, application.post_logout_redirect_uris)
    assert kept == ("https://client.example/callback", "", "")
    assert (application.name, application.backchannel_logout_uri, application.is_trusted) == ("Reading List", "", True)


def test_an_old_address_that_may_no_longer_be_registered_is_no_fault_of_a_form_without_it(staff: Staff) -> None:
    application = ApplicationFactory(is_trusted=True, redirect_uris="http://client.example/").row
    assert staff("change").post(page_of(application, "change"), FORM).status_code == 302
    page = staff("change", "trust").post(page_of(application, "change"), {**FORM, "redirect_uris": "http://a.example/"})
    assert "http is possible on this machine only" in text_of(page)


def test_who_may_trust_and_change_does_both(staff: Staff) -> None:
    browser, application = staff("view", "change", "trust"), ApplicationFactory().row
    for name, is_trusted in (("trust", True), ("distrust", False), ("trust", True)):
        assert browser.post(act(application, name)).status_code == 302
        application.refresh_from_db()
        assert application.is_trusted is is_trusted
    browser.post(page_of(application, "change"), ELSEWHERE)
    application.refresh_from_db()
    assert (application.redirect_uris, application.is_trusted) == (ELSEWHERE["redirect_uris"], True)


@pytest.mark.parametrize("missing", ["add", "change", "delete"])
def test_without_the_permission_nothing_is_registered_changed_or_deleted(staff: Staff, missing: str) -> None:
    browser, application = staff(*others(missing)), ApplicationFactory().row
    path, form = {
        "add": (f"{LIST}add/", FORM),
        "change": (page_of(application, "change"), {**ELSEWHERE, "is_trusted": "on"}),
        "delete": (page_of(application, "delete"), {"post": "yes", "typed": application.name}),
    }[missing]
    before = Application.objects.values().get()
    assert 'name="name"' not in html_of(browser.get(path))
    assert browser.post(path, form).status_code == 403
    assert Application.objects.values().get() == before


@pytest.mark.parametrize("permission", ["switch", ""])
def test_only_who_may_switch_switches_off_and_on(staff: Staff, permission: str) -> None:
    browser = staff("view", permission) if permission else staff(*others("switch"))
    application = ApplicationFactory().row
    version = application.credentials_version
    page = html_of(browser.get(own(application)))
    assert [act(application, name) in page for name in ("switch-off", "end-access")] == [bool(permission)] * 2
    for name, state in (("disable", False), ("enable", True), ("switch-off", False), ("switch-on", True)):
        if "-" in name:
            assert browser.post(act(application, name)).status_code == (302 if permission else 403)
        else:
            browser.post(LIST, {"action": name, "_selected_action": application.pk})
        application.refresh_from_db()
        assert application.is_enabled is (state or not permission), name
    assert browser.post(act(application, "end-access")).status_code == (302 if permission else 403)
    application.refresh_from_db()
    assert (application.credentials_version > version) is bool(permission)


def test_without_a_permission_to_look_nothing_is_shown(staff: Staff) -> None:
    application = ApplicationFactory().row
    for names in ((), ("add",), ("rotate",), ("trust",), ("rotate", "trust")):
        browser = staff(*names)
        for address in (LIST, *(page_of(application, name) for name in ("change", "history", "delete"))):
            assert browser.get(address).status_code == 403
