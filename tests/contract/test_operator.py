"""The operator's interface: environment, serving, and the commands of manage.py."""

from __future__ import annotations

import json
import re
import secrets
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from django.utils import timezone

from accounts.models import Session, User
from oauth_bridge.models import AccessToken, AuthorizationCode, Consent
from tests.conftest import Launch
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, CodeFactory, ConsentFactory, Registered, TokenFactory, rewind
from tests.matrix import contract
from tests.server import ROOT, environment, free_port

Manage = Callable[..., subprocess.CompletedProcess[str]]


def answered(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


class Made:
    """An application as the command line made it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.client_id = answer["client_id"]
        self.client_secret = answer["client_secret"]
        self.redirect_uri = answer["redirect_uris"][0]


# Applications ---------------------------------------------------------------------------------------------------------


@contract("O.application.create", "D15.entropy")
def test_application_create_prints_what_a_developer_needs(manage: Manage, driver: OAuthDriver, alice: Any) -> None:
    uris = ["https://client.example/a", "http://127.0.0.1:9000/b"]
    flags = [part for uri in uris for part in ("--redirect-uri", uri)]
    answer = answered(manage("application", "create", "Printer ☃", *flags, "--json"))
    assert set(answer) == {"client_id", "client_secret", "name", "redirect_uris"}
    assert answer["name"] == "Printer ☃"
    assert answer["redirect_uris"] == uris
    assert re.fullmatch(r"[A-Za-z0-9_-]{43,}", answer["client_secret"])
    made = Made(answer)
    code = driver.authorize(driver.authorization_url(made), alice.email, PASSWORD).parameters["code"]
    assert driver.exchange(made, code).status_code == 200


@contract("O.application.create", "D15.entropy")
def test_no_two_applications_get_the_same_secret(manage: Manage) -> None:
    two = [
        answered(manage("application", "create", "A", "--redirect-uri", "https://a.example/", "--json")) for _ in "12"
    ]
    assert two[0]["client_secret"] != two[1]["client_secret"]
    assert two[0]["client_id"] != two[1]["client_id"]


@contract("O.application.create")
@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://a.example/#x",
        "http://a.example/",
        "javascript:alert(1)",
        "https://*.a.example/",
        "https://u@a.example/",
    ],
)
def test_a_callback_address_that_cannot_be_registered_is_explained(manage: Manage, uri: str) -> None:
    result = manage("application", "create", "A", "--redirect-uri", uri, "--json")
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert result.stderr.strip()
    assert result.stdout.strip() == ""


@contract("O.application.trusted", "D7.trusted")
def test_a_trusted_application_has_no_consent_page(manage: Manage, signed_in: OAuthDriver) -> None:
    uri = "https://trusted.example/cb"
    made = Made(answered(manage("application", "create", "T", "--redirect-uri", uri, "--trusted", "--json")))
    assert signed_in.callback(signed_in.get(signed_in.authorization_url(made))).address == uri


@contract("O.application.list", "O.application.show", "D15.digests")
def test_list_and_show_tell_everything_but_the_secret(manage: Manage, application: Registered) -> None:
    listed = answered(manage("application", "list", "--json"))
    assert application.client_id in [one["client_id"] for one in listed]
    shown = answered(manage("application", "show", application.client_id, "--json"))
    assert shown["name"] == application.row.name
    assert shown["redirect_uris"] == application.row.callback_addresses
    assert "client_secret" not in shown
    for result in (manage("application", "list"), manage("application", "show", application.client_id)):
        assert result.returncode == 0
        assert application.client_id in result.stdout
        assert application.client_secret not in result.stdout


@contract("O.application.rotate-secret")
def test_a_rotated_secret_works_and_the_old_one_does_not(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    answer = answered(manage("application", "rotate-secret", application.client_id, "--json"))
    code = CodeFactory(application=application).raw
    error_of(driver.exchange(application, code), 401, "invalid_client")
    assert driver.exchange(application, code, client_secret=answer["client_secret"]).status_code == 200


@contract("O.application.disable", "D17.application")
def test_a_disabled_application_is_refused_until_it_is_enabled(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    token = TokenFactory(application=application).raw
    assert driver.userinfo(token).status_code == 200
    answered(manage("application", "disable", application.client_id, "--json"))
    error_of(driver.userinfo(token), 401, "invalid_token")
    answered(manage("application", "enable", application.client_id, "--json"))
    assert driver.userinfo(token).status_code == 200


@contract("O.application.delete")
def test_a_deleted_application_is_gone_with_what_it_holds(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    token = TokenFactory(application=application).raw
    answered(manage("application", "delete", application.client_id, "--json"))
    error_of(driver.userinfo(token), 401, "invalid_token")
    error_of(driver.exchange(application, "x"), 401, "invalid_client")
    assert not AccessToken.objects.filter(application_id=application.row.pk).exists()


@contract("O.application.show")
@pytest.mark.parametrize("action", ["show", "rotate-secret", "disable", "enable", "delete"])
def test_an_unknown_client_id_is_a_sentence(manage: Manage, action: str) -> None:
    result = manage("application", action, "unknown", "--json")
    assert result.returncode != 0
    assert "unknown" in result.stderr
    assert "Traceback" not in result.stderr


# Accounts -------------------------------------------------------------------------------------------------------------


@contract("O.account.create", "O.account.verified", "D16.email")
def test_account_create_makes_a_person_who_can_sign_in(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    email = f"Made-{uuid.uuid4().hex}@Example.com"
    answer = answered(
        manage("account", "create", email, "--nickname", "Ål", "--password-stdin", "--json", stdin=f"{PASSWORD}\n")
    )
    assert set(answer) == {"sub", "email", "nickname"}
    assert answer["email"] == email.lower()
    assert answer["nickname"] == "Ål"
    callback = driver.authorize(driver.authorization_url(application), email, PASSWORD)
    token = driver.exchange(application, callback.parameters["code"]).json()["access_token"]
    profile = driver.userinfo(token).json()
    assert (profile["sub"], profile["email"], profile["nickname"]) == (answer["sub"], answer["email"], "Ål")


@contract("O.account.create")
def test_account_create_explains_what_is_wrong(manage: Manage, alice: Any) -> None:
    for email, password in ((alice.email.upper(), PASSWORD), ("no-address", PASSWORD), ("new@example.com", "")):
        result = manage("account", "create", email, "--nickname", "N", "--password-stdin", stdin=password)
        assert result.returncode != 0
        assert result.stderr.strip()
        assert "Traceback" not in result.stderr
        assert PASSWORD not in result.stderr


@contract("O.account.set-password")
def test_a_password_that_was_set_works_and_the_old_one_does_not(
    manage: Manage, signed_in: OAuthDriver, another_driver: OAuthDriver, alice: Any
) -> None:
    new = "quite another long password"
    answered(manage("account", "set-password", alice.email, "--password-stdin", "--json", stdin=f"{new}\n"))
    assert signed_in.get("/accounts/profile").status_code == 302
    assert Page(another_driver.sign_in(another_driver.open("/accounts/sign-in"), alice.email, PASSWORD)).sign_in
    assert another_driver.signed_in(alice.email, new).get("/accounts/profile").status_code == 200


@contract("O.account.deactivate", "D17.person")
def test_a_deactivated_account_is_refused_until_it_is_activated(
    manage: Manage, signed_in: OAuthDriver, alice: Any
) -> None:
    token = TokenFactory(user=alice).raw
    answered(manage("account", "deactivate", alice.email, "--json"))
    error_of(signed_in.userinfo(token), 401, "invalid_token")
    assert signed_in.get("/accounts/profile").status_code == 302
    answered(manage("account", "activate", alice.email, "--json"))
    assert signed_in.userinfo(token).status_code == 200


@contract("O.account.verified")
def test_createsuperuser_counts_as_verified(manage: Manage, driver: OAuthDriver, application: Registered) -> None:
    email = f"root-{uuid.uuid4().hex}@example.com"
    result = manage(
        *("createsuperuser", "--noinput", "--email", email, "--nickname", "Root"), DJANGO_SUPERUSER_PASSWORD=PASSWORD
    )
    assert result.returncode == 0, result.stderr
    assert User.objects.get(email=email).email_verified_at is not None
    assert "code" in driver.authorize(driver.authorization_url(application), email, PASSWORD).parameters


# Purge ----------------------------------------------------------------------------------------------------------------


@contract("O.purge")
def test_purge_deletes_what_is_past_use_and_nothing_else(
    manage: Manage, driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    given = {"application": application, "user": alice}
    live_code, live_token = CodeFactory(**given), TokenFactory(**given)
    spent = CodeFactory(**given)
    token_of_spent = driver.exchange(application, spent.raw).json()["access_token"]
    rewind(spent.row, 700)
    old = [CodeFactory(**given).row for _ in range(5)] + [TokenFactory(**given).row for _ in range(5)]
    for row in old:
        rewind(row, 2 * 24 * 3600)
    consent = ConsentFactory(user=alice, application=application.row, fingerprint="x")
    rewind(consent, timedelta(days=181).total_seconds())
    session = Session.objects.create(session_key=secrets.token_hex(32), session_data="", expire_date=timezone.now())

    result = manage("purge", "--batch", "2")
    assert result.returncode == 0, result.stderr
    assert AuthorizationCode.objects.filter(application=application.row).count() == 2
    assert AccessToken.objects.filter(application=application.row).count() == 2
    assert not Consent.objects.filter(pk=consent.pk).exists()
    assert not Session.objects.filter(pk=session.pk).exists()
    assert driver.exchange(application, live_code.raw).status_code == 200
    assert driver.userinfo(live_token.raw).status_code == 200

    # A code that was spent is kept while its token lives, so a replay after the purge still revokes.
    driver.exchange(application, spent.raw)
    assert driver.userinfo(token_of_spent).status_code == 401


@contract("O.purge")
def test_purge_without_anything_to_do_succeeds(manage: Manage) -> None:
    manage("purge")
    assert manage("purge").returncode == 0


# Environment ----------------------------------------------------------------------------------------------------------


@contract("O.malformed")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://x/y"),
        ("REDIS_URL", "memcached://x"),
        ("DEBUG", "perhaps"),
        ("ALLOWED_HOSTS", "https://x"),
        ("BASE_URL", "https://x.example/path"),
        ("AUTH_URL", "x.example"),
        ("EMAIL_URL", "pigeon://x"),
        ("DEFAULT_FROM_EMAIL", "nobody"),
        ("MEDIA_ROOT", "relative"),
        ("TRUSTED_PROXIES", "10.0.0.0/99"),
        ("RATE_LIMITS", "perhaps"),
        ("RATE_TOKEN", "many"),
        ("RATE_TOKEN_FAILURES", "0/m"),
        ("RATE_USERINFO", "5/fortnight"),
        ("RATE_USERINFO_FAILURES", "5"),
        ("RATE_AUTHORIZE", "-1/m"),
        ("RATE_SIGN_IN_ACCOUNT", "/m"),
        ("RATE_SIGN_IN_ADDRESS", "5/"),
        ("RATE_UNKNOWN", "5/m"),
        ("SERVICE_NAME", "two\nlines"),
        ("BIND", "nowhere"),
        ("WEB_CONCURRENCY", "0"),
    ],
)
def test_a_malformed_value_stops_the_start_with_a_sentence_that_names_it(
    committed: None, tmp_path: Path, name: str, value: str
) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", "config.wsgi"],
        cwd=ROOT,
        env=environment(tmp_path, BIND=f"127.0.0.1:{free_port()}") | {name: value},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode != 0
    said = (result.stdout + result.stderr).strip()
    assert name in said
    assert "Traceback" not in said
    assert len(said.splitlines()) == 1


@contract("O.workers")
def test_more_than_one_worker_without_redis_does_not_start(committed: None, tmp_path: Path) -> None:
    for arguments, variables in (([], {"WEB_CONCURRENCY": "2"}), (["-w", "3"], {})):
        env = environment(tmp_path, BIND=f"127.0.0.1:{free_port()}", **variables)
        env.pop("REDIS_URL", None)
        result = subprocess.run(
            [sys.executable, "-m", "gunicorn", "-c", "config/gunicorn.py", *arguments, "config.wsgi"],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert result.returncode != 0
        assert "REDIS_URL" in result.stdout + result.stderr
        assert "Traceback" not in result.stderr


@contract("O.environment", "O.serve")
def test_the_environment_reaches_the_service(launch: Launch, tmp_path: Path, alice: Any) -> None:
    server = launch(
        SERVICE_NAME="Ærlig Sign-In",
        DEFAULT_FROM_EMAIL="Ærlig <post@aerlig.example>",
        ALLOWED_HOSTS="localhost,127.0.0.1,other.example",
    )
    driver = OAuthDriver(server.base_url)
    page = driver.open("/accounts/sign-in")
    assert "Ærlig Sign-In" in Page(page).text
    assert driver.call("GET", "/health/live", headers={"Host": "other.example"}).status_code == 200
    assert driver.call("GET", "/health/live", headers={"Host": "third.example"}).status_code == 400
    form = Page(driver.open("/accounts/password/reset")).forms[0]
    driver.submit(form, email=alice.email)
    letters = server.mails()
    assert len(letters) == 1
    assert "post@aerlig.example" in letters[0]
    assert f"{server.auth_url}/accounts/password/reset" in letters[0]


@contract("O.serve")
def test_static_files_are_served_without_another_step(driver: OAuthDriver) -> None:
    page = driver.open("/accounts/sign-in")
    sheets = re.findall(r'href="(/static/[^"]+\.css)"', page.text)
    assert sheets
    for sheet in sheets:
        answer = driver.get(sheet)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/css")
    assert driver.call("GET", "/health/live").status_code == 200
    assert driver.call("GET", "/health/ready").json()["database"] == "ok"


@contract("O.cookies")
def test_cookies_are_secure_exactly_when_the_pages_are_https(launch: Launch, alice: Any) -> None:
    server = launch(BASE_URL="https://auth.example", AUTH_URL="https://auth.example", ALLOWED_HOSTS="auth.example")
    port = re.search(r"127\.0\.0\.1:(\d+)", server.log)
    assert port
    browser = OAuthDriver(f"http://127.0.0.1:{port[1]}")
    answer = browser.get("/accounts/sign-in", headers={"Host": "auth.example"})
    cookies = answer.raw.headers.getlist("Set-Cookie")
    assert cookies
    for cookie in cookies:
        assert "; Secure" in cookie
        assert cookie.startswith("__Host-")
        assert "; HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
    assert "max-age" in answer.headers["Strict-Transport-Security"]


@contract("O.cookies")
def test_on_plain_loopback_cookies_are_not_secure(driver: OAuthDriver) -> None:
    for cookie in driver.get("/accounts/sign-in").raw.headers.getlist("Set-Cookie"):
        assert "Secure" not in cookie
        assert "__Host-" not in cookie
        assert "; HttpOnly" in cookie
        assert "SameSite=Lax" in cookie


@contract("O.deploy")
def test_check_deploy_refuses_http_on_anything_but_loopback(manage: Manage) -> None:
    right = {
        "BASE_URL": "https://api.example",
        "AUTH_URL": "https://auth.example",
        "EMAIL_URL": "smtp+tls://u:p@mail.example:587",
        "SECRET_KEY": secrets.token_urlsafe(50),
    }
    good = manage("check", "--deploy", "--fail-level", "WARNING", **right)
    assert good.returncode == 0, good.stderr
    for name in ("BASE_URL", "AUTH_URL"):
        bad = manage("check", "--deploy", **{**right, name: "http://auth.example"})
        assert bad.returncode != 0
        assert name in bad.stderr


# Quickstart -----------------------------------------------------------------------------------------------------------


def quickstart(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """In a process of its own, so that the test can press Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "quickstart", *arguments],
        cwd=ROOT,
        env=environment(folder, DATABASE_URL=f"sqlite:///{folder / 'quick.sqlite3'}", REDIS_URL=""),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=40)


