"""People and applications that use a service whose code changes, or whose machines fail, meanwhile."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import requests

from tests.driver import Form, OAuthDriver, Page
from tests.factories import PASSWORD
from tests.faults.load import FORM, Caller
from tests.peers import MailServer, wait_until
from tests.server import Server

PATIENCE_SECONDS = 300
PAUSE_SECONDS = 0.2
PEOPLE = ("alice", "bob", "carol", "dave", "load", "backend")
CALLBACK = "https://client.example/callback"
PAGES = ("profile", "security", "browsers", "applications", "sign-in")
UNMIGRATED = ("before", "killed", "switched")
# Opened after the migration only: the template of a page is read when it is opened first.
LATER_PAGES = ("password/change", "security/authenticator", "security/passkeys/add", "email", "delete", "export")
# Run by `manage.py shell`.
SEED = f"""
import io, json
from django.core.management import call_command
from django.utils import timezone
from accounts.models import User

for name in {PEOPLE}:
    User.objects.create_user(name + "@example.com", {PASSWORD!r}, nickname=name, email_verified_at=timezone.now())
User.objects.create_superuser("root@example.com", {PASSWORD!r}, nickname="Root")
made = {{}}
for name, options in (("asking", []), ("trusted", ["--trusted"])):
    output = io.StringIO()
    call_command("application", "create", name, "--redirect-uri={CALLBACK}", "--json", *options, stdout=output)
    made[name] = json.loads(output.getvalue())
print(json.dumps(made))
"""


@dataclass(frozen=True)
class Client:
    client_id: str
    client_secret: str = field(repr=False)
    redirect_uri: str = CALLBACK


@dataclass(frozen=True)
class Site:
    """The address of the service, its mail server, and the two applications: one asks for consent, one is trusted."""

    url: str
    mail_server: MailServer
    asking: Client
    trusted: Client

    def browser(self) -> OAuthDriver:
        """A browser with an application's backend. The document of the new version describes no answer of the old."""
        driver = OAuthDriver(self.url)
        for session in (driver.browser, driver.backend):
            session.hooks["response"].clear()
        return driver

    def signed_in(self, name: str) -> OAuthDriver:
        driver = self.browser().signed_in(f"{name}@example.com", PASSWORD)
        assert is_signed_in(driver)
        return driver

    def code(self, driver: OAuthDriver) -> str:
        """A code for the trusted application."""
        return driver.callback(driver.open(driver.authorization_url(self.trusted))).parameters["code"]

    def token(self, driver: OAuthDriver, code: str) -> str:
        answer = driver.exchange(self.trusted, code)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def mailed(self, to: str, pattern: str) -> str:
        """Waits for a mail to the address in which the pattern finds something, and returns that of the newest."""
        found: list[str] = []

        def has_come() -> bool:
            for mail in self.mail_server.mails:
                body = mail.get_body(("plain",)) if mail["To"] == to else None
                found.extend(re.findall(pattern, body.get_content() if body else "", re.MULTILINE))
            return bool(found)

        wait_until(has_come)
        return found[-1]


def is_signed_in(driver: OAuthDriver) -> bool:
    return driver.get("/accounts/profile").status_code == 200


def form_with(response: requests.Response, name: str) -> Form:
    found = [form for form in Page(response).forms if name in form.types]
    assert found, f"no field {name} at {response.url} ({response.status_code})"
    return found[0]


def sign_up(driver: OAuthDriver, email: str) -> requests.Response:
    page = driver.open("/accounts/sign-up")
    return driver.submit(form_with(page, "password1"), email=email, nickname="Nia", password1="a long enough phrase")


def ask_for_reset(driver: OAuthDriver, email: str) -> None:
    answer = driver.submit(form_with(driver.open("/accounts/password/reset"), "email"), email=email)
    assert answer.status_code == 200, answer.status_code


class Load:
    """Four clients, each of which repeats a journey. `failed` says which failed, and when: the last error of each."""

    def __init__(self, server: Server, site: Site) -> None:
        self.site, self.phase = site, ""
        self.failed: dict[str, str] = {}
        self._rounds: Counter[str] = Counter()
        self._is_over = threading.Event()
        driver = site.signed_in("backend")  # an account keeps its newest sessions only, and `sign_in` makes many
        self._cookie = "; ".join(f"{cookie.name}={cookie.value}" for cookie in driver.browser.cookies)
        self._api, self._pages = Caller(server), Caller(server)
        journeys = (self.backend, self.pages, self.sign_in, self.newcomer)
        self._threads = [threading.Thread(target=self._repeat, args=[journey]) for journey in journeys]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def go_on(self, phase: str, rounds: int = 1) -> None:
        """Waits until each journey has ended, and was then made so many times from its beginning to its end."""
        self.phase = phase
        before, end = Counter(self._rounds), time.monotonic() + PATIENCE_SECONDS
        while any(self._rounds[thread.name] - before[thread.name] <= rounds for thread in self._threads):
            assert time.monotonic() < end, f"{phase}: {self._rounds - before} rounds, {self.failed}"
            time.sleep(0.02)

    def _repeat(self, journey: Callable[[], None]) -> None:
        name = threading.current_thread().name
        while not self._is_over.wait(PAUSE_SECONDS):
            try:
                journey()
            except Exception as error:  # told, whatever it is
                self.failed[f"{journey.__name__}, {self.phase}"] = f"{type(error).__name__}: {error}"
            self._rounds[name] += 1

    def backend(self) -> None:
        """A browser that is signed in leads to a code; the application redeems it and reads the profile."""
        path = OAuthDriver("").authorization_url(self.site.trusted)
        answer = self._api.call("GET", path, headers={"Cookie": self._cookie})
        assert answer.status == 302, answer.status
        code = re.findall(r"[?&]code=([\w-]+)", answer.headers["Location"])[0]
        answer = self._api.exchange(self.site.trusted, code)
        assert answer.status == 200, answer.body
        assert self._api.userinfo(answer.json()["access_token"]).status == 200

    def pages(self) -> None:
        names = PAGES if self.phase in UNMIGRATED else (*PAGES, *LATER_PAGES)
        for path in (*(f"/accounts/{name}" for name in names), "/admin/login", "/openapi.json", "/health/live"):
            answer = self._pages.call("GET", path, headers={"Cookie": self._cookie, "Accept": "text/html"})
            assert answer.status in (200, 302), f"{path}: {answer.status}"
            for asset in set(re.findall(r'(?:href|src)="(/static/[^"]+\.(?:css|js))"', answer.body.decode())):
                assert self._pages.call("GET", asset).status == 200, asset
        answer = self._pages.call("POST", "/oauth/token", "grant_type=nonsense", FORM)
        assert answer.status == 400, answer.status

    def sign_in(self) -> None:
        """Writes a session, and renews a consent."""
        driver = self.site.signed_in("load")
        page = driver.open(driver.authorization_url(self.site.asking))
        code = driver.callback(driver.decide(page)).parameters["code"]
        assert driver.exchange(self.site.asking, code).status_code == 200

    def newcomer(self) -> None:
        """Writes a person and two mails, each with new connections."""
        answer = sign_up(self.site.browser(), f"new-{uuid.uuid4().hex}@example.org")
        assert form_with(answer, "code")
        ask_for_reset(self.site.browser(), "load@example.com")
