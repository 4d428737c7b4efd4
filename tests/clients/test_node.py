"""Client libraries of Node, and the code of the documents, complete the flow without changes. Specification 1."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oauth_bridge.api_docs import documents
from tests.clients.conftest import Answer, outcome_of
from tests.factories import ApplicationFactory, Registered
from tests.server import Server

SOURCES = Path(__file__).resolve().parent / "node"
INSTALL_SECONDS = 600
Run = Callable[..., dict[str, Any]]
# Document, name of the code, how it is driven, path of the callback.
SNIPPETS = [
    ("guide", "client", "functions", "/callback"),
    ("connect", "authjs", "authjs", "/api/auth/callback/service"),
    ("connect", "better-auth", "betterAuth", "/api/auth/callback/service"),
    ("connect", "passport", "passport", "/callback"),
    ("connect", "simple-oauth2", "functions", "/callback"),
    ("connect", "arctic", "functions", "/callback"),
    ("connect", "openid-client", "functions", "/callback"),
]
# What the code has as a comment for services without https, which the server of the tests is.
WITHOUT_HTTPS = "// On a service without https, while you develop: "


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs, with their libraries at the locked versions, outside the checkout."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("needs Node and npm")
    folder = tmp_path_factory.mktemp("node") / "clients"
    shutil.copytree(SOURCES, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if result.returncode != 0:
        pytest.skip(f"npm can't install the client libraries: {result.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.fixture
def run(programs: Path, provider: Server, answer: Answer) -> Run:
    def run(name: str, application: Registered, **more: str) -> dict[str, Any]:
        own = {"BASE_URL": provider.base_url, "AUTH_URL": provider.auth_url, "REDIRECT_URI": application.redirect_uri}
        credentials = {"CLIENT_ID": application.client_id, "CLIENT_SECRET": application.client_secret}
        environment = {**os.environ, **own, **credentials, **more}
        return outcome_of(["node", name], answer, cwd=programs, env=environment)

    return run


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_openid_connect_with_all_checks(run: Run, provider: Server, alice: Any, algorithm: str) -> None:
    """Discovery, signature, nonce, max_age, PKCE, `iss`; user info, introspection, revocation."""
    outcome = run("openid_connect.mjs", ApplicationFactory(id_token_alg=algorithm), ALGORITHM=algorithm)
    assert outcome.get("alg") == algorithm, outcome
    assert (outcome["claims"]["iss"], outcome["claims"]["sub"]) == (provider.base_url, str(alice.pk))
    assert (outcome["profile"]["name"], outcome["profile"]["email"]) == (alice.nickname, alice.email)
    assert outcome["active"] == [True, False]


@pytest.mark.usefixtures("shifted_clock")
@pytest.mark.parametrize(("document", "name", "kind", "path"), SNIPPETS, ids=[name for _, name, *_ in SNIPPETS])
def test_documented_code(programs: Path, run: Run, alice: Any, document: str, name: str, kind: str, path: str) -> None:
    application = ApplicationFactory(redirect_uris=f"https://client.example{path}")
    file = programs / f"{application.client_id}.mjs"
    code = documents.fill_for(documents.blocks(document, "js")[name], application.row).replace(WITHOUT_HTTPS, "")
    file.write_text(code.replace("{CLIENT_SECRET}", application.secret), encoding="utf-8")
    profile = run("snippet.mjs", application, SNIPPET=str(file), KIND=kind)["profile"]
    assert (profile["sub"], profile["email"]) == (str(alice.pk), alice.email)
    assert alice.nickname in (profile.get("nickname"), profile.get("name"))
