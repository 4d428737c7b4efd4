"""AUDIT_LOG under gunicorn: the events of all workers and commands in one file, and in no other log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, PersonFactory
from tests.peers import wait_until


def test_a_failed_sign_in_is_explained_by_the_file_alone(launch: Launch, manage: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    server = launch(AUDIT_LOG=f"file://{path}")
    person = PersonFactory()
    OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, "wrong")
    path.rename(tmp_path / "audit.log.1")
    OAuthDriver(server.base_url, server.auth_url).signed_in(person.email, PASSWORD)
    manage("account", "deactivate", person.email, AUDIT_LOG=f"file://{path}")

    def events(file: Path) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [line for line in lines if str(person.pk) in (line.get("person"), line.get("key"))]

    wait_until(lambda: path.exists() and len(events(path)) == 3)
    (refused,) = events(tmp_path / "audit.log.1")
    assert (refused["event"], refused["cause"], refused["address"]) == ("refused", "password_wrong", "127.0.0.1")
    assert server.logged(refused["reference"])  # the line of the request
    assert [line["event"] for line in events(path)] == ["signed_in", "account_deactivated", "administered"]
    assert '"logger":"events"' not in server.log
    assert person.email not in path.read_text(encoding="utf-8")
