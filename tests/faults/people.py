"""People and applications that use the service while machines fail or its code changes, and what they were promised."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import requests
from requests.adapters import HTTPAdapter

from tests.driver import Form, OAuthDriver, Page
from tests.factories import PASSWORD
from tests.server import wait_until

PEOPLE = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "load", "backend")
APPLICATION_THREADS = PEOPLE[:3]
CALLBACK = "https://client.example/callback"
SIGN_IN, READER = "load", "backend"
OPERATIONS = ("authorize", "token", "user info", "sign-in")
PAGE = "page"  # that has the form of a sign-in
PAUSE_SECONDS, RETRY_SECONDS = 0.15, 0.3
KEPT_SESSIONS = 30


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


class FromAddress(HTTPAdapter):
    """Connections from one address, so that nginx limits each person apart."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options, source_address=(self.address, 0))


class Answered(NamedTuple):
    """A request: from when to when (monotonic seconds), and what went wrong; "" for an answer that was right."""

    began: float
    ended: float
    trouble: str


class Load:
    """While the block runs, five people or applications repeat what they do, each in a thread.

    What the service has acknowledged: `tokens` by their codes, `sessions`, and the codes `refused` because an exchange
    without an answer had spent them. `broken` is what it broke of that.
    """

    def __init__(self, url: str, application: Client, certificate: str = "", *, keeps_connections: bool = True) -> None:
        self.url, self.application, self.certificate = url, application, certificate
        self.headers = {} if keeps_connections else {"Connection": "close"}
        self.tokens: dict[str, str] = {}
        self.refused: set[str] = set()
        self.sessions: list[OAuthDriver] = []
        self.broken: Counter[str] = Counter()
        self.answers: dict[str, list[Answered]] = {name: [] for name in (*OPERATIONS, PAGE)}
        self._is_over = threading.Event()
        self._addresses = itertools.count(1)
        self.drivers = {name: self.browser() for name in (*APPLICATION_THREADS, READER)}
        self._jobs: Mapping[str, Callable[[str], None]] = {
            **dict.fromkeys(APPLICATION_THREADS, self._use_application),
            SIGN_IN: self._sign_in,
            # Of a copy, because the others add to it.
            READER: lambda name: self._read(self.drivers[name], next(iter([*self.tokens.values()]))),
        }
        self._pool = ThreadPoolExecutor(len(self._jobs))

    def browser(self) -> OAuthDriver:
        """A browser with an application's backend. No document is compared: the versions of a service differ."""
        driver = OAuthDriver(self.url)
        adapter = FromAddress(f"127.77.1.{next(self._addresses) % 250 + 1}")
        for session in (driver.browser, driver.backend):
            session.hooks["response"].clear()
            session.headers.update(self.headers)
            session.verify, session.trust_env = self.certificate, False  # nor a proxy of the environment
            session.mount("https://", adapter)
        return driver

    def __enter__(self) -> Load:
        for name, driver in self.drivers.items():
            driver.signed_in(f"{name}@example.com", PASSWORD)
        self._use_application(READER)
        self._running = [self._pool.submit(self._repeat, *job) for job in self._jobs.items()]
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._pool.shutdown()

    def wait_for_answers(self) -> None:
        """Wait until each operation has been answered twice, in requests that began from now on."""
        began = time.monotonic()

        def are_answered() -> bool:
            for each in self._running:
                if each.done():  # after an error
                    each.result()
            right = [[each for each in list(self.answers[name]) if not each.trouble] for name in OPERATIONS]
            return all(sum(each.began > began for each in found) >= 2 for found in right)

        wait_until(are_answered)

    def _repeat(self, name: str, job: Callable[[str], None]) -> None:
        while not self._is_over.wait(PAUSE_SECONDS):
            job(name)

    def _ask(
        self, operation: str, ask: Callable[[], requests.Response], is_right: Callable[[requests.Response], bool]
    ) -> tuple[int, requests.Response]:
        """The status, 0 unless the answer is right or says what is wrong with the request; and the answer."""
        began, answer = time.monotonic(), requests.Response()
        try:
            answer = ask()
            # The status, and where a redirect leads, without values.
            told = f"{answer.status_code} {answer.headers.get('Location', '').partition('?')[0]}".strip()
            trouble = "" if is_right(answer) else told
        except requests.RequestException as error:
            trouble = type(error).__name__
        self.answers[operation].append(Answered(began, time.monotonic(), trouble))
        status = answer.status_code or 0
        return (0 if trouble and (not status or status >= 500) else status), answer

    def _use_application(self, name: str) -> None:
        driver = self.drivers[name]
        address = driver.authorization_url(self.application)
        status, answer = self._ask("authorize", lambda: driver.get(address), is_callback)
        if not status:
            return
        if not is_callback(answer):
            self.broken[f"a session: authorize answered {status}"] += 1
            return
        code = driver.callback(answer).parameters["code"]
        if token := self._exchange(driver, code):
            self._read(driver, token)

    def _exchange(self, driver: OAuthDriver, code: str) -> str:
        """The token, after as many attempts as needed; "" for a code that an attempt without an answer has spent."""
        for attempt in itertools.count():
            if attempt and self._is_over.wait(RETRY_SECONDS):
                break
            status, answer = self._ask("token", lambda: driver.exchange(self.application, code), is_settled)
            if status == 200:
                self.tokens[code] = str(answer.json()["access_token"])
                return self.tokens[code]
            if status and is_settled(answer):
                if attempt == 0:
                    self.broken["a code: its first exchange was refused"] += 1
                self.refused.add(code)
                break
        return ""

    def _read(self, driver: OAuthDriver, token: str) -> None:
        while True:
            status, _ = self._ask("user info", lambda: driver.userinfo(token), is_ok)
            if status == 401:
                self.broken["a token: user info answered 401"] += 1
            if status in (200, 401) or self._is_over.wait(RETRY_SECONDS):
                return

    def _sign_in(self, name: str) -> None:
        driver = self.browser()
        status, page = self._ask(PAGE, lambda: driver.get("/accounts/sign-in"), is_ok)
        if status == 200 and (form := Page(page).sign_in):
            fields = {"login": f"{name}@example.com", "password": PASSWORD}
            submit = partial(driver.submit, form, follow=False, **fields)
            status, _ = self._ask("sign-in", submit, lambda answer: answer.status_code == 302)
            if status == 302:
                self.sessions = [*self.sessions, driver][-KEPT_SESSIONS:]


def is_ok(answer: requests.Response) -> bool:
    return answer.status_code == 200


def is_callback(answer: requests.Response) -> bool:
    return answer.status_code == 302 and answer.headers["Location"].startswith(f"{CALLBACK}?code=")


def is_settled(answer: requests.Response) -> bool:
    """A token, or the answer that the code is spent."""
    return is_ok(answer) or (answer.status_code == 400 and answer.json()["error"] == "invalid_grant")


def form_with(response: requests.Response, name: str) -> Form:
    found = [form for form in Page(response).forms if name in form.types]
    assert found, f"no field {name} at {response.url} ({response.status_code})"
    return found[0]
