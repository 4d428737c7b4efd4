"""Real browsers; the provider at http://localhost, an application at http://127.0.0.1: two different sites."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered
from tests.server import Server

PATIENCE_MS = 120_000
CALLBACK = re.compile(r"127\.0\.0\.1:\d+/callback")
APP = "app.immich:///oauth-callback"
Open = Callable[..., BrowserContext]
# What the headless shell says to a page that asks for a passkey and has no device. Whole browsers wait for one.
NO_DEVICE = "Resident credentials or empty 'allowCredentials' lists are not supported at this time."
# A page of another site posts the parameters of a link as a form.
POST = """link => {
  const { origin, pathname, searchParams } = new URL(link);
  const form = Object.assign(document.createElement("form"), { method: "post", action: origin + pathname });
  for (const [name, value] of searchParams)
    form.append(Object.assign(document.createElement("input"), { name, value }));
  document.body.append(form);
  form.submit();
}"""
# Whether a heading or paragraph is less than 4 rem wide and higher than 8 rem.
SQUEEZED = """() => [...document.querySelectorAll("main :is(h1, h2, p):not(.unseen)")]
  .some(({ clientWidth, clientHeight }) => 0 < clientWidth && clientWidth < 64 && clientHeight > 128)"""


class Client:
    """An application's web server. It stores the queries of its callback.

    /forward redirects to another origin, and /to-app/307 with status 307 to the private scheme of an app.
    """

    def __init__(self) -> None:
        self.calls: list[dict[str, str]] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.origin = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.callback, self.forward = f"{self.origin}/callback", f"{self.origin}/forward"
        self.landing = f"{self.origin}/landing".replace("127.0.0.1", "localhost")
        self.to_app = [f"{self.origin}/to-app/{status}" for status in (302, 303, 307)]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def last(self) -> dict[str, str]:
        return self.calls[-1]

    def _handler(client) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                _, name, *status = parts.path.split("/")
                if name in ("callback", "forward", "to-app"):
                    client.calls.append({name: values[0] for name, values in parse_qs(parts.query).items()})
                if name in ("forward", "to-app"):
                    self.send_response(int(status[0]) if status else 302)
                    self.send_header("Location", f"{APP}?{parts.query}" if status else client.landing)
                    self.end_headers()
                    return
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><title>Client</title><link rel=icon href=data:,><h1>Back</h1>")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self.path = f"{self.path}?{body}"
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def client_server() -> Iterator[Client]:
    client = Client()
    yield client
    client.server.shutdown()
    client.server.server_close()


@pytest.fixture
def web_application(committed: None, client_server: Client) -> Registered:
    addresses = [client_server.callback, client_server.forward, *client_server.to_app]
    application: Registered = ApplicationFactory(redirect_uris="\n".join(addresses))
    return application


@dataclass
class Request:
    driver: OAuthDriver
    application: Registered
    client: Client
    person: Any

    def link(self, **changes: Any) -> str:
        return self.driver.authorization_url(self.application, **changes)

    def redeem(self, **changes: Any) -> dict[str, Any]:
        answer = self.driver.exchange(self.application, self.client.last["code"], **changes)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@dataclass
class Way(Request):
    server: Server
    open: Open

    def page(self, **options: Any) -> Page:
        return self.open(**options).new_page()

    def begin(self, page: Page | None = None, *, script: bool = True, **changes: Any) -> Page:
        """The first page of the request, in a new browser if none is given."""
        page = page or self.page(java_script_enabled=script)
        page.goto(self.link(**changes))
        return page

    def sign_in(self, page: Page, path: str = "") -> None:
        if path:
            page.goto(self.server.auth_url + path)
        sign_in(page, self.person.email)

    def to_consent(self, page: Page | None = None, **changes: Any) -> Page:
        page = self.begin(page, **changes)
        self.sign_in(page)
        expect(page.locator("[name=decision]")).to_have_count(2)
        return page


@pytest.fixture
def way(
    driver: OAuthDriver,
    web_application: Registered,
    client_server: Client,
    alice: Any,
    provider: Server,
    open_browser: Open,
) -> Way:
    return Way(driver, web_application, client_server, alice, provider, open_browser)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Debian's headless shell starts quicker and needs half the CPU seconds of its whole Chromium."""
    if (program := shutil.which("chromium-headless-shell") or shutil.which("chromium")) is None:
        pytest.skip("needs Chromium")
    # Playwright runs an event loop in this thread, where Django forbids database access.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    expect.set_options(timeout=PATIENCE_MS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=PATIENCE_MS)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def open_browser(chromium: Browser) -> Iterator[Open]:
    """`open_browser(viewport=…, java_script_enabled=…)` is a new browser. A CSP violation fails the test."""
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            complaints.append(message.text)

    def start(**options: Any) -> BrowserContext:
        context = stack.enter_context(chromium.new_context(**options))
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", heard)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        return context

    with ExitStack() as stack:
        yield start
    assert [each for each in complaints if NO_DEVICE not in each] == []


