"""What the client libraries have in common: where the service is, and a person who allows what they ask for."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine

from oauth_bridge.api_docs import documents, openapi
from tests.driver import Callback, OAuthDriver
from tests.factories import PASSWORD, Registered
from tests.server import Server

Answer = Callable[..., Callback]
PATIENCE_SECONDS = 120
OFFSET_SECONDS = -30

# A clock that is some seconds off, for Node.
SHIFTED_DATE = """
const Real = Date;
globalThis.Date = class extends Real {
  constructor(...given) { super(...(given.length ? given : [Real.now() + %(ms)d])); }
  static now() { return Real.now() + %(ms)d; }
};
"""


@pytest.fixture(autouse=True)
def _served_there(settings: Any, provider: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The addresses in the documents' code are those of the provider, whose http each library allows by a setting."""
    settings.AUTH_URL, settings.BASE_URL = provider.auth_url, provider.base_url
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    monkeypatch.setenv("AUTHLIB_INSECURE_TRANSPORT", "1")


@pytest.fixture
def shifted_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clock of the clients is half a minute behind that of the service, so ID tokens seem to be of the future.

    Python has it in this process and in programs that read CLOCK_OFFSET_SECONDS, Node in all programs.
    """
    (tmp_path / "clock.mjs").write_text(SHIFTED_DATE % {"ms": OFFSET_SECONDS * 1000}, encoding="ascii")
    monkeypatch.setenv("NODE_OPTIONS", f"--import={tmp_path / 'clock.mjs'}")
    monkeypatch.setenv("CLOCK_OFFSET_SECONDS", str(OFFSET_SECONDS))
    with time_machine.travel(time.time() + OFFSET_SECONDS):
        yield


@pytest.fixture
def answer(driver: OAuthDriver, alice: Any) -> Answer:
    """`answer(url)`: Alice follows the link and allows, or with "refuse" refuses. Returns the callback."""
    return lambda url, decision="allow": driver.authorize(url, alice.email, PASSWORD, decision)


def code_of(name: str, application: Registered) -> str:
    return openapi.fill(
        documents.blocks("connect")[name],
        CLIENT_ID=application.client_id,
        CLIENT_SECRET=application.client_secret,
        REDIRECT_URI=application.redirect_uri,
    )


def expected(alice: Any, profile: dict[str, Any]) -> dict[str, Any]:
    return {"sub": str(alice.pk), "nickname": alice.nickname, "email": alice.email, "avatar": profile["avatar"]}


def outcome_of(command: list[Any], answer: Answer, **options: Any) -> dict[str, Any]:
    """What a client program prints after the callback that it reads; before, it printed where to send the browser."""
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options) as process:
        assert process.stdout
        callback = answer(json.loads(process.stdout.readline())["url"])
        output, _ = process.communicate(f"{callback.url}\n", timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    return json.loads(output)
