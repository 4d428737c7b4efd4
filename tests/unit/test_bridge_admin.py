"""Applications in Django admin: what their pages do, the secret shown once (D15), and what each permission allows."""

from __future__ import annotations

import re

import pytest
from django.utils import timezone

from accounts.models import StoredPicture
from config.infrastructure.errors import RequestError
from oauth_bridge.activity import counts
from oauth_bridge.applications import registry
from oauth_bridge.credentials import tokens
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.models.activity import Outcome, Step
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, ConsentFactory, PersonFactory, TokenFactory, opened, picture, upload
from tests.pages import admin_browser, admin_page, html_of, secret_on, staff, text_of

pytestmark = pytest.mark.django_db
LIST = "/admin/oauth_bridge/application/"
ADD = f"{LIST}add/"
ADDRESSES = "https://reading.example/callback\r\nhttp://localhost:3000/cb"
FORM = {"name": "Reading List", "redirect_uris": ADDRESSES, "client_type": "confidential", "id_token_alg": "RS256"}


@pytest.fixture
def registered(admin_client):
    answer = admin_client.post(ADD, FORM)
    return admin_client, answer, Application.objects.get()


def test_registering_leads_to_a_page_that_shows_the_secret_once(registered, settings):
    browser, answer, application = registered
    assert answer.status_code == 303
    page, again = (browser.get(answer["Location"]) for _time in range(2))
    secret = secret_on(page) or ""
    assert digest_of(secret) == bytes(ApplicationSecret.objects.get(application=application).digest)
    assert "no-store" in page["Cache-Control"]
    for path in ("/oauth/token", "/oauth/userinfo", "/.well-known/openid-configuration"):
        assert f">{settings.BASE_URL}{path}</code>" in html_of(page)
    assert "/docs/connect" not in html_of(page), "who leaves the page has lost the secret"
    assert again["Location"] == admin_page(application)
    for path in (admin_page(application), admin_page(application, "change"), LIST, admin_page(application, "history")):
        assert secret not in html_of(browser.get(path))
    assert secret not in answer["Location"]


def test_every_bad_address_is_named_and_what_was_typed_stays_from_left_to_right(admin_client):
    answer = admin_client.post(ADD, {**FORM, "redirect_uris": "http://a.example/\nhttps://b.example/#x"})
    page = html_of(answer)
    assert "<title>Error: Register an application · " in page
    assert "http://a.example/: http is possible on this machine only" in page
    assert "https://b.example/#x: a fragment" in page
    assert "Reading List" in page
    for name in ("homepage", "policy_uri", "tos_uri", "initiate_login_uri", "redirect_uris"):
        [field] = re.findall(rf'<(?:input|textarea)[^>]* name="{name}"[^>]*>', page)
        assert 'dir="ltr"' in field
    assert not Application.objects.exists()


def logo(height=200):
    return upload(picture("JPEG", (300, height)), "logo.jpg")


def test_a_logo_is_stored_as_png_until_it_is_replaced_removed_or_deleted_with_its_application(registered):
    browser, _, application = registered
    for wrong in ({"redirect_uris": "x", "new_logo": logo()}, {"new_logo": upload(b"<svg onload=alert(1)>")}):
        assert browser.post(admin_page(application, "change"), {**FORM, **wrong}).status_code == 200
    assert not StoredPicture.objects.exists()
    addresses = []
    for change in ({"new_logo": logo()}, {"new_logo": logo(201)}, {"remove_logo": "on"}, {"new_logo": logo()}):
        browser.post(admin_page(application, "change"), {**FORM, **change})
        addresses.append(Application.objects.get().logo_url)
    assert (len(set(addresses)), addresses[2]) == (4, "")
    *replaced, answer = [browser.get(address) for address in addresses if address]
    assert [each.status_code for each in replaced] == [404, 404]
    assert (answer["Content-Type"], "immutable" in answer["Cache-Control"]) == ("image/png", True)
    assert opened(answer.content).size[0] == 256
    registry.delete(Application.objects.get())
    assert browser.get(addresses[-1])["Cache-Control"] == "no-store"
    assert not StoredPicture.objects.exists()


def test_a_list_answers_no_question_that_its_page_does_not_offer(registered):
    hostile = [
        "accounts/user/?password__regex=(",
        "accounts/user/?sessions__session_key__startswith=a",
        "oauth_bridge/application/?secrets__digest__isnull=0",
        "oauth_bridge/application/?client_type=%00",
    ]
    for lookup in hostile:
        assert registered[0].get(f"/admin/{lookup}").status_code in (302, 400), lookup
    assert registered[0].get(f"{LIST}?is_enabled__exact=1&q=x").status_code == 200


def test_deleting_counts_what_ends_and_asks_for_the_name_of_what_was_used(registered):
    browser, _, application = registered
    unused = admin_page(ApplicationFactory().row, "delete")
    assert "type" not in text_of(browser.get(unused))
    browser.post(unused, {"post": "yes"})
    ConsentFactory(application=application, user=PersonFactory(), fingerprint="x")
    counts.count(timezone.now(), application.client_id, Step.EXCHANGE, Outcome.SUCCEEDED, "")
    counts.flush()
    token = TokenFactory(application=application)
    url = admin_page(application, "delete")
    told = "People who have allowed it: 1 Client secrets: 1 Sign-ins in the last 30 days: 1"
    assert told in text_of(browser.get(url))
    browser.post(LIST, {"action": "delete_selected", "_selected_action": application.pk, "post": "yes"})
    for typed in ({}, {"typed": ""}, {"typed": "reading list"}):
        page = browser.post(url, {"post": "yes", **typed}, follow=True)
        assert "What you typed is something else. Nothing is deleted." in text_of(page)
        assert Application.objects.exists()
    browser.post(url, {"post": "yes", "typed": " Reading  List"})
    for model in (Application, ApplicationSecret, Consent):
        assert not model.objects.exists()
    with pytest.raises(RequestError):
        tokens.read(token.raw)


