"""Applications in Django admin: registered with their own messages, secret shown once, nothing else to see. D15."""

import io
import re

import pytest
from django.urls import reverse
from django.utils import timezone
from PIL import Image

from config.infrastructure.errors import RequestError
from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import activity_counts, tokens
from tests.factories import ConsentFactory, PersonFactory, TokenFactory
from tests.pages import secret_on, text_of

pytestmark = pytest.mark.django_db
ADD = "/admin/oauth_bridge/application/add/"
FORM = {
    "name": "Reading List",
    "homepage": "https://reading.example",
    "redirect_uris": "https://reading.example/callback\r\nhttp://localhost:3000/cb",
    "client_type": "confidential",
}


@pytest.fixture
def registered(admin_client):
    answer = admin_client.post(ADD, FORM)
    return admin_client, answer, Application.objects.get()


def test_registering_leads_to_a_page_that_shows_the_secret_once(registered):
    browser, answer, application = registered
    assert answer.status_code == 303
    page = browser.get(answer["Location"])
    secret = secret_on(page)
    assert secret
    assert digest_of(secret) == bytes(ApplicationSecret.objects.get(application=application).digest)
    assert "no-store" in page["Cache-Control"]
    assert secret_on(browser.get(answer["Location"])) is None


def test_the_page_with_the_secret_has_all_that_a_product_asks_for(registered, settings):
    browser, answer, _application = registered
    with_secret, without = (browser.get(answer["Location"]).content.decode() for _time in range(2))
    for path in ("/oauth/token", "/oauth/userinfo", "/.well-known/openid-configuration"):
        assert f">{settings.BASE_URL}{path}</code>" in with_secret
    assert with_secret.count('id="client-id"') == without.count('id="client-id"') == 1
    assert "What to fill in" not in without
    assert "/docs/connect" not in with_secret, "who leaves the page has lost the secret"


def test_the_page_has_one_title(admin_client):
    for page, error in ((admin_client.get(ADD), ""), (admin_client.post(ADD, {}), "Error: ")):
        html = page.content.decode()
        assert f"<title>{error}Register an application · " in html
        assert "<h1>Register an application</h1>" in html


def test_the_secret_is_nowhere_else(registered):
    browser, answer, application = registered
    secret = secret_on(browser.get(answer["Location"]))
    change = reverse("admin:oauth_bridge_application_change", args=[application.pk])
    for path in (change, "/admin/oauth_bridge/application/", change.replace("change", "history")):
        assert secret not in browser.get(path).content.decode()
    assert secret not in answer["Location"]


def test_the_secret_of_one_application_is_not_shown_on_the_page_of_another(registered):
    browser, answer, application = registered
    other = Application.objects.create(name="Other", redirect_uris="https://other.example/")
    cookie = answer.cookies["new_client_secret"]
    page = reverse("admin:oauth_bridge_application_secret", args=[other.pk])
    browser.cookies["new_client_secret"] = cookie.value
    assert secret_on(browser.get(page)) is None
    assert cookie["path"] == reverse("admin:oauth_bridge_application_secret", args=[application.pk])
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"


def test_a_public_application_has_no_secret(admin_client):
    admin_client.post(ADD, {**FORM, "client_type": "public"})
    assert Application.objects.get().client_type == "public"
    assert not ApplicationSecret.objects.exists()


def test_every_bad_address_is_named_and_what_was_typed_stays(admin_client):
    page = admin_client.post(ADD, {**FORM, "redirect_uris": "http://a.example/\nhttps://b.example/#x"}).content.decode()
    assert "http://a.example/: http is possible on this machine only" in page
    assert "https://b.example/#x: a fragment" in page
    assert "Reading List" in page
    assert not Application.objects.exists()


def test_what_people_see_of_an_application_is_typed_in_here(registered):
    browser, _, application = registered
    change = reverse("admin:oauth_bridge_application_change", args=[application.pk])
    typed = {
        "operator": "Reading Ltd",
        "policy_uri": "https://reading.example/privacy",
        "tos_uri": "reading.example/terms",
        "initiate_login_uri": "https://reading.example/sign-in",
    }
    browser.post(change, {**FORM, **typed})
    application.refresh_from_db()
    stored = {name: getattr(application, name) for name in typed}
    assert stored == {**typed, "tos_uri": "https://reading.example/terms"}
    page = browser.post(change, {**FORM, **typed, "initiate_login_uri": "http://reading.example/"}).content.decode()
    assert "Use https; http is possible on localhost, 127.0.0.1 and [::1] only." in page


@pytest.mark.parametrize("field", ["name", "homepage", "redirect_uris"])
def test_a_nul_is_an_error_of_its_field(admin_client, field):
    answer = admin_client.post(ADD, {**FORM, field: FORM[field] + "\x00"})
    assert answer.status_code == 200
    assert not Application.objects.exists()


