"""The code in docs/guide.md and docs/connect.md signs somebody in, as it stands there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
import requests
from oauthlib.oauth2 import AccessDeniedError
from social_core.storage import BaseStorage, NonceMixin
from social_core.strategy import BaseStrategy

from oauth_bridge.documentation import rendering, snippets
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, Registered
from tests.server import Server

SHELL_SECONDS = 30
SITE_SECONDS = 30


@pytest.fixture(autouse=True)
def _served_there(settings: Any, provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses in the code are those of the provider, whose http each library allows by its own setting."""
    settings.AUTH_URL, settings.BASE_URL = provider.auth_url, provider.base_url
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


def connected(name: str, application: Registered) -> dict[str, Any]:
    """What the Python code of connect.md defines."""
    return run(code_of(name, application))


def code_of(name: str, application: Registered) -> str:
    return snippets.fill(
        snippets.blocks("connect")[name],
        CLIENT_ID=application.client_id,
        CLIENT_SECRET=application.client_secret,
        REDIRECT_URI=application.redirect_uri,
    )


def run(code: str) -> dict[str, Any]:
    defined: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, "snippet", "exec"), defined)
    return defined


def expected(alice: Any, profile: dict[str, Any]) -> dict[str, Any]:
    return {"sub": str(alice.pk), "nickname": alice.nickname, "email": alice.email, "avatar": profile["avatar"]}


# The guide -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_the_python_client_of_the_guide(
    driver: OAuthDriver, alice: Any, monkeypatch: pytest.MonkeyPatch, client_type: str
) -> None:
    application = ApplicationFactory(client_type=client_type)
    monkeypatch.setenv("CLIENT_SECRET", application.secret)
    client = run(snippets.fill_for(snippets.blocks("guide", "python")["client"], application.row))
    url, kept = client["sign_in_url"]()
    callback = driver.authorize(url, alice.email, PASSWORD)
    profile = client["profile_of"](callback.url, kept)
    assert profile == expected(alice, profile)
    with pytest.raises(ValueError, match="The code was used"):
        client["profile_of"](callback.url, kept)
    with pytest.raises(ValueError, match="not of the sign-in that this session started"):
        client["profile_of"](callback.url, {**kept, "state": "x"})
    url, kept = client["sign_in_url"]()
    refused = driver.authorize(url, alice.email, PASSWORD, "refuse")
    with pytest.raises(ValueError, match="The person refused the authorization"):
        client["profile_of"](refused.url, kept)


