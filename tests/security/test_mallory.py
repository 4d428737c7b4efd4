"""Attacks of Mallory, who has an account, an application and an address, but none of Alice's credentials."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
import requests

from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import AccessToken, AuthorizationCode, Consent
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import (
    PASSWORD,
    ApplicationFactory,
    CodeFactory,
    PersonFactory,
    Registered,
    TokenFactory,
    digest_of,
)


@contract("5.3", "D13.unspent")
def test_she_cannot_redeem_the_code_of_another_application(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    hers = ApplicationFactory()
    error_of(driver.exchange(hers, code), 400, "invalid_grant")
    error_of(driver.exchange(hers, code, client_id=application.client_id), 401, "invalid_client")
    error_of(driver.exchange(application, code, client_secret=hers.client_secret), 401, "invalid_client")
    assert not AccessToken.objects.filter(application__in=[hers.row, application.row]).exists()
    assert driver.exchange(application, code).status_code == 200


@contract("D19/expired-secret", "D19.stranger", "D13.unspent")
def test_she_gets_nothing_for_a_secret_that_was_replaced(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    hers = ApplicationFactory()
    new = secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret
    generic = error_of(driver.exchange(application, code, client_secret="wrong"), 401, "invalid_client")
    assert error_of(driver.exchange(application, code), 401, "invalid_client") != generic
    # Only a holder of the old secret learns that it existed, and for which application.
    for changes in (
        {"client_secret": application.client_secret[:-1]},
        {"client_secret": digest_of(application.client_secret).hex()},
        {"client_id": hers.client_id},
        {"client_id": "unknown"},
    ):
        assert error_of(driver.exchange(application, code, **changes), 401, "invalid_client") == generic
    assert not AccessToken.objects.filter(application=application.row).exists()
    assert driver.exchange(application, code, client_secret=new).status_code == 200


@contract("D9.s256", "D9.unasked")
def test_she_cannot_use_a_code_without_its_verifier_nor_smuggle_one_in(
    driver: OAuthDriver, application: Registered
) -> None:
    challenged = CodeFactory(application=application, code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM").raw
    error_of(driver.exchange(application, challenged), 400, "invalid_grant")
    plain = CodeFactory(application=application).raw
    error_of(driver.exchange(application, plain, code_verifier="a" * 43), 400, "invalid_grant")


@contract("D17.header")
def test_she_cannot_read_alice_with_her_own_token(driver: OAuthDriver, mallory: Any, alice: Any) -> None:
    token = TokenFactory(user=mallory).raw
    for path in (f"/oauth/userinfo?sub={alice.pk}", f"/oauth/userinfo/{alice.pk}"):
        answer = driver.call("GET", path, headers={"Authorization": f"Bearer {token}"})
        assert str(alice.pk) not in answer.text
        assert alice.email not in answer.text


TARGETS = [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example/",
    "/\t/evil.example/",
    "https:evil.example",
    "javascript:alert(1)",
    "http://localhost.evil.example/",
    "\x00/accounts/profile",
]


@contract("D3.nothing-before")
@pytest.mark.parametrize("target", TARGETS)
def test_she_cannot_lead_a_person_away_after_the_sign_in(driver: OAuthDriver, alice: Any, target: str) -> None:
    for path in ("/accounts/sign-in", "/accounts/sign-out", "/accounts/password/reset"):
        page = driver.open(f"{path}?next={quote(target, safe='')}")
        assert page.status_code in (200, 400), path
    form = Page(driver.open(f"/accounts/sign-in?next={quote(target, safe='')}")).sign_in
    if form:
        fields = {form.of_type("email", "text") or "": alice.email, form.of_type("password") or "": PASSWORD}
        for more in ({}, {"next": target}):
            location = driver.submit(form, follow=False, **fields, **more).headers.get("Location", "/")
            assert urlsplit(location).netloc in ("", urlsplit(driver.auth_url).netloc)
            assert location.startswith(("/", driver.auth_url))


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
def test_she_cannot_end_the_consent_of_alice_by_a_link(signed_in: OAuthDriver, application: Registered) -> None:
    signed_in.decide(signed_in.open(signed_in.authorization_url(application)), remember=True)
    for name in ("ask_again", "disconnect"):
        signed_in.get(f"/accounts/applications?{name}={application.client_id}")
        answer = signed_in.browser.post(
            f"{signed_in.auth_url}/accounts/applications",
            data={name: application.client_id},
            headers={"Origin": "https://evil.example"},
            allow_redirects=False,
            timeout=10,
        )
        assert answer.status_code in (302, 303, 403)
        assert signed_in.callback(signed_in.open(signed_in.authorization_url(application))).parameters["code"]


@contract("D7.revoked")
@pytest.mark.parametrize("has_allowed_it_too", [True, False])
def test_she_cannot_disconnect_an_application_from_alice(
    signed_in: OAuthDriver,
    another_driver: OAuthDriver,
    application: Registered,
    alice: Any,
    mallory: Any,
    has_allowed_it_too: bool,
) -> None:
    signed_in.decide(signed_in.open(signed_in.authorization_url(application)), remember=True)
    code, token = CodeFactory(application=application, user=alice), TokenFactory(application=application, user=alice)
    another_driver.signed_in(mallory.email, PASSWORD)
    if has_allowed_it_too:
        another_driver.decide(another_driver.open(another_driver.authorization_url(application)))
    forms = Page(another_driver.open("/accounts/sign-out")).forms
    form = next(form for form in forms if "csrfmiddlewaretoken" in form.fields)
    form.action = f"{another_driver.auth_url}/accounts/applications"
    for name in ("ask_again", "disconnect"):
        another_driver.submit(form, button=(name, application.client_id))
    assert not Consent.objects.filter(user=mallory).exists()
    assert signed_in.get(signed_in.authorization_url(application)).status_code == 302
    assert signed_in.userinfo(token.raw).status_code == 200
    assert signed_in.exchange(application, code.raw).status_code == 200


@contract("D15.dump")
def test_she_cannot_enter_the_admin(driver: OAuthDriver, application: Registered, mallory: Any) -> None:
    driver.signed_in(mallory.email, PASSWORD)
    pk = application.row.pk
    for path in ("", "oauth_bridge/application/", f"oauth_bridge/application/{pk}/secret/", "accounts/user/", "login/"):
        answer = driver.open(f"/admin/{path}")
        assert application.client_id not in answer.text, path
        assert answer.status_code in (200, 403, 404), path
        assert "Site administration" not in answer.text


@contract("D15.dump")
def test_she_cannot_make_a_secret_of_anothers_application(
    driver: OAuthDriver, another_driver: OAuthDriver, application: Registered, mallory: Any
) -> None:
    staff = PersonFactory(is_staff=True)
    for person in (staff, mallory):
        browser = OAuthDriver(driver.base_url, driver.auth_url).signed_in(person.email, PASSWORD)
        token = Page(browser.open("/accounts/profile")).forms[0].fields["csrfmiddlewaretoken"]
        answer = browser.browser.post(
            f"{driver.auth_url}/admin/oauth_bridge/application/{application.row.pk}/secret/",
            data={"csrfmiddlewaretoken": token, "overlap": "0", "confirmed": "on"},
            allow_redirects=False,
            timeout=10,
        )
        assert answer.status_code in (302, 403, 404)
        assert "secret" not in answer.headers.get("Location", "").rpartition("?")[0]
    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code).status_code == 200


def test_she_cannot_read_files_through_pictures(driver: OAuthDriver) -> None:
    request = requests.Request("GET", driver.base_url).prepare()
    for path in ("/avatars/../../etc/passwd", "/avatars/%2e%2e/%2e%2e/config/settings.py", "/logos/..%2f..%2fx"):
        request.url = f"{driver.base_url}{path}"
        assert driver.backend.send(request, timeout=10).status_code == 404


@contract("D8.one")
def test_a_stolen_code_of_an_older_post_is_worth_nothing(signed_in: OAuthDriver, application: Registered) -> None:
    page = signed_in.open(signed_in.authorization_url(application))
    stolen = signed_in.callback(signed_in.decide(page)).parameters["code"]
    fresh = signed_in.callback(signed_in.decide(page)).parameters["code"]
    error_of(signed_in.exchange(application, stolen), 400, "invalid_grant")
    token = signed_in.exchange(application, fresh).json()["access_token"]
    error_of(signed_in.exchange(application, stolen), 400, "invalid_grant")
    assert signed_in.userinfo(token).status_code == 200
    assert AuthorizationCode.objects.filter(application=application.row).count() == 1
