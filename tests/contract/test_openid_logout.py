"""An application signs its person out. OpenID Connect RP-Initiated Logout 1.0."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import jwt
import pytest
from joserfc.jwk import RSAKey

from oauth_bridge.openid import signing_keys
from tests.contract.test_openid import exchanged, remade
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, Registered

pytestmark = pytest.mark.usefixtures("only_keys_of_the_service")

BACK = "https://app.example/after?from=sign-out"
PRIVATE = "com.example.app:/after"
UNREGISTERED = "is not one that is registered"
ANOTHERS = "was issued to another application"
NOT_OURS = "is no ID token that this service issued"


@pytest.fixture
def leaving(committed: None) -> Registered:
    return ApplicationFactory(post_logout_redirect_uris=f"{BACK}\n{PRIVATE}")


def logout(driver: OAuthDriver, **parameters: str) -> Any:
    return driver.get(f"/oauth/logout?{urlencode(parameters, quote_via=quote)}")


def is_signed_in(driver: OAuthDriver) -> bool:
    return bool(driver.get("/accounts/profile").status_code == 200)


def question(answer: Any) -> Any:
    assert answer.status_code == 200
    return next(form for form in Page(answer).forms if "leaving" in form.fields)


def token_of(driver: OAuthDriver, application: Registered, person: Any) -> str:
    return str(exchanged(driver, application, person)["id_token"])


@pytest.mark.integration
@contract("I9.speculation", "I9.hint", "I9.back")
def test_a_hint_signs_out_and_leads_straight_back(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    """No prefetch, no image and no HEAD signs out."""
    token = token_of(driver, leaving, alice)
    link = f"/oauth/logout?id_token_hint={token}"
    for headers in ({"Sec-Purpose": "prefetch"}, {"Sec-Fetch-Dest": "image"}):
        assert driver.get(link, headers=headers).status_code == 503
    driver.browser.head(f"{driver.auth_url}{link}")
    assert is_signed_in(driver)
    answer = logout(driver, id_token_hint=token, post_logout_redirect_uri=BACK, state="a b&c=ü")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{BACK}&state=a%20b%26c%3D%C3%BC")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert not is_signed_in(driver)


@contract("I9.hint", "I9.back")
def test_without_an_address_or_to_a_device_a_page_shows(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    answer = driver.follow(logout(driver, id_token_hint=token_of(driver, leaving, alice), state="s"))
    assert answer.url == f"{driver.auth_url}/oauth/logout", "the hint is not in the address any more"
    assert "You are signed out" in Page(answer).text
    token = token_of(driver, leaving, alice)
    answer = logout(driver, id_token_hint=token, post_logout_redirect_uri=PRIVATE, state="s")
    assert Page(answer).refresh == f"{PRIVATE}?state=s"
    assert "You are signed out. If nothing happens" in Page(answer).text
    assert logout(driver, ui_locales="xx de").headers["Content-Language"] == "de"
    again = logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK, state="s")
    assert again.headers["Location"] == f"{BACK}&state=s", "whoever is signed out already is led back"


@contract("I9.hint", "I9.token")
def test_an_expired_hint_counts_but_none_of_a_revoked_key(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    token = token_of(driver, leaving, alice)
    old = remade(token, iat=1_000_000_000, exp=1_000_003_600)
    assert logout(driver, id_token_hint=old, post_logout_redirect_uri=BACK).headers["Location"] == BACK
    assert not is_signed_in(driver)
    token = token_of(driver, leaving, alice)
    signing_keys.revoke(jwt.get_unverified_header(token)["kid"])
    assert_refused(driver, logout(driver, id_token_hint=token), NOT_OURS)


@contract("I9.post")
def test_a_post_of_another_site_works_as_a_link(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    def post(**sent: str) -> Any:
        headers = {"Origin": "https://app.example", "Content-Type": "application/x-www-form-urlencoded"}
        options: dict[str, Any] = {"headers": headers, "allow_redirects": False}
        return driver.browser.post(f"{driver.auth_url}/oauth/logout", data=urlencode(sent), **options)

    answer = post(id_token_hint=token_of(driver, leaving, alice), post_logout_redirect_uri=BACK, state="s")
    assert answer.status_code == 303
    assert is_signed_in(driver), "the post itself does nothing"
    assert driver.get(f"{driver.auth_url}{answer.headers['Location']}").headers["Location"] == f"{BACK}&state=s"
    assert not is_signed_in(driver)
    empty = post()
    assert (empty.status_code, empty.headers["Location"]) == (303, "/oauth/logout")


@contract("I9.asked", "I9.address")
def test_without_a_hint_the_person_is_asked(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    """Nothing but the fields of the page is believed."""
    driver.signed_in(alice.email, PASSWORD)
    answer = logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK, state="a b")
    assert is_signed_in(driver)
    assert leaving.row.name in Page(answer).text
    type(leaving.row).objects.filter(pk=leaving.row.pk).update(post_logout_redirect_uris=PRIVATE)
    assert driver.submit(question(answer), follow=False).status_code == 400, "the address was removed meanwhile"
    assert is_signed_in(driver)
    leaving.row.save()
    led = driver.submit(question(answer), follow=False)
    assert (led.status_code, led.headers["Location"]) == (303, f"{BACK}&state=a%20b")
    assert not is_signed_in(driver)
    again = driver.submit(question(answer), follow=False)
    assert again.status_code in (303, 403), "an old page leads to no error of the service"
    driver.signed_in(alice.email, PASSWORD)
    assert "You are signed out" in Page(driver.submit(question(logout(driver, state="s")))).text
    assert not is_signed_in(driver)
    driver.signed_in(alice.email, PASSWORD)
    form = question(logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK))
    assert driver.submit(form, csrfmiddlewaretoken="x" * 64, follow=False).status_code == 403
    for leaving_person in ("", "x", form.fields["leaving"][:-2] + "zz"):
        sent = {"leaving": leaving_person, "post_logout_redirect_uri": "https://evil.example/"}
        assert driver.submit(form, **sent, follow=False).headers["Location"].startswith("/oauth/logout")
    assert is_signed_in(driver)


@contract("I9.asked")
def test_the_hint_or_the_page_of_another_person_asks(
    driver: OAuthDriver, another_driver: OAuthDriver, leaving: Registered, alice: Any, mallory: Any
) -> None:
    """Also against a form with her own page that Mallory makes Alice post."""
    state = "ü" * 4_000  # longer than Django's redirects may be
    asked = {"client_id": leaving.client_id, "post_logout_redirect_uri": BACK, "state": state}
    hint = token_of(another_driver, leaving, mallory)
    hers = question(logout(another_driver, **asked)).fields["leaving"]
    driver.signed_in(alice.email, PASSWORD)
    question(logout(driver, id_token_hint=hint, post_logout_redirect_uri=BACK))
    form = question(logout(driver, **asked))
    answer = driver.submit(form, leaving=hers, follow=False)
    assert is_signed_in(driver)
    assert answer.headers["Location"].endswith(f"&state={quote(state)}")
    assert question(driver.follow(answer)).fields["leaving"] != hers


@contract("I9.address", "I9.token")
def test_what_is_refused_leads_nowhere(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    others, token = (token_of(driver, each, alice) for each in (ApplicationFactory(), leaving))
    disabled = ApplicationFactory(post_logout_redirect_uris=BACK, is_enabled=False)
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = {"kid": jwt.get_unverified_header(token)["kid"]}
    another_key = RSAKey.generate_key(2048).as_pem(private=True)
    addresses = (
        "https://evil.example/",
        "https://app.example/after",
        *(f"{BACK}{end}" for end in ("&x=1", "#", "/")),
        BACK.replace("app", "APP"),
        f" {BACK}",
        "//evil.example",
        "javascript:alert(1)",
        leaving.redirect_uri,
    )
    hints = (
        "not-a-token",
        token[:-4] + "AAAA",
        jwt.encode(claims, None, "none", kid),
        jwt.encode(claims, "k" * 32, "HS256"),
        jwt.encode(claims, another_key, "RS256", kid),
        remade(token, iss="https://evil.example"),
    )
    for sent, address, why in (
        *(([("id_token_hint", token)], each, UNREGISTERED) for each in addresses),
        *(([("id_token_hint", each)], BACK, NOT_OURS) for each in hints),
        ([("id_token_hint", others)], BACK, UNREGISTERED),
        ([("id_token_hint", others), ("client_id", leaving.client_id)], BACK, ANOTHERS),
        ([], BACK, "The parameter client_id is missing"),
        ([("client_id", "feed" * 8)], BACK, "No application with this client_id"),
        ([("client_id", leaving.client_id), ("client_id", "x")], BACK, "was sent more than once"),
        ([("client_id", disabled.client_id)], BACK, "The application is switched off"),
    ):
        link = f"/oauth/logout?{urlencode([*sent, ('post_logout_redirect_uri', address)])}"
        assert_refused(driver, driver.get(link), why)
    answer = driver.get(link, headers={"Accept": "application/json"})
    error_of(answer, 400, "unauthorized_client")


def assert_refused(driver: OAuthDriver, answer: Any, why: str) -> None:
    assert (answer.status_code, answer.headers.get("Location")) == (400, None)
    page = Page(answer)
    assert "This sign-out can't go on" in page.text
    assert [link for link in page.links if "example" in link] == []
    assert f"{driver.auth_url}/accounts/sign-out" in page.links
    assert why in page.text
    assert is_signed_in(driver)
