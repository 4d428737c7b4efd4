"""The ways of the authorization page in Firefox and WebKit, up to the request at the application's callback.

Firefox enforces no `form-action` on redirects, WebKit does; WebKit has no passkeys and drops Secure cookies on http.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import pytest
from selenium.webdriver.common.virtual_authenticator import VirtualAuthenticatorOptions

from oauth_bridge.models import Application
from tests.browser.conftest import Client
from tests.browser.engines import ENGINES, Browser, certificate
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, Registered

pytestmark = pytest.mark.filterwarnings("ignore:setting remote_server_addr:DeprecationWarning")  # within Selenium
Link = Callable[..., str]
OPENID = {"scope": "openid", "nonce": "n"}
Start = Callable[[str], Browser]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """`start(name)` is the browser of that name, started once for all tests of the module."""
    started: dict[str, Browser] = {}
    with ExitStack() as stack:

        def get(name: str) -> Browser:
            if name not in started:
                started[name] = stack.enter_context(ENGINES[name](tmp_path_factory.mktemp(name)))
            return started[name]

        yield get


@pytest.fixture(params=ENGINES)
def browser(request: pytest.FixtureRequest, start: Start, driver: OAuthDriver) -> Browser:
    """A browser with one tab and without cookies of the provider."""
    browser = start(request.param)
    browser.forget(driver.auth_url)
    return browser


def only_in(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("browser", [name], indirect=True)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure_client_server(tls: ssl.SSLContext) -> Iterator[Client]:
    client = Client(tls)
    yield client
    client.close()


def to_consent(browser: Browser, link: str, person: Any) -> None:
    browser.open(link)
    sign_in(browser, person)
    browser.button("Allow")


def sign_in(browser: Browser, person: Any) -> None:
    if browser.has_button("Not you? Remove"):
        browser.press("Not you? Remove")
    browser.fill("E-mail address", person.email)
    browser.fill("Password", PASSWORD)
    browser.press("Sign in")


@pytest.mark.parametrize("is_forwarding", [False, True], ids=["stays", "goes on"])
@pytest.mark.parametrize("fixture", ["client_server", "secure_client_server"], ids=["http", "https"])
def test_sign_in_and_allow(
    browser: Browser,
    request: pytest.FixtureRequest,
    driver: OAuthDriver,
    link: Link,
    alice: Any,
    fixture: str,
    is_forwarding: bool,
) -> None:
    client: Client = request.getfixturevalue(fixture)
    application = ApplicationFactory(redirect_uris=client.forward if is_forwarding else client.callback)
    to_consent(browser, link(application, state="a b"), alice)
    browser.press("Allow")
    browser.arrives(client.landing if is_forwarding else client.callback)
    assert client.landed == is_forwarding
    assert [call["state"] for call in client.calls] == ["a b"]
    assert driver.exchange(application, client.last["code"]).status_code == 200


def test_sign_in_and_refuse(
    browser: Browser, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application, redirect_uri=client_server.forward), alice)
    browser.press("Refuse")
    browser.arrives(client_server.landing)
    assert [call["error"] for call in client_server.calls] == ["access_denied"]


def test_a_remembered_consent_right_after_a_password(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application), alice)
    browser.tick("Don't ask again")
    browser.press("Allow")
    browser.arrives(client_server.callback)

    browser.forget(driver.auth_url)
    browser.open(link(web_application, redirect_uri=client_server.forward))
    sign_in(browser, alice)
    browser.arrives(client_server.landing)
    assert len(client_server.calls) == 2
    assert (
        driver.exchange(web_application, client_server.last["code"], redirect_uri=client_server.forward).status_code
        == 200
    )
    browser.open(link(web_application))
    browser.arrives(client_server.callback)
    assert len(client_server.calls) == 3


def test_a_double_click_ends_with_a_code_that_works(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application), alice)
    browser.press_twice("Allow")
    browser.arrives(client_server.callback)
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


def test_back_and_allow_again(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application), alice)
    browser.press("Allow")
    browser.arrives(client_server.callback)
    browser.back()
    browser.press("Allow", "Continue")
    browser.arrives(client_server.callback)
    first, second = (call["code"] for call in client_server.calls)
    assert second != first
    assert driver.exchange(web_application, second).status_code == 200


def test_two_tabs(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    """The second tab signs in with the page that was made before the first one did."""
    browser.open(link(web_application, state="one"))
    one, two = browser.tab, browser.new_tab()
    browser.open(link(web_application, state="two"))
    browser.tab = one
    sign_in(browser, alice)
    browser.button("Allow")
    browser.tab = two
    sign_in(browser, alice)
    for tab, state in ((two, "two"), (one, "one")):
        browser.tab = tab
        browser.press("Allow", "Continue")
        browser.arrives(client_server.callback)
        assert client_server.last["state"] == state
        assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


def test_not_you_leads_to_another_account_and_back(
    browser: Browser, web_application: Registered, client_server: Client, link: Link, alice: Any, mallory: Any
) -> None:
    to_consent(browser, link(web_application, state="kept"), alice)
    browser.press("Not you?")
    sign_in(browser, mallory)
    browser.shows(mallory.email)
    browser.press("Allow")
    browser.arrives(client_server.callback)
    assert client_server.last["state"] == "kept"


def post_from_elsewhere(browser: Browser, client: Client, url: str) -> None:
    """A page of the application posts the parameters of the URL, at once."""
    browser.open(client.callback)
    browser.driver.execute_script(
        """const url = new URL(arguments[0]);
        const action = url.origin + url.pathname;
        const form = Object.assign(document.createElement("form"), { method: "post", action });
        for (const [name, value] of url.searchParams)
          form.append(Object.assign(document.createElement("input"), { name, value }));
        document.body.append(form);
        form.submit();""",
        url,
    )


def test_a_request_that_another_site_posts_finds_the_person_signed_in(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application), alice)
    post_from_elsewhere(browser, client_server, link(web_application, state="posted", **OPENID))
    browser.press("Allow")
    browser.arrives(client_server.callback)
    assert client_server.last["state"] == "posted"
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


def test_a_posted_answer_reaches_the_application(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    to_consent(browser, link(web_application, state="a b", response_mode="form_post", **OPENID), alice)
    browser.press("Allow")
    browser.arrives(client_server.callback)
    [call] = client_server.calls
    assert call["state"] == "a b"
    assert driver.exchange(web_application, call["code"]).status_code == 200


def test_the_question_of_a_sign_out_leads_to_another_origin(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    Application.objects.filter(pk=web_application.row.pk).update(post_logout_redirect_uris=client_server.forward)
    to_consent(browser, link(web_application), alice)
    sent = {"client_id": web_application.client_id, "post_logout_redirect_uri": client_server.forward, "state": "a b"}
    browser.open(f"{driver.auth_url}/oauth/logout?{urlencode(sent)}")
    browser.press("Sign out")
    browser.arrives(client_server.landing)
    assert client_server.last == {"state": "a b"}
    browser.open(link(web_application))
    browser.button("Sign in")


@only_in("firefox")
def test_without_script(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    with browser.without_script():
        browser.open(link(web_application))
        assert not browser.has_button("Use a passkey")
        sign_in(browser, alice)
        browser.tick("Don't ask again")
        browser.press("Allow")
        browser.arrives(client_server.callback)
        assert driver.exchange(web_application, client_server.last["code"]).status_code == 200
        browser.forget(driver.auth_url)
        browser.open(link(web_application))
        sign_in(browser, alice)
        browser.arrives(client_server.callback)
        assert driver.exchange(web_application, client_server.last["code"]).status_code == 200


@only_in("webkit")
def test_no_button_for_passkeys_where_the_browser_has_none(
    browser: Browser, web_application: Registered, link: Link, alice: Any
) -> None:
    assert browser.evaluate("typeof PublicKeyCredential") == "undefined"
    browser.open(link(web_application))
    assert browser.has_button("Sign in")
    assert not browser.has_button("Use a passkey")


@only_in("firefox")
def test_a_passkey_signs_in(
    browser: Browser, driver: OAuthDriver, web_application: Registered, client_server: Client, link: Link, alice: Any
) -> None:
    options = VirtualAuthenticatorOptions(
        transport="internal", has_resident_key=True, has_user_verification=True, is_user_verified=True
    )
    browser.driver.add_virtual_authenticator(options)
    browser.open(f"{driver.auth_url}/accounts/sign-in")
    sign_in(browser, alice)
    browser.shows(alice.email)
    browser.open(f"{driver.auth_url}/accounts/security/passkeys/add")
    browser.fill("Name", "Work laptop")
    browser.press("Add the passkey")
    browser.shows("The passkey is added.")

    browser.forget(driver.auth_url)
    browser.open(link(web_application))
    browser.press("Use a passkey")
    browser.press("Allow")
    browser.arrives(client_server.callback)
    assert driver.exchange(web_application, client_server.last["code"]).status_code == 200