@pytest.fixture
def page(open_browser: Open) -> Page:
    return open_browser().new_page()


@pytest.fixture
def administrator(page: Page, driver: OAuthDriver) -> Page:
    page.goto(f"{driver.auth_url}/accounts/sign-in")
    sign_in(page, PersonFactory(is_staff=True, is_superuser=True).email)
    return page


def add_device(page: Page) -> None:
    """Build an authenticator into the device of the page. It confirms each request at once."""
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    abilities = ("hasResidentKey", "hasUserVerification", "isUserVerified", "automaticPresenceSimulation")
    options = {"protocol": "ctap2", "transport": "internal", **dict.fromkeys(abilities, True)}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})


def sign_in(page: Page, email: str, password: str = PASSWORD) -> None:
    not_you = page.locator("main .account button")
    if not_you.count():
        press(page, not_you)
    page.locator("[name=login]").fill(email)
    page.locator("[name=password]").fill(password)
    with page.expect_navigation():
        page.keyboard.press("Enter")


def press(page: Page, target: Locator | str) -> None:
    """Click the element, or the button or link in the main part with this text, and wait for the next page."""
    if isinstance(target, str):
        main = page.get_by_role("main")
        target = main.get_by_role("button", name=target, exact=True).or_(
            main.get_by_role("link", name=target, exact=True)
        )
    with page.expect_navigation():
        target.click()


def allow(page: Page) -> None:
    """ "Allow", or "Continue" on the shorter page of a person who has allowed the application before."""
    page.get_by_role("button", name=re.compile("Allow|Continue")).click()
    expect(page).to_have_url(CALLBACK)


def mailed_code(server: Server, email: str) -> str:
    found = re.search(r"^\s*([A-Z0-9]{3,}(?:-[A-Z0-9]{3,})*)\s*$", server.mails(f"To: {email}")[-1], re.MULTILINE)
    assert found
    return found[1]


def violations(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [f"{page.url} {each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def cut_off(page: Page) -> list[str]:
    """Whether the page is wider than 320 px, or a text is squeezed to about one letter in each line.

    Measured with the list of languages open, at the height of a phone and of a window of 1280 × 800 at 400 % zoom.
    """
    usual, found = page.viewport_size, []
    languages = page.locator(".languages")
    languages.evaluate_all("all => all.forEach(each => each.open = true)")
    for height in (200, 640):
        page.set_viewport_size({"width": 320, "height": height})
        if page.evaluate("document.documentElement.scrollWidth > window.innerWidth") or page.evaluate(SQUEEZED):
            found.append(f"{page.url} is cut off at 320 × {height}")
    languages.evaluate_all("all => all.forEach(each => each.open = false)")
    assert usual
    page.set_viewport_size(usual)
    return found


def flaws(page: Page) -> list[str]:
    """What axe finds in light and in dark colours, and what is cut off on a telephone."""
    found = violations(page)
    # With motion, buttons take a moment for the other colours.
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    found += [*violations(page), *cut_off(page)]
    page.emulate_media(color_scheme="light")
    return found
