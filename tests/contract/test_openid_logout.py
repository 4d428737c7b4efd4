"""An application signs its person out. OpenID Connect RP-Initiated Logout 1.0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import jwt
import pytest
from joserfc.jwk import RSAKey

from accounts.models import Session
from accounts.sessions.store import SessionStore
from oauth_bridge.models import ApplicationSession, SigningKey
from oauth_bridge.storage import signing_keys
from tests.contract.test_openid import signed_in, verified
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered

BACK = "https://app.example/after?from=sign-out"
PRIVATE = "com.example.app:/after"
UNREGISTERED = "is not one that is registered"
ANOTHERS = "was issued to another application"
NOT_OURS = "is no ID token that this service issued"


@pytest.fixture
def leaving(committed: None) -> Registered:
    """An application that signs people out."""
    application: Registered = ApplicationFactory(post_logout_redirect_uris=f"{BACK}\n{PRIVATE}")
    return application


@pytest.fixture(autouse=True)
def only_keys_of_the_service(committed: None) -> Iterator[None]:
    """The service can't open a key that `remade` has made: it has another SECRET_KEY."""
    before = set(SigningKey.objects.values_list("pk", flat=True))
    yield
    SigningKey.objects.exclude(pk__in=before).filter(private__isnull=False).delete()


def logout(driver: OAuthDriver, **parameters: str) -> Any:
    return driver.get(f"/oauth/logout?{urlencode(parameters, quote_via=quote)}")


def is_signed_in(driver: OAuthDriver) -> bool:
    return bool(driver.get("/accounts/profile").ok and not driver.get("/accounts/profile").is_redirect)


def question(answer: Any) -> Any:
    """The form of the page that asks."""
    assert answer.status_code == 200
    return next(form for form in Page(answer).forms if "leaving" in form.fields)


def token_of(driver: OAuthDriver, application: Registered, person: Any) -> str:
    return str(signed_in(driver, application, person)["id_token"])


def remade(token: str, **changes: Any) -> str:
    """The same ID token with other claims, signed by the service's own key."""
    claims = jwt.decode(token, options={"verify_signature": False}) | changes
    signer = signing_keys.signer("RS256")
    return jwt.encode(claims, signer.key.as_pem(private=True), "RS256", {"kid": signer.kid})


# The sid --------------------------------------------------------------------------------------------------------------


@contract("I10.sid")
def test_the_sid_is_that_of_the_sign_in_at_the_application(
    driver: OAuthDriver, leaving: Registered, alice: Any
) -> None:
    other = ApplicationFactory()
    first, second, elsewhere = (
        verified(driver, each, token_of(driver, each, alice))["sid"] for each in (leaving, leaving, other)
    )
    assert first == second != elsewhere
    assert {str(row.pk) for row in ApplicationSession.objects.filter(user=alice)} == {first, elsewhere}


@contract("I10.sid")
def test_another_browser_has_another_sid(
    driver: OAuthDriver, another_driver: OAuthDriver, leaving: Registered, alice: Any
) -> None:
    sids = {verified(each, leaving, token_of(each, leaving, alice))["sid"] for each in (driver, another_driver)}
    assert len(sids) == 2