def test_a_logo_is_stored_anew_and_served_as_png(admin_client):
    picture = io.BytesIO()
    Image.new("RGB", (300, 200), "teal").save(picture, "JPEG")
    picture.seek(0)
    picture.name = "logo.jpg"
    admin_client.post(ADD, {**FORM, "new_logo": picture})
    application = Application.objects.get()
    answer = admin_client.get(reverse("logo", args=[application.logo]))
    assert answer["Content-Type"] == "image/png"
    assert "immutable" in answer["Cache-Control"]
    assert Image.open(io.BytesIO(answer.content)).size[0] == 256


def test_a_file_that_is_no_picture_is_a_clear_error(admin_client):
    upload = io.BytesIO(b"<svg onload=alert(1)>")
    upload.name = "logo.png"
    page = admin_client.post(ADD, {**FORM, "new_logo": upload})
    assert page.status_code == 200
    assert "picture" in page.content.decode().lower() or "image" in page.content.decode().lower()
    assert not Application.objects.exists()


def test_switching_off_and_on_is_recorded(registered):
    browser, _answer, application = registered
    for action, state in (("disable", False), ("enable", True)):
        browser.post("/admin/oauth_bridge/application/", {"action": action, "_selected_action": [application.pk]})
        application.refresh_from_db()
        assert application.is_enabled is state
    history = browser.get(reverse("admin:oauth_bridge_application_history", args=[application.pk]), follow=True)
    assert "Switched the application off" in history.content.decode()
    assert "Switched the application on" in history.content.decode()


def test_no_table_of_credentials_is_in_the_admin(admin_client):
    index = admin_client.get("/admin/").content.decode()
    assert "Application" in index
    for hidden in ("token", "Token", "ecret", "ession", "code"):
        assert f"/{hidden}" not in re.sub(r"<(link|script)[^>]*>", "", index)


@pytest.mark.parametrize(
    "lookup",
    [
        "/admin/accounts/user/?password__startswith=argon2",
        "/admin/accounts/user/?password__regex=(",
        "/admin/accounts/user/?sessions__session_key__startswith=a",
        "/admin/accounts/user/?nickname__exact=x",
        "/admin/oauth_bridge/application/?secrets__digest__isnull=0",
        "/admin/oauth_bridge/application/?client_type=%00",
    ],
)
def test_a_list_answers_no_question_that_its_page_does_not_offer(admin_client, lookup):
    assert admin_client.get(lookup).status_code in (302, 400)


@pytest.mark.parametrize("offered", ["application/?is_enabled__exact=1", "application/?client_type__exact=public&q=x"])
def test_the_filters_of_a_list_work(registered, offered):
    assert registered[0].get(f"/admin/oauth_bridge/{offered}").status_code == 200


def test_a_name_cannot_turn_the_text_of_a_page_around(admin_client):
    admin_client.post(ADD, {**FORM, "name": "Bank\u202egro.live"})
    assert not Application.objects.exists()


def test_deleting_counts_what_ends_and_asks_for_the_name(registered):
    browser, _, application = registered
    ConsentFactory(application=application, user=PersonFactory(), fingerprint="x")
    activity_counts.count(timezone.now(), application.client_id, Step.EXCHANGE, Outcome.SUCCEEDED, "")
    activity_counts.flush()
    token = TokenFactory(application=application)
    url = f"/admin/oauth_bridge/application/{application.pk}/delete/"
    text = text_of(browser.get(url))
    assert "People who have allowed it: 1 Client secrets: 1 Sign-ins in the last 30 days: 1" in text
    assert "object (" not in text
    for typed in ({}, {"typed": ""}, {"typed": "reading list"}):
        page = browser.post(url, {"post": "yes", **typed}, follow=True)
        assert "What you typed is something else. Nothing is deleted." in text_of(page)
        assert Application.objects.exists()
    page = browser.post(url, {"post": "yes", "typed": " Reading  List"}, follow=True)
    assert "What it had: people who have allowed it: 1, client secrets: 1" in text_of(page)
    assert not Application.objects.exists()
    assert not ApplicationSecret.objects.exists()
    assert not Consent.objects.exists()
    with pytest.raises(RequestError):
        tokens.read(token.raw)


def test_many_applications_are_not_deleted_at_once(registered):
    browser, _, application = registered
    form = {"action": "delete_selected", "_selected_action": application.pk, "post": "yes"}
    browser.post("/admin/oauth_bridge/application/", form)
    assert Application.objects.get() == application


def test_addresses_are_read_from_left_to_right_in_every_language(registered):
    browser, _answer, application = registered
    url = reverse("admin:oauth_bridge_application_change", args=[application.pk])
    page = browser.get(url, headers={"accept-language": "ar"}).content.decode()
    assert '<html lang="ar" dir="rtl">' in page
    for name in ("homepage", "policy_uri", "tos_uri", "initiate_login_uri", "redirect_uris"):
        [field] = re.findall(rf'<(?:input|textarea)[^>]* name="{name}"[^>]*>|<textarea name="{name}"[^>]*>', page)
        assert 'dir="ltr"' in field
