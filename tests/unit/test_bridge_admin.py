"""Applications in Django admin: what their pages do, the secret shown once (D15), and what each permission allows."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from PIL import Image

from accounts.models import StoredPicture
from config.infrastructure.errors import RequestError
from oauth_bridge.activity import counts
from oauth_bridge.applications import registry
from oauth_bridge.credentials import tokens
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.models.activity import Outcome, Step
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory, TokenFactory
from tests.pages import admin_browser, html_of, proven, secret_on, text_of, with_session

pytestmark = pytest.mark.django_db
LIST = "/admin/oauth_bridge/application/"
ADD = f"{LIST}add/"
ADDRESSES = "https://reading.example/callback\r\nhttp://localhost:3000/cb"
FORM = {"name": "Reading List", "redirect_uris": ADDRESSES, "client_type": "confidential"}


@pytest.fixture
def registered(admin_client):
    answer = admin_client.post(ADD, FORM)
    return admin_client, answer, Application.objects.get()


def page_of(application: Application, name: str = "change") -> str:
    return reverse(f"admin:oauth_bridge_application_{name}", args=[application.pk])


def test_registering_leads_to_a_page_that_shows_the_secret_once(registered, settings):
    browser, answer, application = registered
    assert answer.status_code == 303
    page, again = (browser.get(answer["Location"]) for _time in range(2))
    secret = secret_on(page)
    assert secret
    assert digest_of(secret) == bytes(ApplicationSecret.objects.get(application=application).digest)
    assert "no-store" in page["Cache-Control"]
    for path in ("/oauth/token", "/oauth/userinfo", "/.well-known/openid-configuration"):
        assert f">{settings.BASE_URL}{path}</code>" in html_of(page)
    assert "/docs/connect" not in html_of(page), "who leaves the page has lost the secret"
    assert html_of(page).count('id="client-id"') == html_of(again).count('id="client-id"') == 1
    assert "What to fill in" not in html_of(again)
    assert secret_on(again) is None
    for path in (page_of(application), LIST, page_of(application, "history")):
        assert secret not in html_of(browser.get(path))
    assert secret not in answer["Location"]


def test_every_bad_address_is_named_and_what_was_typed_stays(admin_client):
    page = html_of(admin_client.post(ADD, {**FORM, "redirect_uris": "http://a.example/\nhttps://b.example/#x"}))
    assert "<title>Error: Register an application · " in page
    assert "http://a.example/: http is possible on this machine only" in page
    assert "https://b.example/#x: a fragment" in page
    assert "Reading List" in page
    assert not Application.objects.exists()




def test_what_people_see_of_an_application_is_typed_in_here(registered):
    browser, _, application = registered
    typed = {
        "operator": "Reading Ltd",
        "policy_uri": "https://reading.example/privacy",
        "tos_uri": "reading.example/terms",
        "initiate_login_uri": "https://reading.example/sign-in",
    }
    browser.post(page_of(application), {**FORM, **typed})
    stored = Application.objects.values(*typed).get()
    assert stored == {**typed, "tos_uri": "https://reading.example/terms"}
    page = browser.post(page_of(application), {**FORM, **typed, "initiate_login_uri": "http://reading.example/"})
    assert "Use https; http is possible on localhost, 127.0.0.1 and [::1] only." in html_of(page)
    arabic = html_of(browser.get(page_of(application), headers={"accept-language": "ar"}))
    for name in ("homepage", "policy_uri", "tos_uri", "initiate_login_uri", "redirect_uris"):
        [field] = re.findall(rf'<(?:input|textarea)[^>]* name="{name}"[^>]*>', arabic)
        assert 'dir="ltr"' in field


def logo(color="teal"):
    picture = io.BytesIO()
    Image.new("RGB", (300, 200), color).save(picture, "JPEG")
    return SimpleUploadedFile("logo.jpg", picture.getvalue())


def test_a_logo_is_stored_anew_and_served_as_png(admin_client):
    admin_client.post(ADD, {**FORM, "redirect_uris": "x", "new_logo": logo()})
    assert not StoredPicture.objects.exists()
    admin_client.post(ADD, {**FORM, "new_logo": logo()})
    answer = admin_client.get(reverse("logo", args=[Application.objects.get().logo]))
    assert answer["Content-Type"] == "image/png"
    assert "immutable" in answer["Cache-Control"]
    assert Image.open(io.BytesIO(answer.content)).size[0] == 256


def test_a_logo_that_was_replaced_or_removed_and_that_of_a_deleted_application_is_gone(registered):
    browser, _, application = registered
    addresses = []
    for change in ({"new_logo": logo()}, {"new_logo": logo("red")}, {"remove_logo": "on"}, {"new_logo": logo()}):
        browser.post(page_of(application), {**FORM, **change})
        addresses.append(Application.objects.get().logo_url)
    assert len(set(addresses)) == 4
    statuses = [browser.get(address).status_code if address else 0 for address in addresses]
    assert statuses == [404, 404, 0, 200]
    registry.delete(Application.objects.get())
    answer = browser.get(addresses[-1])
    assert (answer.status_code, answer["Cache-Control"]) == (404, "no-store")
    assert not StoredPicture.objects.exists()




def test_a_list_answers_no_question_that_its_page_does_not_offer(registered):
    hostile = [
        "accounts/user/?password__startswith=argon2",
        "accounts/user/?password__regex=(",
        "accounts/user/?sessions__session_key__startswith=a",
        "accounts/user/?nickname__exact=x",
        "oauth_bridge/application/?secrets__digest__isnull=0",
        "oauth_bridge/application/?client_type=%00",
    ]
    for lookup in hostile:
        assert registered[0].get(f"/admin/{lookup}").status_code in (302, 400), lookup
    for offered in ("?is_enabled__exact=1", "?client_type__exact=public&q=x"):
        assert registered[0].get(f"{LIST}{offered}").status_code == 200


def test_deleting_counts_what_ends_and_asks_for_the_name_of_what_was_used(registered):
    browser, _, application = registered
    unused = ApplicationFactory(name="Kiosk").row
    assert "type" not in text_of(browser.get(page_of(unused, "delete")))
    browser.post(page_of(unused, "delete"), {"post": "yes"})
    ConsentFactory(application=application, user=PersonFactory(), fingerprint="x")
    counts.count(timezone.now(), application.client_id, Step.EXCHANGE, Outcome.SUCCEEDED, "")
    counts.flush()
    token = TokenFactory(application=application)
    url = page_of(application, "delete")
    text = text_of(browser.get(url))
    assert "People who have allowed it: 1 Client secrets: 1 Sign-ins in the last 30 days: 1" in text
    assert "object (" not in text
    browser.post(LIST, {"action": "delete_selected", "_selected_action": application.pk, "post": "yes"})
    for typed in ({}, {"typed": ""}, {"typed": "reading list"}):
        page = browser.post(url, {"post": "yes", **typed}, follow=True)
        assert "What you typed is something else. Nothing is deleted." in text_of(page)
        assert Application.objects.exists()
    page = browser.post(url, {"post": "yes", "typed": " Reading  List"}, follow=True)
    assert "What it had: people who have allowed it: 1, client secrets: 1" in text_of(page)
    for model in (Application, ApplicationSecret, Consent):
        assert not model.objects.exists()
    with pytest.raises(RequestError):
        tokens.read(token.raw)


ELSEWHERE = {
    **FORM,
    "redirect_uris": "https://mallory.example/",
    "initiate_login_uri": "https://mallory.example/start",
    "post_logout_redirect_uris": "https://mallory.example/after",
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


def act(application: Application, name: str) -> str:
    return reverse("admin:application_act", args=[application.pk, name])


def own(application: Application) -> str:
    return reverse("admin:application", args=[application.pk])


def others(*names: str) -> list[str]:
    return [name for name in ALL if name not in names]


def test_who_may_register_is_shown_the_new_secret_once_and_nothing_else(staff: Staff) -> None:
    browser = staff("add")
    answer = browser.post(ADD, FORM)
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
    assert browser.get(page_of(Application.objects.get())).status_code == 403
    page = browser.post(ADD, {**FORM, "name": "Kiosk", "client_type": "public"}, follow=True)
    public = Application.objects.get(client_type="public")
    assert f"Its client ID is {public.client_id}" in text_of(page)
    assert not public.secrets.exists()
    page = staff("add", "view").post(ADD, {**FORM, "name": "Counter", "client_type": "public"}, follow=True)
    assert page.request["PATH_INFO"] == own(Application.objects.get(name="Counter"))
    assert "data-copy" in html_of(page)


def test_a_new_secret_is_shown_to_nobody_else_in_the_same_browser(staff: Staff) -> None:
    alice, mallory, root, other = staff("add"), staff("add"), admin_browser(), ApplicationFactory().row
    answer = alice.post(ADD, FORM)
    cookie = answer.cookies["new_client_secret"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (answer["Location"], True, "Strict")
    for browser in (mallory, root, alice):
        browser.cookies["new_client_secret"] = cookie.value
    assert mallory.get(answer["Location"]).status_code == 403
    assert secret_on(root.get(answer["Location"])) is None
    assert secret_on(root.get(page_of(other, "secret"))) is None
    assert secret_on(alice.get(page_of(other, "secret"))) is None


@contract("D7.trust")
def test_a_new_application_is_not_trusted_and_does_not_become_so_without_the_permission(staff: Staff) -> None:
    browser = staff(*ALL)
    assert 'name="is_trusted"' not in html_of(browser.get(ADD))
    browser.post(ADD, {**FORM, "is_trusted": "on"})
    assert not Application.objects.get().is_trusted
    browser, application = staff(*others("trust")), ApplicationFactory().row
    assert act(application, "trust") not in html_of(browser.get(own(application)))
    assert browser.post(act(application, "trust")).status_code == 403
    assert browser.post(page_of(application), {**ELSEWHERE, "is_trusted": "on"}).status_code == 302
    application.refresh_from_db()
    assert {name: getattr(application, name) for name in ELSEWHERE} == ELSEWHERE
    assert not application.is_trusted


@contract("D7.trust")
def test_without_the_permission_codes_of_a_trusted_application_go_nowhere_else(staff: Staff) -> None:
    browser, application = staff(*others("trust")), ApplicationFactory(is_trusted=True).row
    assert 'name="redirect_uris"' not in html_of(browser.get(page_of(application)))
    assert browser.post(act(application, "distrust")).status_code == 403
    assert browser.post(page_of(application), {**ELSEWHERE, "is_trusted": ""}).status_code == 302
    application.refresh_from_db()
    kept = (application.redirect_uris, application.initiate_login_uri, application.post_logout_redirect_uris)
    assert kept == ("https://client.example/callback", "", "")
    assert (application.name, application.is_trusted) == ("Reading List", True)


def test_an_old_address_that_may_no_longer_be_registered_is_no_fault_of_a_form_without_it(staff: Staff) -> None:
    application = ApplicationFactory(is_trusted=True, redirect_uris="http://client.example/").row
    assert staff("change").post(page_of(application), FORM).status_code == 302
    page = staff("change", "trust").post(page_of(application), {**FORM, "redirect_uris": "http://a.example/"})
    assert "http is possible on this machine only" in text_of(page)




@pytest.mark.parametrize("missing", ["add", "change", "delete", "rotate"])
def test_without_the_permission_nothing_is_registered_changed_or_deleted_and_no_secret_made(
    staff: Staff, missing: str
) -> None:
    browser, application = staff(*others(missing)), ApplicationFactory().row
    path, form = {
        "add": (ADD, FORM),
        "change": (page_of(application), {**ELSEWHERE, "is_trusted": "on"}),
        "delete": (page_of(application, "delete"), {"post": "yes", "typed": application.name}),
        "rotate": (page_of(application, "secret"), {"overlap": "0", "confirmed": "on"}),
    }[missing]
    before = [*Application.objects.values(), *ApplicationSecret.objects.values()]
    assert path not in html_of(browser.get(own(application)))
    assert 'name="name"' not in html_of(browser.get(path))
    assert browser.post(path, form).status_code == 403
    assert [*Application.objects.values(), *ApplicationSecret.objects.values()] == before


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
            browser.post(LIST, {"action": name, "_selected_action": application.pk, "post": "yes"})
        application.refresh_from_db()
        assert application.is_enabled is (state or not permission), name
    history = html_of(browser.get(page_of(application, "history"), follow=True)).partition("<tbody")[2]
    for state in ("off", "on"):
        assert (f"Switched the application {state}" in history) is bool(permission)
    assert browser.post(act(application, "end-access")).status_code == (302 if permission else 403)
    application.refresh_from_db()
    assert (application.credentials_version > version) is bool(permission)


def test_many_are_switched_off_for_a_reason_after_a_question_and_those_that_are_off_are_left_alone(
    admin_client: Client,
) -> None:
    on, off = ApplicationFactory(), ApplicationFactory(is_enabled=False)
    form = {"action": "disable", "_selected_action": [on.row.pk, off.row.pk]}
    asked = text_of(admin_client.post(LIST, form))
    assert "Switch off: 1 chosen" in asked
    assert (on.row.name in asked, off.row.name in asked) == (True, False)
    assert Application.objects.filter(is_enabled=True).count() == 1
    done = admin_client.post(LIST, {**form, "post": "yes", "reason": "Sold"}, follow=True)
    assert "1 application changed. 1 needed no change." in text_of(done)
    assert set(Application.objects.values_list("is_enabled", "disabled_reason")) == {(False, "Sold"), (False, "")}
    done = admin_client.post(LIST, form, follow=True)
    assert "0 applications changed. 2 needed no change." in text_of(done)


def test_without_a_permission_to_look_nothing_is_shown(staff: Staff) -> None:
    application = ApplicationFactory().row
    for names in ((), ("add",), ("rotate",), ("trust",), ("rotate", "trust")):
        browser = staff(*names)
        for address in (LIST, *(page_of(application, name) for name in ("change", "history", "delete"))):
            assert browser.get(address).status_code == 403