@contract("I10.sid")
def test_plain_oauth_writes_no_session_of_an_application(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    callback = driver.authorize(driver.authorization_url(leaving), alice.email, PASSWORD)
    assert driver.exchange(leaving, callback.parameters["code"]).ok
    assert not ApplicationSession.objects.filter(user=alice).exists()


def test_discovery_names_the_operation(driver: OAuthDriver) -> None:
    document = driver.call("GET", "/.well-known/openid-configuration").json()
    assert document["end_session_endpoint"] == f"{driver.auth_url}/oauth/logout"
    assert "sid" in document["claims_supported"]
    assert not document.get("frontchannel_logout_supported")


# With a valid hint ----------------------------------------------------------------------------------------------------


@contract("I9.hint", "I9.back")
def test_a_hint_signs_out_and_leads_straight_back(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    token = token_of(driver, leaving, alice)
    answer = logout(driver, id_token_hint=token, post_logout_redirect_uri=BACK, state="a b&c=ü")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{BACK}&state=a%20b%26c%3D%C3%BC"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert not is_signed_in(driver)


@contract("I9.post")
def test_a_post_of_another_site_works_as_a_link(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    sent = {"id_token_hint": token_of(driver, leaving, alice), "post_logout_redirect_uri": BACK, "state": "s"}
    options: dict[str, Any] = {"allow_redirects": False, "headers": {"Origin": "https://app.example"}}
    answer = driver.browser.post(f"{driver.auth_url}/oauth/logout", data=sent, **options)
    assert answer.status_code == 303
    assert is_signed_in(driver), "the post itself does nothing"
    assert driver.get(f"{driver.auth_url}{answer.headers['Location']}").headers["Location"] == f"{BACK}&state=s"
    assert not is_signed_in(driver)
    empty = driver.browser.post(
        f"{driver.auth_url}/oauth/logout",
        headers={"Content-Type": "application/x-www-form-urlencoded"},
        allow_redirects=False,
    )
    assert (empty.status_code, empty.headers["Location"]) == (303, "/oauth/logout")


def test_without_an_address_a_page_says_so(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    answer = driver.follow(logout(driver, id_token_hint=token_of(driver, leaving, alice), state="s"))
    assert answer.url == f"{driver.auth_url}/oauth/logout", "the hint is not in the address any more"
    assert "You are signed out" in Page(answer).text
    assert not is_signed_in(driver)


@contract("I9.hint")
def test_an_expired_hint_counts(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    old = remade(token_of(driver, leaving, alice), iat=int(time.time()) - 90_000, exp=int(time.time()) - 86_400)
    answer = logout(driver, id_token_hint=old, post_logout_redirect_uri=BACK)
    assert answer.headers["Location"] == BACK
    assert not is_signed_in(driver)


@contract("I9.back")
def test_an_application_on_a_device_is_led_to_by_a_page(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    token = token_of(driver, leaving, alice)
    answer = logout(driver, id_token_hint=token, post_logout_redirect_uri=PRIVATE, state="s")
    assert Page(answer).refresh == f"{PRIVATE}?state=s"
    assert "You are signed out. If nothing happens" in Page(answer).text


@contract("I9.back")
def test_whoever_is_signed_out_already_is_led_back(driver: OAuthDriver, leaving: Registered) -> None:
    answer = logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK, state="s")
    assert answer.headers["Location"] == f"{BACK}&state=s"


@contract("I9.speculation")
@pytest.mark.parametrize("headers", [{"Sec-Purpose": "prefetch"}, {"Sec-Fetch-Dest": "image"}])
def test_no_prefetch_and_no_image_signs_out(
    driver: OAuthDriver, leaving: Registered, alice: Any, headers: dict[str, str]
) -> None:
    token = token_of(driver, leaving, alice)
    assert driver.get(f"/oauth/logout?id_token_hint={token}", headers=headers).status_code == 503
    driver.browser.head(f"{driver.auth_url}/oauth/logout?id_token_hint={token}")
    assert is_signed_in(driver)


# The question ---------------------------------------------------------------------------------------------------------


@contract("I9.asked")
def test_without_a_hint_the_person_is_asked(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    answer = logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK, state="a b")
    assert is_signed_in(driver)
    assert "form-action 'self' https:;" in f"{answer.headers['Content-Security-Policy']};"
    assert leaving.row.name in Page(answer).text
    led = driver.submit(question(answer), follow=False)
    assert (led.status_code, led.headers["Location"]) == (303, f"{BACK}&state=a%20b")
    assert not is_signed_in(driver)
    again = driver.submit(question(answer), follow=False)
    assert again.status_code in (303, 403), "an old page leads to no error of the service"


def test_without_an_application_the_page_has_no_way_out_of_the_service(driver: OAuthDriver, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    answer = logout(driver, state="s")
    assert "form-action 'self';" in f"{answer.headers['Content-Security-Policy']};"
    assert "You are signed out" in Page(driver.submit(question(answer))).text
    assert not is_signed_in(driver)


@contract("I9.asked")
def test_the_answer_needs_the_token_of_its_page(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    form = question(logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK))
    assert driver.submit(form, csrfmiddlewaretoken="x" * 64, follow=False).status_code == 403
    assert is_signed_in(driver)


@contract("I9.asked")
@pytest.mark.parametrize("damage", ["", "x", "changed"])
def test_nothing_but_the_signed_field_is_believed(
    driver: OAuthDriver, leaving: Registered, alice: Any, damage: str
) -> None:
    driver.signed_in(alice.email, PASSWORD)
    form = question(logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK))
    sealed = form.fields["leaving"][:-2] + "zz" if damage == "changed" else damage
    answer = driver.submit(form, leaving=sealed, post_logout_redirect_uri="https://evil.example/", follow=False)
    assert answer.headers["Location"].startswith("/oauth/logout")
    assert is_signed_in(driver)


@contract("I9.asked")
def test_the_page_of_another_person_asks_again(
    driver: OAuthDriver, another_driver: OAuthDriver, leaving: Registered, alice: Any, mallory: Any
) -> None:
    """Also against a form with her own page that Mallory makes Alice post."""
    state = "ü" * 4_000  # longer than Django's redirects may be
    another_driver.signed_in(mallory.email, PASSWORD)
    hers = question(logout(another_driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK, state=state))
    driver.signed_in(alice.email, PASSWORD)
    form = question(logout(driver, client_id=leaving.client_id))
    answer = driver.submit(form, leaving=hers.fields["leaving"], follow=False)
    assert answer.status_code == 303
    assert is_signed_in(driver)
    assert question(driver.follow(answer)).fields["leaving"] != hers.fields["leaving"]
    assert answer.headers["Location"].endswith(f"&state={quote(state)}")


@contract("I9.address")
def test_an_address_that_was_removed_meanwhile_is_refused(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    form = question(logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK))
    type(leaving.row).objects.filter(pk=leaving.row.pk).update(post_logout_redirect_uris=PRIVATE)
    assert driver.submit(form, follow=False).status_code == 400
    assert is_signed_in(driver)


# Attacks --------------------------------------------------------------------------------------------------------------


@contract("I9.asked")
def test_a_hint_of_another_person_signs_nobody_out_without_asking(
    driver: OAuthDriver, another_driver: OAuthDriver, leaving: Registered, alice: Any, mallory: Any
) -> None:
    hers = token_of(another_driver, leaving, mallory)
    driver.signed_in(alice.email, PASSWORD)
    question(logout(driver, id_token_hint=hers, post_logout_redirect_uri=BACK))
    assert is_signed_in(driver)


@contract("I9.token")
def test_a_hint_of_another_application_leads_nowhere(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    other = ApplicationFactory()
    token = token_of(driver, other, alice)
    answer = logout(driver, id_token_hint=token, client_id=leaving.client_id, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, ANOTHERS)
    answer = logout(driver, id_token_hint=token, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, UNREGISTERED)


@contract("I9.address")
@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "https://app.example/after",
        "https://app.example/after?from=sign-out&x=1",
        "https://app.example/after?from=sign-out#",
        "https://APP.example/after?from=sign-out",
        "https://app.example/after?from=sign-out/",
        " https://app.example/after?from=sign-out",
        "//evil.example",
        "javascript:alert(1)",
    ],
)
def test_an_address_is_compared_in_every_character(
    driver: OAuthDriver, leaving: Registered, alice: Any, address: str
) -> None:
    token = token_of(driver, leaving, alice)
    assert_refused(driver, logout(driver, id_token_hint=token, post_logout_redirect_uri=address), UNREGISTERED)


@contract("I9.address")
def test_a_callback_address_is_no_address_after_a_sign_out(driver: OAuthDriver, leaving: Registered) -> None:
    sent = {"client_id": leaving.client_id, "post_logout_redirect_uri": leaving.redirect_uri}
    assert_refused(driver, logout(driver, **sent), UNREGISTERED, is_signed_in=False)


@contract("I9.address")
def test_an_address_needs_its_application(driver: OAuthDriver, leaving: Registered) -> None:
    answer = logout(driver, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, "The parameter client_id is missing", is_signed_in=False)
    answer = logout(driver, client_id="feed" * 8, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, "No application with this client_id", is_signed_in=False)


@contract("I9.address")
def test_a_disabled_application_leads_nowhere(driver: OAuthDriver, leaving: Registered) -> None:
    type(leaving.row).objects.filter(pk=leaving.row.pk).update(is_enabled=False)
    answer = logout(driver, client_id=leaving.client_id, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, "The application is switched off", is_signed_in=False)


def forged(token: str, kind: str) -> str:
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(token)["kid"]
    if kind == "none":
        return jwt.encode(claims, None, "none", {"kid": kid})
    if kind == "another key":
        key = RSAKey.generate_key(2048)
        return jwt.encode(claims, key.as_pem(private=True), "RS256", {"kid": kid})
    if kind == "logout token":
        return remade(token, events={"http://schemas.openid.net/event/backchannel-logout": {}})
    if kind == "another issuer":
        return remade(token, iss="https://evil.example")
    return {"changed": token[:-4] + "AAAA", "text": "not-a-token", "digest": jwt.encode(claims, "k" * 32, "HS256")}[
        kind
    ]


@contract("I9.token")
@pytest.mark.parametrize("kind", ["none", "another key", "logout token", "another issuer", "changed", "text", "digest"])
def test_a_hint_that_is_no_id_token_of_ours_is_refused(
    driver: OAuthDriver, leaving: Registered, alice: Any, kind: str
) -> None:
    hint = forged(token_of(driver, leaving, alice), kind)
    answer = logout(driver, id_token_hint=hint, post_logout_redirect_uri=BACK)
    assert_refused(driver, answer, NOT_OURS)


@contract("I9.token")
def test_a_key_that_was_revoked_verifies_no_hint(driver: OAuthDriver, leaving: Registered, alice: Any) -> None:
    token = token_of(driver, leaving, alice)
    signing_keys.revoke(jwt.get_unverified_header(token)["kid"])
    assert_refused(driver, logout(driver, id_token_hint=token), NOT_OURS)


def test_a_repeated_parameter_is_refused(driver: OAuthDriver, leaving: Registered) -> None:
    answer = driver.get(f"/oauth/logout?client_id={leaving.client_id}&client_id=x")
    assert_refused(driver, answer, "was sent more than once", is_signed_in=False)


def assert_refused(driver: OAuthDriver, answer: Any, why: str, *, is_signed_in: bool = True) -> None:
    """A page that leads nowhere but to the service's own page for signing out."""
    assert answer.status_code == 400
    assert "Location" not in answer.headers
    page = Page(answer)
    assert "This sign-out can't go on" in page.text
    assert {link for link in page.links if "example" in link} == set()
    assert f"{driver.auth_url}/accounts/sign-out" in page.links
    assert why in page.text
    assert globals()["is_signed_in"](driver) is is_signed_in


def test_a_program_gets_json(driver: OAuthDriver, leaving: Registered) -> None:
    sent = urlencode({"client_id": leaving.client_id, "post_logout_redirect_uri": "https://evil.example/"})
    answer = driver.get(f"/oauth/logout?{sent}", headers={"Accept": "application/json"})
    assert "is not one that is registered" in error_of(answer, 400, "invalid_request")


# The browser session --------------------------------------------------------------------------------------------------


@contract("I10.sid")
def test_the_name_of_the_sign_in_stays_when_the_key_changes(driver: OAuthDriver, alice: Any) -> None:
    driver.signed_in(alice.email, PASSWORD)
    before = Session.objects.get(user=alice)
    store = SessionStore(driver.browser.cookies["delegated_session"])
    store.cycle_key()
    after = Session.objects.get(user=alice)
    assert (after.sign_in, after.session_key != before.session_key) == (before.sign_in, True)
    assert before.sign_in


def test_the_languages_of_the_link_are_those_of_the_page(driver: OAuthDriver) -> None:
    answer = driver.get("/oauth/logout?ui_locales=xx+de")
    assert answer.headers["Content-Language"] == "de"


def test_people_of_other_sites_are_strangers(driver: OAuthDriver, leaving: Registered) -> None:
    person = PersonFactory()
    driver.signed_in(person.email, PASSWORD)
    assert question(logout(driver, client_id=leaving.client_id, logout_hint=person.email))
