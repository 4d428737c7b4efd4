"""What the client libraries have in common: where the service is, and a person who allows what they ask for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oauth_bridge.documentation import snippets
from tests.driver import Callback, OAuthDriver
from tests.factories import PASSWORD, Registered
from tests.server import Server, serve

Answer = Callable[..., Callback]
PATIENCE_SECONDS = 120


@pytest.fixture(scope="session")
def provider(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose clock a test sets."""
    folder = tmp_path_factory.mktemp("shifted")
    (folder / "clock").write_text("0", encoding="ascii")
    with serve(folder, wsgi="tests.wsgi.shifted", SIGN_UP="open", CLOCK=str(folder / "clock")) as server:
        yield server


@pytest.fixture(autouse=True, params=[-30, 30], ids=["behind", "ahead"])
def _served_there(
    request: pytest.FixtureRequest, settings: Any, provider: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The addresses in the documents' code are those of the provider, whose http each library allows by a setting.

    The clock of the provider is half a minute behind that of the clients, or ahead of it.
    """
    (provider.folder / "clock").write_text(str(request.param), encoding="ascii")
    settings.AUTH_URL, settings.BASE_URL = provider.auth_url, provider.base_url
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
def answer(driver: OAuthDriver, alice: Any) -> Answer:
    """`answer(url)`: Alice follows the link and allows, or with "refuse" refuses. Returns the callback."""
    return lambda url, decision="allow": driver.authorize(url, alice.email, PASSWORD, decision)


def code_of(name: str, application: Registered) -> str:
    """Code of docs/connect.md with the values of the application."""
    return snippets.fill(
        snippets.blocks("connect")[name],
        CLIENT_ID=application.client_id,
        CLIENT_SECRET=application.client_secret,
        REDIRECT_URI=application.redirect_uri,
    )


def expected(alice: Any, profile: dict[str, Any]) -> dict[str, Any]:
    return {"sub": str(alice.pk), "nickname": alice.nickname, "email": alice.email, "avatar": profile["avatar"]}


def outcome_of(command: list[Any], answer: Answer, decision: str = "allow", **options: Any) -> dict[str, Any]:
    """What a client program prints after the callback that it reads; before, it printed where to send the browser."""
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout
        callback = answer(json.loads(process.stdout.readline())["url"], decision)
        output, _ = process.communicate(f"{callback.url}\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    outcome: dict[str, Any] = json.loads(output)
    return outcome
