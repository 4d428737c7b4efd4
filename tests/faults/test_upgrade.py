"""An operator upgrades from the first release and goes back, as docs/operations.md says, while the service is used.

What people and applications hold goes on working. A holding is a generator: up to its `yield` one version serves,
afterwards the other, at the same address.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from tests.conftest import Launch
from tests.databases import Cluster
from tests.factories import PASSWORD
from tests.faults.upgrading import SEED, Client, Load, Site, ask_for_reset, form_with, is_signed_in, sign_up
from tests.pages import Device, code_of
from tests.peers import BUSY, TAKES, MailServer, wait_until
from tests.server import ROOT, Server, environment, free_port, socket_unit

DATABASE = "upgraded"
KILLED = "killed"
INITIAL_MIGRATIONS = ("accounts/migrations/0001_initial.py", "oauth_bridge/migrations/0001_initial.py")

# Holdings -------------------------------------------------------------------------------------------------------------


def a_password_and_sessions(site: Site) -> Iterator[None]:
    driver, administrator = site.signed_in("alice"), site.signed_in("root")
    assert administrator.get("/admin/").status_code == 200
    yield
    assert is_signed_in(driver)
    assert administrator.get("/admin/").status_code == 200
    site.signed_in("alice")


def a_code_and_a_token(site: Site) -> Iterator[None]:
    driver = site.signed_in("alice")
    code, token = site.code(driver), site.token(driver, site.code(driver))
    yield
    assert driver.userinfo(token).json()["nickname"] == "alice"
    assert driver.userinfo(site.token(driver, code)).json()["nickname"] == "alice"


def a_redeemed_code(site: Site) -> Iterator[None]:
    """Its replay is refused, and ends the token."""
    driver = site.signed_in("alice")
    code = site.code(driver)
    token = site.token(driver, code)
    began = time.monotonic()
    yield
    wait_until(lambda: time.monotonic() > began + 3.5)  # an earlier one counts as the same exchange sent twice: D13
    assert driver.exchange(site.trusted, code).json()["error"] == "invalid_grant"
    assert driver.userinfo(token).status_code == 401


def open_pages_of_a_request(site: Site) -> Iterator[None]:
    stranger, driver = site.browser(), site.signed_in("alice")
    sign_in = stranger.open(stranger.authorization_url(site.trusted, state="kept"))
    consent = driver.open(driver.authorization_url(site.asking, state="kept"))
    yield
    response = stranger.sign_in(sign_in, "alice@example.com", PASSWORD)
    assert stranger.callback(response).parameters["state"] == "kept"
    callback = driver.callback(driver.decide(consent))
    assert callback.parameters["state"] == "kept"
    assert driver.exchange(site.asking, callback.parameters["code"]).status_code == 200


def a_remembered_consent(site: Site) -> Iterator[None]:
    driver = site.signed_in("carol")
    driver.decide(driver.open(driver.authorization_url(site.asking)), remember=True)
    yield
    callback = driver.callback(driver.open(driver.authorization_url(site.asking)))
    assert driver.exchange(site.asking, callback.parameters["code"]).status_code == 200


def an_authenticator_app(site: Site) -> Iterator[None]:
    driver = site.signed_in("bob")
    page = driver.open("/accounts/security/authenticator")
    secret = re.findall(r'<code dir="ltr">([A-Z2-7]+)</code>', page.text)[0]
    used = code_of(secret)  # not that of the period before, which could be two periods old when it arrives
    page = driver.submit(form_with(page, "code"), code=used)
    recovery = re.findall(r'<code dir="ltr">(\d+)</code>', page.text)
    yield
    wait_until(lambda: code_of(secret) != used)
    for code in (code_of(secret), recovery[0]):
        driver = site.browser()
        page = driver.sign_in(driver.open("/accounts/sign-in"), "bob@example.com", PASSWORD)
        assert not is_signed_in(driver)
        driver.submit(form_with(page, "code"), code=code)
        assert is_signed_in(driver)


def a_passkey(site: Site) -> Iterator[None]:
    driver, device = site.signed_in("dave"), Device(site.url)
    page = driver.open("/accounts/security/passkeys/add")
    options = re.findall(r'<script[^>]*type="application/json">(.*?)</script>', page.text)[0]
    made = device.made(json.loads(options)["publicKey"])
    driver.submit(form_with(page, "credential"), name="Telephone", credential=json.dumps(made))
    yield
    driver = site.browser()
    page = driver.open("/accounts/sign-in")
    options = driver.get("/accounts/sign-in/passkey").json()["request_options"]["publicKey"]
    driver.submit(form_with(page, "credential"), credential=json.dumps(device.signed(options)))
    assert is_signed_in(driver)


def mails_that_wait(site: Site) -> Iterator[None]:
    """Of a sign-up and of a reset."""
    newcomer, driver = site.browser(), site.browser()
    page = sign_up(newcomer, "new@example.org")
    ask_for_reset(driver, "carol@example.com")
    yield
    code = site.mailed("new@example.org", r"^\s*([A-Z0-9]{3,}-[A-Z0-9]{3,})\s*$")
    newcomer.submit(form_with(page, "code"), code=code)
    assert is_signed_in(newcomer)
    page = driver.open(site.mailed("carol@example.com", r"(https?://\S+/accounts/password/reset/\S+)"))
    form = form_with(page, "password1")
    fields = {name: "a wholly different password" for name in form.types if name.startswith("password")}
    driver.submit(form, **fields)
    assert is_signed_in(driver)


Holding = Callable[[Site], Iterator[None]]
# What the new version also gives, and the first release takes after the way back.
HELD_BY_THE_NEW: list[Holding] = [a_password_and_sessions, a_code_and_a_token, a_redeemed_code, open_pages_of_a_request]
# Mails are the last, because a reset ends Carol's consents.
HOLDINGS: list[Holding] = [*HELD_BY_THE_NEW, a_remembered_consent, an_authenticator_app, a_passkey, mails_that_wait]


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


def git(*arguments: str) -> bytes:
    """Runs git in the checkout, whoever owns its files. An archive needs a clone that reaches back far enough."""
    command = ["git", "-c", f"safe.directory={ROOT}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout


def unpack_first_release(folder: Path) -> None:
    """The first version with the present initial migrations."""
    first = git("log", "-1", "--format=%H", "--", *INITIAL_MIGRATIONS).decode().strip()
    folder.mkdir()
    subprocess.run(["tar", "--extract"], input=git("archive", "--format=tar", first), cwd=folder, check=True)


def copy_checkout(folder: Path) -> None:
    """Also the files that are not committed."""
    for name in git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def run(root: Path, variables: dict[str, str], *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "manage.py", *arguments]
    options = {"cwd": root, "env": variables, "input": stdin, "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def kill_a_worker(server: Server) -> None:
    """Until another one has taken its place."""
    before = server.workers()
    os.kill(min(before), signal.SIGKILL)
    wait_until(lambda: len(server.workers()) == len(before) and min(before) not in server.workers())


def is_broken_by_the_kill(what: str, why: str) -> bool:
    """Before, in, or after the headers of the answer."""
    return what.endswith(f", {KILLED}") and why.startswith(("Unanswered", "ConnectionError", "ChunkedEncodingError"))


def test_an_upgrade_and_the_way_back_fail_no_request_and_take_nothing_from_anybody(
    own_postgresql: Cluster, launch: Launch, redis_server: Any, mail_server: MailServer, tmp_path: Path
) -> None:
    """A worker that is killed after the switch of the folder breaks what it was answering."""
    own_postgresql.administer(f"CREATE DATABASE {DATABASE} OWNER service")
    database = own_postgresql.url.removesuffix("service") + DATABASE
    old, new, current = (tmp_path / name for name in ("old", "new", "current"))
    unpack_first_release(old)
    mail_server.mode = BUSY
    changes = {
        "DATABASE_URL": database,
        "REDIS_URL": redis_server.url,
        "EMAIL_URL": mail_server.url,
        "SECRET_KEY": secrets.token_urlsafe(50),
        "SIGN_UP": "open",
        "STAFF_SECOND_FACTOR": "off",
        "WEB_CONCURRENCY": "2",
    }
    variables = environment(tmp_path, **changes)
    run(old, variables, "migrate", "--verbosity=0")
    made = json.loads(run(old, variables, "shell", "--verbosity=0", stdin=SEED))
    clients = {name: Client(each["client_id"], each["client_secret"]) for name, each in made.items()}
    current.symlink_to(old)

    with socket.create_server(("127.0.0.1", free_port()), backlog=128) as port:

        def start() -> Server:
            return launch(root=current, **socket_unit(port), **changes)

        def link(version: Path) -> None:
            current.unlink()
            current.symlink_to(version)

        def restart(server: Server) -> Server:
            """The port of systemd stays open meanwhile."""
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(120) == 0
            return start()

        server = start()
        site = Site(server.base_url, mail_server, **clients)
        held = begun(HOLDINGS, site)
        with Load(server, site) as load:
            load.go_on("before")
            copy_checkout(new)
            link(new)
            load.phase = KILLED
            kill_a_worker(server)
            load.go_on(KILLED, rounds=0)  # a client may learn of the broken connection after the new worker started
            load.go_on("switched")
            load.phase = "migrate"
            run(new, variables, "migrate")
            load.go_on("migrated")
            load.phase = "upgrade"
            server = restart(server)
            load.go_on("upgraded")
            mail_server.mode = TAKES
            with psycopg.connect(database) as connection:
                connection.execute("UPDATE accounts_outgoingmail SET due_at = now()")
            failed = fails(held)

            held = begun(HELD_BY_THE_NEW, site)
            load.phase = "the way back"
            link(old)
            server = restart(server)
            load.go_on("back")
            failed |= fails(held)
    failed = {what: why for what, why in (load.failed | failed).items() if not is_broken_by_the_kill(what, why)}
    assert failed == {}
