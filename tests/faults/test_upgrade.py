"""An operator upgrades from the first release and goes back, as docs/operations.md says, while the service is used.

What people and applications hold goes on working. A holding is a generator: up to its `yield` one version serves,
afterwards the other, at the same address.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import requests

from tests.conftest import Launch
from tests.databases import Cluster
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD
from tests.faults.people import SEED, Client, Load, form_with
from tests.pages import Device, code_of
from tests.peers import BUSY, TAKES, MailServer
from tests.server import PATIENCE_SECONDS, ROOT, Server, environment, free_port, socket_unit, wait_until

DATABASE = "upgraded"
PAGES = (
    *("profile", "security", "browsers", "applications", "password/change", "security/authenticator"),
    *("security/passkeys/add", "email", "delete", "export"),
)
INITIAL_MIGRATIONS = ("accounts/migrations/0001_initial.py", "oauth_bridge/migrations/0001_initial.py")


@dataclass(frozen=True)
class Site:
    """The load with its trusted application, another application, which asks for consent, and the mail server."""

    load: Load
    asking: Client
    mail_server: MailServer

    def signed_in(self, name: str) -> OAuthDriver:
        driver = self.load.browser().signed_in(f"{name}@example.com", PASSWORD)
        assert is_signed_in(driver)
        return driver

    def mailed(self, to: str, pattern: str) -> str:
        """Waits for a mail to the address in which the pattern finds something, and returns that of the newest."""

        def found() -> list[str]:
            bodies = [mail.get_body(("plain",)) for mail in self.mail_server.mails if mail["To"] == to]
            texts = [body.get_content() for body in bodies if body]
            return [each for text in texts for each in re.findall(pattern, text, re.MULTILINE)]

        return wait_until(found)[-1]


def is_signed_in(driver: OAuthDriver) -> bool:
    return driver.get("/accounts/profile").status_code == 200


def sign_up(driver: OAuthDriver, email: str) -> requests.Response:
    page = driver.open("/accounts/sign-up")
    return driver.submit(form_with(page, "password1"), email=email, nickname="Nia", password1="a long enough phrase")


def ask_for_reset(driver: OAuthDriver, email: str) -> None:
    answer = driver.submit(form_with(driver.open("/accounts/password/reset"), "email"), email=email)
    assert answer.status_code == 200, answer.status_code


def check_pages(site: Site) -> None:
    """Each page is there, and somebody may sign up."""
    driver = site.signed_in("backend")
    for path in (*(f"/accounts/{name}" for name in PAGES), "/admin/login", "/openapi.json", "/health/live"):
        assert driver.get(path).status_code in (200, 302), path
    assert form_with(sign_up(site.load.browser(), f"new-{uuid4().hex}@example.org"), "code")
    ask_for_reset(site.load.browser(), "load@example.com")


# Holdings -------------------------------------------------------------------------------------------------------------


def sessions_and_a_code_and_a_token(site: Site) -> Iterator[None]:
    driver, administrator = site.signed_in("alice"), site.signed_in("root")
    trusted, login = site.load.application, ("alice@example.com", PASSWORD)
    token = driver.token(trusted, *login)
    code = driver.authorize(driver.authorization_url(trusted), *login).parameters["code"]
    yield
    assert is_signed_in(driver)
    assert administrator.get("/admin/").status_code == 200
    for each in (token, driver.exchange(trusted, code).json()["access_token"]):
        assert driver.userinfo(each).json()["nickname"] == "alice"


def open_pages_and_a_remembered_consent(site: Site) -> Iterator[None]:
    stranger, driver, carol = site.load.browser(), site.signed_in("alice"), site.signed_in("carol")
    sign_in = stranger.open(stranger.authorization_url(site.load.application, state="kept"))
    consent = driver.open(driver.authorization_url(site.asking, state="kept"))
    page = carol.open(carol.authorization_url(site.asking))
    if Page(page).consent:  # not after the way back
        carol.decide(page, remember=True)
    yield
    response = stranger.sign_in(sign_in, "alice@example.com", PASSWORD)
    assert stranger.callback(response).parameters["state"] == "kept"
    callback = driver.callback(driver.decide(consent))
    assert callback.parameters["state"] == "kept"
    remembered = carol.callback(carol.open(carol.authorization_url(site.asking)))
    for browser, back in ((driver, callback), (carol, remembered)):
        assert browser.exchange(site.asking, back.parameters["code"]).status_code == 200


def an_authenticator_app(site: Site) -> Iterator[None]:
    driver = site.signed_in("frank")
    page = driver.open("/accounts/security/authenticator")
    secret = re.findall(r'<code dir="ltr">([A-Z2-7]+)</code>', page.text)[0]
    used = code_of(secret)  # not that of the period before, which could be two periods old when it arrives
    page = driver.submit(form_with(page, "code"), code=used)
    recovery = re.findall(r'<code dir="ltr">(\d+)</code>', page.text)
    yield
    wait_until(lambda: code_of(secret) != used)
    for code in (code_of(secret), recovery[0]):
        driver = site.load.browser()
        page = driver.sign_in(driver.open("/accounts/sign-in"), "frank@example.com", PASSWORD)
        assert not is_signed_in(driver)
        driver.submit(form_with(page, "code"), code=code)
        assert is_signed_in(driver)


def a_passkey(site: Site) -> Iterator[None]:
    driver, device = site.signed_in("grace"), Device(site.load.url)
    page = driver.open("/accounts/security/passkeys/add")
    options = re.findall(r'<script[^>]*type="application/json">(.*?)</script>', page.text)[0]
    made = device.made(json.loads(options)["publicKey"])
    driver.submit(form_with(page, "credential"), name="Telephone", credential=json.dumps(made))
    yield
    driver = site.load.browser()
    page = driver.open("/accounts/sign-in")
    options = driver.get("/accounts/sign-in/passkey").json()["request_options"]["publicKey"]
    driver.submit(form_with(page, "credential"), credential=json.dumps(device.signed(options)))
    assert is_signed_in(driver)


def mails_that_wait(site: Site) -> Iterator[None]:
    newcomer, driver = site.load.browser(), site.load.browser()
    page = sign_up(newcomer, "new@example.org")
    ask_for_reset(driver, "erin@example.com")
    yield
    code = site.mailed("new@example.org", r"^\s*([A-Z0-9]{3,}-[A-Z0-9]{3,})\s*$")
    newcomer.submit(form_with(page, "code"), code=code)
    assert is_signed_in(newcomer)
    page = driver.open(site.mailed("erin@example.com", r"(https?://\S+/accounts/password/reset/\S+)"))
    password = "a wholly different password"
    driver.submit(form_with(page, "password1"), password1=password, password2=password)
    assert is_signed_in(driver)


Holding = Callable[[Site], Iterator[None]]
# What the new version also gives, and the first release takes after the way back.
HELD_BY_THE_NEW: list[Holding] = [sessions_and_a_code_and_a_token, open_pages_and_a_remembered_consent]
HOLDINGS: list[Holding] = [*HELD_BY_THE_NEW, an_authenticator_app, a_passkey, mails_that_wait]


def begun(holdings: Iterable[Holding], site: Site) -> dict[str, Iterator[None]]:
    held = {holding.__name__: holding(site) for holding in holdings}
    for each in held.values():
        next(each)
    return held


def fails(held: dict[str, Iterator[None]]) -> dict[str, str]:
    found = {}
    for name, each in held.items():
        try:
            next(each, None)
        except Exception as error:  # told with all others
            found[name] = f"{type(error).__name__}: {error}"
    return found


# The operator ---------------------------------------------------------------------------------------------------------


def unpack_first_release(folder: Path) -> None:
    """The first version with the present initial migrations, from a clone that reaches back far enough."""

    def git(*arguments: str | Path) -> str:
        command = ["git", "-c", f"safe.directory={ROOT}", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    archive = folder.with_suffix(".tar")
    git("archive", f"--output={archive}", git("log", "-1", "--format=%H", "--", *INITIAL_MIGRATIONS))
    shutil.unpack_archive(archive, folder)


def test_an_upgrade_and_the_way_back_fail_no_request_and_take_nothing_from_anybody(
    own_postgresql: Cluster, launch: Launch, redis_server: Any, mail_server: MailServer, tmp_path: Path
) -> None:
    """The port of systemd stays open while the service is restarted."""
    own_postgresql.administer(f"CREATE DATABASE {DATABASE} OWNER service")
    database, old = own_postgresql.url_of(DATABASE), tmp_path / "old"
    unpack_first_release(old)
    mail_server.mode = BUSY
    changes = {
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": database,
        "REDIS_URL": redis_server.url,
        "EMAIL_URL": mail_server.url,
        "SECRET_KEY": secrets.token_urlsafe(50),
        "SIGN_UP": "open",
        "STAFF_SECOND_FACTOR": "off",
        "WEB_CONCURRENCY": "2",
    }

    def run(root: Path, *arguments: str, stdin: str | None = None) -> str:
        command = [sys.executable, "manage.py", *arguments]
        options = {"cwd": root, "env": environment(tmp_path, **changes), "input": stdin, "capture_output": True}
        done = subprocess.run(command, text=True, check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout)

    def stop(server: Server) -> None:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_SECONDS) == 0

    run(old, "migrate", "--verbosity=0")
    made = json.loads(run(old, "shell", "--verbosity=0", stdin=SEED))
    asking, trusted = (Client(made[name]["client_id"], made[name]["client_secret"]) for name in ("asking", "trusted"))

    with socket.create_server(("127.0.0.1", free_port()), backlog=128) as port:
        server = launch(root=old, **socket_unit(port), **changes)
        load = Load(server.base_url, trusted, keeps_connections=False)  # a restart may close one at any moment
        site = Site(load, asking, mail_server)
        held = begun(HOLDINGS, site)

        def goes_on() -> None:
            load.wait_for_answers()
            check_pages(site)

        with load:
            goes_on()
            run(ROOT, "migrate")
            goes_on()
            stop(server)
            server = launch(root=ROOT, **socket_unit(port), **changes)
            goes_on()
            mail_server.mode = TAKES
            with psycopg.connect(database) as connection:
                connection.execute("UPDATE accounts_outgoingmail SET due_at = now()")
            failed = fails(held)

            held = begun(HELD_BY_THE_NEW, site)
            stop(server)
            launch(root=old, **socket_unit(port), **changes)
            goes_on()
            failed |= fails(held)
    assert failed == {}
    assert load.broken == {}
    assert [each for answers in load.answers.values() for each in answers if each.trouble] == []