def read_until(process: subprocess.Popen[str], word: str) -> str:
    assert process.stdout
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(said + (process.stderr.read() if process.stderr else ""))


@contract("O.quickstart")
def test_quickstart_serves_a_demo_and_runs_again(committed: None, tmp_path: Path) -> None:
    for _run in range(2):
        port, demo_port = free_port(), free_port()
        process = quickstart(tmp_path, "--port", str(port), "--demo-port", str(demo_port))
        try:
            said = read_until(process, "Ctrl-C")
            email, password = re.findall(r"(\S+@\S+), password (\S+)", said)[0]
            demo = re.search(r"http://127\.0\.0\.1:\d+", said)
            assert demo
            driver = OAuthDriver(f"http://localhost:{port}")
            links = [urljoin(demo[0], link) for link in Page(driver.get(demo[0])).links]
            start = next(driver.get(link) for link in [*links, f"{demo[0]}/sign-in"] if link.startswith(demo[0]))
            callback = driver.authorize(start.headers["Location"], email, password)
            landed = driver.browser.get(callback.url, timeout=10)
            assert landed.ok
            assert email in landed.text
        finally:
            _, errors = press_ctrl_c(process)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
        for free in (port, demo_port):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", free)) != 0


@contract("O.quickstart")
def test_quickstart_refuses_a_port_in_use_with_a_sentence(committed: None, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        process = quickstart(tmp_path, "--port", str(port), "--demo-port", str(free_port()))
        _, errors = process.communicate(timeout=40)
    assert process.returncode != 0
    assert "Traceback" not in errors
    assert str(port) in errors
