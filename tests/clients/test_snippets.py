"""The code in docs/guide.md and docs/connect.md signs somebody in, as it stands there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import urlsplit

import jwt
import pytest
import requests
from oauthlib.oauth2 import AccessDeniedError, InvalidGrantError
from social_core.strategy import BaseStrategy

from oauth_bridge.api_docs import documents
from tests.clients.conftest import PATIENCE_SECONDS, Answer, code_of, expected, outcome_of
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, Registered
from tests.server import free_port, is_open, program, started

pytestmark = pytest.mark.usefixtures("shifted_clock")


def connected(name: str, application: Registered) -> dict[str, Any]:
    return run(code_of(name, application))


def run(code: str) -> dict[str, Any]:
    defined: dict[str, Any] = {"__name__": "snippet"}
    exec(compile(code, "snippet", "exec"), defined)
    return defined


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_the_guides_python_code(answer: Answer, alice: Any, monkeypatch: pytest.MonkeyPatch, client_type: str) -> None:
    application = ApplicationFactory(client_type=client_type)
    monkeypatch.setenv("CLIENT_SECRET", application.secret)
    client = run(documents.fill_for(documents.blocks("guide", "python")["client"], application.row))
    url, kept = client["sign_in_url"]()
    callback = answer(url)
    profile = client["profile_of"](callback.url, kept)
    assert profile == expected(alice, profile)
    with pytest.raises(ValueError, match="The code was used"):
        client["profile_of"](callback.url, kept)
    with pytest.raises(ValueError, match="not of the sign-in that this session started"):
        client["profile_of"](callback.url, {**kept, "state": "x"})
    url, kept = client["sign_in_url"]()
    with pytest.raises(ValueError, match="The person refused the authorization"):
        client["profile_of"](answer(url, "refuse").url, kept)


def test_the_python_client_runs_as_a_program(answer: Answer, alice: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    application = ApplicationFactory(redirect_uris=documents.EXAMPLE_CALLBACK)
    monkeypatch.setenv("CLIENT_SECRET", application.secret)
    blocks = documents.blocks("guide", "python")
    code = documents.fill_for(f"{blocks['client']}\n{blocks['try']}", application.row).replace(
        'http.server.HTTPServer(("127.0.0.1", 8765), Callback).serve_forever()',
        'server = http.server.HTTPServer(("127.0.0.1", 0), Callback)',
    )
    defined: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(code, "snippet", "exec"), defined)
    callback = answer(defined["url"])
    assert callback.address == documents.EXAMPLE_CALLBACK
    threading.Thread(target=defined["server"].handle_request, daemon=True).start()
    address = f"http://127.0.0.1:{defined['server'].server_port}/callback?{urlsplit(callback.url).query}"
    assert requests.get(address, timeout=PATIENCE_SECONDS).json()["sub"] == str(alice.pk)


@pytest.mark.parametrize("client_type", ["confidential", "public"])
def test_the_shell_commands_of_the_guide(answer: Answer, alice: Any, client_type: str) -> None:
    if not all(map(shutil.which, ("curl", "openssl", "bash"))):
        pytest.skip("needs curl, openssl and bash")
    application = ApplicationFactory(client_type=client_type)
    code = documents.fill_for(documents.blocks("guide", "sh")["curl"], application.row)
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
    callback = answer(shell.stdout.readline().strip())
    shell.stdin.write(f"{callback.parameters['code']}\n")
    shell.stdin.flush()
    token = json.loads(shell.stdout.readline())
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    output, _ = shell.communicate(f"{token['access_token']}\n", timeout=PATIENCE_SECONDS)
    profile = json.loads(output)
    assert profile == expected(alice, profile)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_openid_connect_of_the_guide(driver: OAuthDriver, answer: Answer, alice: Any, algorithm: str) -> None:
    application = ApplicationFactory(id_token_alg=algorithm)
    [more] = re.findall(r"^&(scope=.*)nonce=\{NONCE\}$", documents.source("guide"), re.MULTILINE)
    url = f"{driver.authorization_url(application)}&{more}nonce=once"
    token = driver.exchange(application, answer(url).parameters["code"]).json()["id_token"]
    code = documents.blocks("guide", "python")["id-token"]
    claims_of = run(documents.fill_for(code, application.row))["claims_of"]
    assert claims_of(token, "once")["sub"] == str(alice.pk)
    with pytest.raises(ValueError, match="not of the sign-in that this session started"):
        claims_of(token, "twice")
    of_another = run(documents.fill_for(code, ApplicationFactory().row))["claims_of"]
    with pytest.raises(jwt.InvalidAudienceError):
        of_another(token, "once")


def test_authlib(answer: Answer, application: Registered, alice: Any) -> None:
    browser = connected("authlib", application)["app"].test_client()
    away = browser.get("/sign-in", base_url="https://client.example")
    profile = browser.get(answer(away.location).url).json
    assert (profile["sub"], profile["name"], profile["email"]) == (str(alice.pk), alice.nickname, alice.email)


def test_django_allauth(answer: Answer, alice: Any, tmp_path: Path) -> None:
    """In a process of its own: this one has the settings of the service."""
    application = ApplicationFactory(redirect_uris="https://client.example/oidc/service/login/callback/")
    file = tmp_path / "settings.py"
    file.write_text(code_of("django-allauth", application), encoding="utf-8")
    site = Path(__file__).with_name("allauth_site.py")
    outcome = outcome_of([sys.executable, site, file], answer)
    told = {"sub": str(alice.pk), "email": alice.email, "name": alice.nickname}
    assert outcome == {"location": "/signed-in", **told}


@contract("1.4", "1.5", "5.2", "4.3", "4.4", "3.1", "3.4", "4.2/error", "7/callback", "D13.twice", "D19/invalid_grant")
def test_requests_oauthlib(answer: Answer, application: Registered, alice: Any) -> None:
    client = connected("requests-oauthlib", application)
    url, kept = client["sign_in_url"]()
    callback = answer(url).url
    profile = client["profile_of"](callback, kept)
    assert profile == expected(alice, profile)
    with pytest.raises(InvalidGrantError):
        client["profile_of"](callback, kept)
    url, kept = client["sign_in_url"]()
    with pytest.raises(AccessDeniedError):
        client["profile_of"](answer(url, "refuse").url, kept)


def test_flask_dance(answer: Answer, alice: Any, capsys: pytest.CaptureFixture[str]) -> None:
    application = ApplicationFactory(redirect_uris="https://client.example/login/service/authorized")
    browser = connected("flask-dance", application)["app"].test_client()
    away = browser.get("/login/service", base_url="https://client.example")
    assert browser.get(answer(away.location).url).location == "/"
    assert f"signed in: {alice.pk}" in capsys.readouterr().out


class Strategy(BaseStrategy):
    def __init__(self, application: Registered) -> None:
        super().__init__(Mock())  # a storage that accepts each state
        self.query: dict[str, str] = {}
        session: dict[str, Any] = {}
        self.session_get, self.session_set = session.get, session.__setitem__
        self.session_pop = lambda name: session.pop(name, None)
        self.get_setting = {
            "SOCIAL_AUTH_SERVICE_KEY": application.client_id,
            "SOCIAL_AUTH_SERVICE_SECRET": application.client_secret,
        }.__getitem__
        self.request_data = lambda merge=True: self.query
        self.build_absolute_uri = str

    def authenticate(self, backend: Any, *args: Any, **kwargs: Any) -> Any:
        return kwargs["response"]


def test_social_auth(answer: Answer, application: Registered, alice: Any) -> None:
    strategy = Strategy(application)
    backend = connected("social-auth", application)["Service"](strategy, application.redirect_uri)
    strategy.query = backend.data = answer(backend.auth_url()).parameters
    response = backend.auth_complete()
    assert backend.get_user_id(backend.get_user_details(response), response) == str(alice.pk)
    assert backend.get_user_details(response)["email"] == alice.email


MODULES = Path("/usr/lib/apache2/modules")
LOADED = ("mpm_event", "authn_core", "authz_core", "authz_user", "headers", "auth_openidc")
# What Debian's apache2.conf has around the documented block, with folders of the test. The headers show what pages get.
AROUND = """
ServerRoot {folder}
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
Mutex file:{folder}
ErrorLog {folder}/error.log
Listen 127.0.0.1:{port}
ServerName localhost:{port}
{modules}
{user}
DocumentRoot {folder}/pages
{documented}
Header set X-Sub "expr=%{{reqenv:OIDC_CLAIM_sub}}"
Header set X-Email "expr=%{{reqenv:OIDC_CLAIM_email}}"
"""


@contextmanager
def apache(port: int, documented: str) -> Iterator[Path]:
    """Apache on the loopback `port` with the page /protected/page.txt; it ends with the block. Gives its error log."""
    if not (MODULES / "mod_auth_openidc.so").exists():
        pytest.skip("needs Apache with mod_auth_openidc")
    with tempfile.TemporaryDirectory() as name:
        folder, log = Path(name), Path(name, "error.log")
        folder.chmod(0o755)  # as root, Apache reads the pages as another user
        page = folder / "pages" / "protected" / "page.txt"
        page.parent.mkdir(parents=True)
        page.write_text("protected", encoding="utf-8")
        modules = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in LOADED)
        user = "User nobody\nGroup nogroup" if os.geteuid() == 0 else ""
        text = AROUND.format(folder=folder, port=port, modules=modules, user=user, documented=documented)
        (folder / "apache.conf").write_text(text, encoding="utf-8")
        command = [program("apache2"), "-f", folder / "apache.conf", "-D", "FOREGROUND"]
        with started(command, lambda: is_open(port), log):
            yield log


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_mod_auth_openidc(answer: Answer, alice: Any, algorithm: str) -> None:
    port = free_port()
    address = f"http://localhost:{port}"
    application = ApplicationFactory(redirect_uris=f"{address}/protected/callback", id_token_alg=algorithm)
    code = code_of("mod-auth-openidc", application).replace("https://{YOUR_HOST}", address)
    with apache(port, code.replace("{PASSPHRASE}", "p" * 32)) as log:
        browser = requests.Session()
        away = browser.get(f"{address}/protected/page.txt", allow_redirects=False)
        assert away.status_code == 302, away.text + log.read_text(encoding="utf-8")
        page = browser.get(answer(away.headers["Location"]).url)
        assert (page.status_code, page.text, page.url) == (200, "protected", f"{address}/protected/page.txt")
        assert (page.headers["X-Sub"], page.headers["X-Email"]) == (str(alice.pk), alice.email)
        assert browser.get(page.url, allow_redirects=False).status_code == 200


def test_each_section_says_whether_tests_run_it() -> None:
    text, blocks = documents.source("connect"), documents.blocks("connect")
    sections = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(sections) == len(blocks)
    run_here = {re.search(r"```\w+ ([\w-]+)", each)[1] for each in sections if "tests run it" in each}  # type: ignore[index]
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    assert {name for name in blocks if f'"{name}"' in tests} == run_here