ALL = [f"{each}_application" for each in ("add", "change", "delete", "view", "trust", "switch")]
ALL.append("rotate_applicationsecret")
ELSEWHERE = {
    **FORM,
    "redirect_uris": "https://mallory.example/",
    "initiate_login_uri": "https://mallory.example/start",
    "post_logout_redirect_uris": "https://mallory.example/after",
}


def test_who_may_register_is_shown_the_new_secret_once_and_nothing_else() -> None:
    browser = staff("add_application")
    answer = browser.post(ADD, FORM)
    page = browser.get(answer["Location"])
    assert secret_on(page)
    assert browser.get(answer["Location"], follow=True).status_code == 403
    made = Application.objects.get()
    assert browser.post(admin_page(made, "act", "new-secret"), {"overlap": "24"}).status_code == 403
    assert browser.get(admin_page(made, "change")).status_code == 403
    assert ApplicationSecret.objects.count() == 1
    page = browser.post(ADD, {**FORM, "client_type": "public"}, follow=True)
    public = Application.objects.get(client_type="public")
    assert f"Its client ID is {public.client_id}" in text_of(page)
    assert not public.secrets.exists()
    page = staff("add_application", "view_application").post(ADD, {**FORM, "name": "Counter", "client_type": "public"})
    assert page["Location"] == admin_page(Application.objects.get(name="Counter"))


def test_a_new_secret_is_shown_to_nobody_else_in_the_same_browser() -> None:
    alice, mallory = staff("add_application"), staff("add_application")
    root, other = admin_browser(), ApplicationFactory().row
    answer = alice.post(ADD, FORM)
    cookie = answer.cookies["new_client_secret"]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (answer["Location"], True, "Strict")
    for browser in (mallory, root, alice):
        browser.cookies["new_client_secret"] = cookie.value
    assert mallory.get(answer["Location"]).status_code == 403
    for path in (answer["Location"], admin_page(other, "secret")):
        assert secret_on(root.get(path, follow=True)) is None
    assert alice.get(admin_page(other, "secret")).status_code == 403


@contract("D7.trust")
def test_a_new_application_is_not_trusted_and_does_not_become_so_without_the_permission() -> None:
    browser = staff(*ALL)
    assert 'name="is_trusted"' not in html_of(browser.get(ADD))
    browser.post(ADD, {**FORM, "is_trusted": "on"})
    assert not Application.objects.get().is_trusted


@contract("D7.trust")
@pytest.mark.parametrize("is_trusted", [False, True])
def test_without_the_permission_codes_of_a_trusted_application_go_nowhere_else(is_trusted: bool) -> None:
    browser, application = staff(*{*ALL} - {"trust_application"}), ApplicationFactory(is_trusted=is_trusted).row
    change, act = (
        admin_page(application, "change"),
        admin_page(application, "act", "distrust" if is_trusted else "trust"),
    )
    kept = {"redirect_uris": application.redirect_uris, "initiate_login_uri": "", "post_logout_redirect_uris": ""}
    assert act not in html_of(browser.get(admin_page(application)))
    assert browser.post(act).status_code == 403
    assert ('name="redirect_uris"' in html_of(browser.get(change))) is not is_trusted
    assert browser.post(change, {**ELSEWHERE, "is_trusted": "" if is_trusted else "on"}).status_code == 302
    expected = ELSEWHERE | (kept if is_trusted else {}) | {"is_trusted": is_trusted}
    assert Application.objects.filter(pk=application.pk).values(*expected).get() == expected


@pytest.mark.parametrize("missing", ["add", "change", "delete", "rotate", "switch"])
def test_without_the_permission_nothing_is_shown_registered_changed_or_deleted_and_no_secret_made(missing: str) -> None:
    application = ApplicationFactory().row
    path, form = {
        "add": (ADD, FORM),
        "change": (admin_page(application, "change"), {**ELSEWHERE, "is_trusted": "on"}),
        "delete": (admin_page(application, "delete"), {"post": "yes", "typed": application.name}),
        "rotate": (admin_page(application, "act", "new-secret"), {"overlap": "24", "confirmed": "on"}),
        "switch": (admin_page(application, "act", "switch-off"), {}),
    }[missing]
    before = [*Application.objects.values(), *ApplicationSecret.objects.values()]
    browser, nobody = staff(*(each for each in ALL if not each.startswith(missing))), staff("trust_application")
    more = LIST, admin_page(application, "history"), admin_page(application, "secret_act", 1, "end")
    assert {nobody.get(each).status_code for each in (path, *more)} == {403}
    assert path not in html_of(browser.get(admin_page(application)))
    assert 'name="name"' not in html_of(browser.get(path))
    assert browser.post(path, form).status_code == 403
    if missing == "switch":
        assert browser.post(admin_page(application, "act", "end-access")).status_code == 403
        browser.post(LIST, {"action": "disable", "_selected_action": application.pk, "post": "yes"})
    assert [*Application.objects.values(), *ApplicationSecret.objects.values()] == before
