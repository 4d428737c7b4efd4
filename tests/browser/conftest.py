"""Real browsers; the provider at http://localhost, an application at http://127.0.0.1: two different sites."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Locator,
    Page,
    expect,
    sync_playwright,
)

from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, Registered
from tests.server import Server

PATIENCE_MS = 30_000
Open = Callable[..., BrowserContext]


class Client:
    """An application's web server. It stores the queries of its callback. /forward redirects to another origin."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[dict[str, str]] = []
        self.landed = 0
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.scheme = "http"
        if tls:
            self.scheme = "https"
            # The handshake is made in the thread of the connection.
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def callback(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/callback"

    @property
    def forward(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/forward"

    @property
    def landing(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/landing"

    @property
    def last(self) -> dict[str, str]:
        return self.calls[-1]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def _handler(client) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                if parts.path in ("/callback", "/forward"):
                    client.calls.append({name: values[0] for name, values in parse_qs(parts.query).items()})
                if parts.path == "/forward":
                    self.send_response(302)
                    self.send_header("Location", client.landing)
                    self.end_headers()
                    return
                client.landed += parts.path == "/landing"
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


class Device:
    """An authenticator that is built into the device of the page. It confirms each request at once."""

    def __init__(self, page: Page) -> None:
        self.session: CDPSession = page.context.new_cdp_session(page)
        self.session.send("WebAuthn.enable")
        options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
        added = self.session.send(
            "WebAuthn.addVirtualAuthenticator",
            {"options": {**options, "isUserVerified": True, "automaticPresenceSimulation": True}},
        )
        self.id = added["authenticatorId"]

    @property
    def keys(self) -> int:
        return len(self.session.send("WebAuthn.getCredentials", {"authenticatorId": self.id})["credentials"])


@pytest.fixture
def client_server() -> Iterator[Client]:
    client = Client()
    yield client
    client.close()


@pytest.fixture
def web_application(committed: None, client_server: Client) -> Registered:
    application: Registered = ApplicationFactory(redirect_uris=f"{client_server.callback}\n{client_server.forward}")
    return application


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs Chromium")
    # Playwright runs an event loop in this thread, where Django forbids database access.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    expect.set_options(timeout=PATIENCE_MS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture
def open_browser(chromium: Browser) -> Iterator[Open]:
    """`open_browser(viewport=…, java_script_enabled=…)` is a new browser. A CSP violation fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            complaints.append(message.text)

    def start(**options: Any) -> BrowserContext:
        context = chromium.new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        context.on("console", heard)
        context.on("weberror", lambda error: complaints.append(str(error.error)))
        contexts.append(context)
        return context

    yield start
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def page(open_browser: Open) -> Page:
    return open_browser().new_page()


@pytest.fixture
def link(driver: OAuthDriver) -> Callable[..., str]:
    return driver.authorization_url


def sign_in(page: Page, email: str, password: str) -> None:
    not_you = page.get_by_role("button", name="Not you? Remove this account")
    if not_you.count():
        press(page, not_you)
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password", exact=True).fill(password)
    press(page, page.get_by_role("button", name="Sign in", exact=True))


def press(page: Page, button: Locator) -> None:
    """Click and wait for the next page."""
    with page.expect_navigation():
        button.click()


def mailed_codes(server: Server, email: str) -> list[str]:
    """The code in each mail to the address, the newest first."""
    mails = server.mails(f"To: {email}")
    found = [re.search(r"^\s*([A-Z0-9]{3,}(?:-[A-Z0-9]{3,})*)\s*$", each, re.MULTILINE) for each in reversed(mails)]
    assert all(found), mails
    return [each[1] for each in found if each]


def mailed_code(server: Server, email: str) -> str:
    """The code in the newest mail to the address."""
    return mailed_codes(server, email)[0]


def confirm(page: Page, code: str) -> None:
    """Type the code from the mail."""
    page.get_by_label("Code from the mail").fill(code)
    press(page, page.get_by_role("button", name="Confirm the address"))
