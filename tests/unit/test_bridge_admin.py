"""Applications in Django admin: registered with their own messages, secret shown once, nothing else to see. D15."""

import io
import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone
from PIL import Image

from config.infrastructure.errors import RequestError
from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.models import Application, ApplicationSecret, Consent
from oauth_bridge.random_values import digest_of
from oauth_bridge.storage import activity_counts, tokens
from tests.factories import ConsentFactory, PersonFactory, TokenFactory
from tests.pages import html_of, secret_on, text_of

pytestmark = pytest.mark.django_db
LIST = "/admin/oauth_bridge/application/"
ADD = f"{LIST}add/"
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


def page_of(application, name="change"):
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


def test_the_secret_of_one_application_is_not_shown_on_the_page_of_another(registered):
    browser, answer, application = registered
    other = Application.objects.create(name="Other", redirect_uris="https://other.example/")
    cookie = answer.cookies["new_client_secret"]
    browser.cookies["new_client_secret"] = cookie.value
    assert secret_on(browser.get(page_of(other, "secret"))) is None
    assert cookie["path"] == page_of(application, "secret")
    assert cookie["httponly"]
    assert cookie["samesite"] == "Strict"


def test_every_bad_address_is_named_and_what_was_typed_stays(admin_client):
    page = html_of(admin_client.post(ADD, {**FORM, "redirect_uris": "http://a.example/\nhttps://b.example/#x"}))
    assert "<title>Error: Register an application · " in page
    assert "http://a.example/: http is possible on this machine only" in page
    assert "https://b.example/#x: a fragment" in page
    assert "Reading List" in page
    assert not Application.objects.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "Reading List\x00"),
        ("name", "Bank\u202egro.live"),
        ("homepage", "https://reading.example\x00"),
        ("redirect_uris", "https://reading.example/\x00"),
        ("new_logo", SimpleUploadedFile("logo.png", b"<svg onload=alert(1)>")),
    ],
)
def test_what_cannot_be_stored_is_an_error_of_its_field(admin_client, field, value):
    page = admin_client.post(ADD, {**FORM, field: value})
    assert list(page.context["adminform"].form.errors) == [field]
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


def test_a_logo_is_stored_anew_and_served_as_png(admin_client):
    picture = io.BytesIO()
    Image.new("RGB", (300, 200), "teal").save(picture, "JPEG")
    admin_client.post(ADD, {**FORM, "new_logo": SimpleUploadedFile("logo.jpg", picture.getvalue())})
    answer = admin_client.get(reverse("logo", args=[Application.objects.get().logo]))
    assert answer["Content-Type"] == "image/png"
    assert "immutable" in answer["Cache-Control"]
    assert Image.open(io.BytesIO(answer.content)).size[0] == 256


def test_switching_off_and_on_is_recorded(registered):
    browser, _answer, application = registered
    for action, state in (("disable", False), ("enable", True)):
        browser.post(LIST, {"action": action, "_selected_action": [application.pk]})
        application.refresh_from_db()
        assert application.is_enabled is state
    history = html_of(browser.get(page_of(application, "history"), follow=True))
    assert "Switched the application off" in history
    assert "Switched the application on" in history


def test_no_table_of_credentials_is_in_the_admin(admin_client):
    index = html_of(admin_client.get("/admin/"))
    assert "Application" in index
    for hidden in ("token", "Token", "ecret", "ession", "code"):
        assert f"/{hidden}" not in re.sub(r"<(link|script)[^>]*>", "", index)


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


def test_deleting_counts_what_ends_and_asks_for_the_name(registered):
    browser, _, application = registered
    ConsentFactory(application=application, user=PersonFactory(), fingerprint="x")
    activity_counts.count(timezone.now(), application.client_id, Step.EXCHANGE, Outcome.SUCCEEDED, "")
    activity_counts.flush()
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


def test_addresses_are_read_from_left_to_right_in_every_language(registered):
    browser, _answer, application = registered
    page = html_of(browser.get(page_of(application), headers={"accept-language": "ar"}))
    assert '<html lang="ar" dir="rtl">' in page
    for name in ("homepage", "policy_uri", "tos_uri", "initiate_login_uri", "redirect_uris"):
        [field] = re.findall(rf'<(?:input|textarea)[^>]* name="{name}"[^>]*>', page)
        assert 'dir="ltr"' in field
