"""Attacks of Mallory, who has an account, an application and an address, but none of Alice's credentials."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from django.test import Client

from oauth_bridge.models import Consent
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.pages import sign_in

TARGETS = ["https://evil.example/", "//evil.example/", "///evil.example", "/\\evil.example/", "\\\\evil.example"]
TARGETS += ["/\t/evil.example/", "https:evil.example", "javascript:alert(1)", "http://localhost.evil.example/"]
TARGETS += ["/accounts\r\nSet-Cookie: a=b", "\x00/accounts/profile", "http://testserver/accounts/profile", "profile"]


@contract("D3.nothing-before")
@pytest.mark.django_db
@pytest.mark.parametrize("target", TARGETS)
def test_she_cannot_lead_a_person_away_after_the_sign_in(client: Client, alice: Any, target: str) -> None:
    for path in ("/accounts/sign-in", "/accounts/password/reset"):
        assert client.get(path, {"next": target}).context["return_to"] == "", path
    query = f"?next={quote(target, safe='')}"
    for more in ({}, {"next": target}):
        assert sign_in(client, alice.email, query=query, **more)["Location"] == "/accounts/profile"
        assert client.get(f"/accounts/sign-out{query}").status_code == 200
        assert client.post(f"/accounts/sign-out{query}", more)["Location"] == "/accounts/sign-in"


@contract("D3.order")
def test_she_cannot_caption_a_sign_in_that_leads_elsewhere(driver: OAuthDriver, application: Registered) -> None:
    to_sign_in = driver.get(driver.authorization_url(application)).headers["Location"]
    assert application.row.name in Page(driver.open(to_sign_in)).text
    caption = parse_qs(urlsplit(to_sign_in).query)
    forged = "/accounts/sign-in?" + "&".join(
        f"{name}={quote('/accounts/profile' if name == 'next' else values[0], safe='')}"
        for name, values in caption.items()
    )
    assert application.row.name not in Page(driver.open(forged)).text


@contract("D7.revoked")
@pytest.mark.parametrize("has_allowed_it_too", [True, False])
def test_she_ends_no_consent_of_alice_by_a_link_a_form_of_hers_or_her_own_account(
    signed_in: OAuthDriver,
    another_driver: OAuthDriver,
    application: Registered,
    alice: Any,
    mallory: Any,
    has_allowed_it_too: bool,
) -> None:
    signed_in.decide(signed_in.open(signed_in.authorization_url(application)), remember=True)
    code, token = CodeFactory(application=application, user=alice), TokenFactory(application=application, user=alice)
    page = "/accounts/applications"
    another_driver.signed_in(mallory.email, PASSWORD)
    if has_allowed_it_too:
        another_driver.decide(another_driver.open(another_driver.authorization_url(application)))
    forms = Page(another_driver.open("/accounts/sign-out")).forms
    form = next(form for form in forms if "csrfmiddlewaretoken" in form.fields)
    form.action = f"{another_driver.auth_url}{page}"
    elsewhere = {"Origin": "https://evil.example"}
    for name in ("ask_again", "disconnect"):
        another_driver.submit(form, button=(name, application.client_id))
        signed_in.get(f"{page}?{name}={application.client_id}")
        sent = {name: application.client_id}
        signed_in.browser.post(f"{signed_in.auth_url}{page}", data=sent, headers=elsewhere, timeout=10)
    assert not Consent.objects.filter(user=mallory).exists()
    assert signed_in.get(signed_in.authorization_url(application)).status_code == 302
    assert signed_in.userinfo(token.raw).status_code == 200
    assert signed_in.exchange(application, code.raw).status_code == 200


@contract("D15.dump")
def test_she_cannot_enter_the_admin_or_make_a_secret(
    driver: OAuthDriver, another_driver: OAuthDriver, application: Registered, mallory: Any
) -> None:
    secret = f"/admin/oauth_bridge/application/{application.row.pk}/act/new-secret/"
    driver.signed_in(mallory.email, PASSWORD)
    for path in ("/admin/", "/admin/oauth_bridge/application/", secret, "/admin/accounts/user/", "/admin/login/"):
        answer = driver.open(path)
        assert application.client_id not in answer.text, path
        assert answer.status_code in (200, 403, 404), path
        assert "Site administration" not in answer.text
    for browser in (driver, another_driver.signed_in(PersonFactory(is_staff=True).email, PASSWORD)):
        form = Page(browser.open("/accounts/profile")).forms[0]
        form.action, form.fields = f"{driver.auth_url}{secret}", {"overlap": "24", "confirmed": "on", **form.fields}
        answer = browser.submit(form, follow=False)
        assert answer.status_code in (302, 403, 404)
        assert "secret" not in answer.headers.get("Location", "").rpartition("?")[0]
    assert driver.exchange(application, CodeFactory(application=application).raw).status_code == 200