def test_the_python_client_of_the_guide_runs_as_a_program(
    driver: OAuthDriver, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the lines that serve its callback, on a port of its own."""
    application = ApplicationFactory(redirect_uris=snippets.EXAMPLE_CALLBACK)
    monkeypatch.setenv("CLIENT_SECRET", application.secret)
    blocks = snippets.blocks("guide", "python")
    code = snippets.fill_for(f"{blocks['client']}\n{blocks['try']}", application.row).replace(
        'http.server.HTTPServer(("127.0.0.1", 8765), Callback).serve_forever()',
        'server = http.server.HTTPServer(("127.0.0.1", 0), Callback)',
    )
    defined: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "snippet", "exec"), defined)
    callback = driver.authorize(defined["url"], alice.email, PASSWORD)
    assert callback.address == snippets.EXAMPLE_CALLBACK
    threading.Thread(target=defined["server"].handle_request, daemon=True).start()
    address = f"http://127.0.0.1:{defined['server'].server_port}/callback?{urlsplit(callback.url).query}"
    assert requests.get(address, timeout=SHELL_SECONDS).json()["sub"] == str(alice.pk)
    threading.Thread(target=defined["server"].handle_request, daemon=True).start()
    assert requests.get(address, timeout=SHELL_SECONDS).text.startswith("The code was used")


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_the_shell_commands_of_the_guide(driver: OAuthDriver, alice: Any, client_type: str) -> None:
    missing = [program for program in ("curl", "openssl", "bash") if not shutil.which(program)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    application = ApplicationFactory(client_type=client_type)
    code = snippets.fill_for(snippets.blocks("guide", "sh")["curl"], application.row)
    # The two lines that a reader fills in are read from the standard input instead.
    code = code.replace("{CLIENT_SECRET}", application.secret).replace("CODE={CODE}", "read -r CODE")
    code = code.replace("ACCESS_TOKEN={ACCESS_TOKEN}", "echo; read -r ACCESS_TOKEN")
    shell = subprocess.Popen(
        ["bash", "-eu"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert shell.stdin
    assert shell.stdout
    shell.stdin.write("{\n" + code + "\n}\n")  # bash reads all of it before it runs
    shell.stdin.flush()
    callback = driver.authorize(shell.stdout.readline().strip(), alice.email, PASSWORD)
    shell.stdin.write(f"{callback.parameters['code']}\n")
    shell.stdin.flush()
    token = json.loads(shell.stdout.readline())
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    output, _ = shell.communicate(f"{token['access_token']}\n", timeout=SHELL_SECONDS)
    profile = json.loads(output)
    assert profile == expected(alice, profile)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_openid_connect_of_the_guide(driver: OAuthDriver, alice: Any, algorithm: str) -> None:
    application = ApplicationFactory(id_token_alg=algorithm)
    [more] = re.findall(r"^&(scope=.*)nonce=\{NONCE\}$", snippets.source("guide"), re.MULTILINE)
    url = f"{driver.authorization_url(application)}&{more}nonce=once"
    callback = driver.authorize(url, alice.email, PASSWORD).parameters
    assert callback["iss"] == driver.base_url
    token = driver.exchange(application, callback["code"]).json()
    code = snippets.blocks("guide", "python")["id-token"]
    claims_of = run(snippets.fill_for(code, application.row))["claims_of"]
    claims = claims_of(token["id_token"], "once")
    assert jwt.get_unverified_header(token["id_token"])["alg"] == algorithm
    profile = driver.userinfo(token["access_token"]).json()
    assert (profile["sub"], profile["name"], profile["email"]) == (claims["sub"], alice.nickname, alice.email)
    assert profile["picture"]
    assert not {"name", "email"} & set(claims)
    with pytest.raises(ValueError, match="not of the sign-in that this session started"):
        claims_of(token["id_token"], "twice")
    of_another = run(snippets.fill_for(code, ApplicationFactory().row))["claims_of"]
    with pytest.raises(jwt.InvalidAudienceError):
        of_another(token["id_token"], "once")


# Libraries -----------------------------------------------------------------------------------------------------------


def test_authlib(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    browser = connected("authlib", application)["app"].test_client()
    away = browser.get("/sign-in", base_url="https://client.example")
    callback = driver.authorize(away.location, alice.email, PASSWORD)
    profile = browser.get(callback.url).json
    assert (profile["sub"], profile["name"], profile["email"]) == (str(alice.pk), alice.nickname, alice.email)


def test_django_allauth(driver: OAuthDriver, alice: Any, tmp_path: Path) -> None:
    """In a process of its own: this one has the settings of the service."""
    application = ApplicationFactory(redirect_uris="https://client.example/oidc/service/login/callback/")
    file = tmp_path / "settings.py"
    file.write_text(code_of("django-allauth", application), encoding="utf-8")
    site = Path(__file__).with_name("allauth_site.py")
    with subprocess.Popen(
        [sys.executable, site, file], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        callback = driver.authorize(json.loads(process.stdout.readline())["url"], alice.email, PASSWORD)
        output, _ = process.communicate(f"{callback.url}\n", timeout=SITE_SECONDS)
    outcome = json.loads(output)
    assert outcome["location"] == "/signed-in"
    [account] = outcome["accounts"]
    assert (account["sub"], account["email"], account["is_verified"]) == (str(alice.pk), alice.email, True)
    assert account["name"] == alice.nickname


def test_requests_oauthlib(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    client = connected("requests-oauthlib", application)
    url, kept = client["sign_in_url"]()
    profile = client["profile_of"](driver.authorize(url, alice.email, PASSWORD).url, kept)
    assert profile == expected(alice, profile)
    url, kept = client["sign_in_url"]()
    with pytest.raises(AccessDeniedError):
        client["profile_of"](driver.authorize(url, alice.email, PASSWORD, "refuse").url, kept)


def test_flask_dance(driver: OAuthDriver, alice: Any, capsys: pytest.CaptureFixture[str]) -> None:
    application = ApplicationFactory(redirect_uris="https://client.example/login/service/authorized")
    browser = connected("flask-dance", application)["app"].test_client()
    away = browser.get("/login/service", base_url="https://client.example")
    callback = driver.authorize(away.location, alice.email, PASSWORD)
    assert browser.get(callback.url).location == "/"
    assert f"signed in: {alice.pk}" in capsys.readouterr().out


class Nonces(NonceMixin):
    """Each state may be used once."""

    fresh: set[str] = set()

    @classmethod
    def use(cls, server_url: str, timestamp: int, salt: str) -> bool:
        cls.fresh.add(salt)
        return True

    @classmethod
    def consume(cls, server_url: str, timestamp: int, salt: str) -> bool:
        return salt in cls.fresh and not cls.fresh.remove(salt)


class Storage(BaseStorage):
    nonce = Nonces


class Strategy(BaseStrategy):
    """The web framework, as Python Social Auth wants to know it."""

    def __init__(self, application: Registered) -> None:
        super().__init__(Storage)
        self.settings = {
            "SOCIAL_AUTH_SERVICE_KEY": application.client_id,
            "SOCIAL_AUTH_SERVICE_SECRET": application.client_secret,
        }
        self.session: dict[str, Any] = {}
        self.query: dict[str, str] = {}

    def get_setting(self, name: str) -> Any:
        return self.settings[name]

    def request_data(self, merge: bool = True) -> dict[str, str]:
        return self.query

    def build_absolute_uri(self, path: str | None = None) -> str:
        return str(path)

    def session_get(self, name: str, default: Any = None) -> Any:
        return self.session.get(name, default)

    def session_set(self, name: str, value: Any) -> None:
        self.session[name] = value

    def session_pop(self, name: str) -> Any:
        return self.session.pop(name, None)

    def authenticate(self, backend: Any, *args: Any, **kwargs: Any) -> Any:
        return kwargs["response"]


def test_social_auth(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    strategy = Strategy(application)
    backend = connected("social-auth", application)["Service"](strategy, application.redirect_uri)
    callback = driver.authorize(backend.auth_url(), alice.email, PASSWORD)
    strategy.query = backend.data = callback.parameters
    response = backend.auth_complete()
    assert backend.get_user_id(backend.get_user_details(response), response) == str(alice.pk)
    assert backend.get_user_details(response)["email"] == alice.email


# What is said of them ------------------------------------------------------------------------------------------------


def test_a_section_says_whether_tests_run_it() -> None:
    text = snippets.source("connect")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    run_here = {re.search(r"```\w+ ([\w-]+)", each)[1] for each in sections if "tests run it" in each}  # type: ignore[index]
    tests = "".join((snippets.settings.BASE_DIR / "tests" / "clients" / name).read_text() for name in TESTS)
    assert len(sections) == len(snippets.blocks("connect")) == 25
    assert [name for name in run_here if f'"{name}"' not in tests] == []
    assert [name for name in snippets.blocks("connect") if name not in run_here and f'"{name}"' in tests] == []


def test_the_table_of_what_was_tried_agrees_with_the_sections() -> None:
    """Each line of the table that leads to a section says of it what the section says."""
    text = snippets.source("connect")
    sections = {
        rendering.anchor(each.partition("\n")[0]): each for each in re.split(r"^### ", text, flags=re.MULTILINE)
    }
    rows = re.findall(r"^\| \[[^]]+\]\(#([^)]+)\) \|.*\| (in our tests|by hand, ([\d.]+)) \|$", text, re.MULTILINE)
    assert len(rows) == 8
    for name, where, version in rows:
        said = "ur tests run it" if where == "in our tests" else "Run by hand with version"
        assert said in sections[name], name
        assert version.rsplit(".", 1)[0] in sections[name], name


TESTS = ("test_snippets.py", "test_node.py", "test_apache.py")
