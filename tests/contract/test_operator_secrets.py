"""The operator's interface: client secrets are rotated without an outage."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered, rewind
from tests.server import Server

Manage = Callable[..., subprocess.CompletedProcess[str]]


def printed(manage: Manage, *arguments: str) -> Any:
    result = manage("application", *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def rotated(manage: Manage, application: Registered, *options: str) -> Any:
    return printed(manage, "rotate-secret", application.client_id, *options)


def shown(manage: Manage, application: Registered) -> Any:
    return printed(manage, "show", application.client_id)["secrets"]


def overlap(manage: Manage, application: Registered, number: int = 1) -> timedelta:
    """The time from the newest secret to the end of a secret before it: of the last one, or of the `number`-th."""
    newest, *older = shown(manage, application)
    return datetime.fromisoformat(older[number - 1]["expires"]) - datetime.fromisoformat(newest["created"])


def exchange(driver: OAuthDriver, application: Registered, secret: str) -> Any:
    code = CodeFactory(application=application, application_version=application.row.credentials_version)
    return driver.exchange(application, code.raw, client_secret=secret)


@pytest.mark.integration
@contract("O.application.rotate-secret", "D19/expired-secret", "D13.unspent")
def test_old_and_new_secret_work_until_the_overlap_is_over_and_an_expired_one_is_refused_and_recorded(
    manage: Manage, driver: OAuthDriver, provider: Server, application: Registered
) -> None:
    answer = rotated(manage, application)
    assert set(answer) == {"client_id", "client_secret", "name", "redirect_uris", "older_secrets"}
    (old,) = answer["older_secrets"]
    assert old["works"]
    assert overlap(manage, application) == timedelta(days=1)
    for secret in (application.client_secret, answer["client_secret"]):
        assert exchange(driver, application, secret).status_code == 200
    rewind(application.row.secrets.get(pk=old["id"]), 25 * 3600)
    code = CodeFactory(application=application).raw
    said = error_of(driver.exchange(application, code), 401, "invalid_client")
    assert "expired" in said
    others = (
        {"client_secret": "wrong"},
        {"client_secret": application.client_secret[:-1]},
        {"client_id": ApplicationFactory().client_id},
        {"client_id": "unknown"},
    )
    generic = {error_of(driver.exchange(application, code, **each), 401, "invalid_client") for each in others}
    assert len({said, *generic}) == 2, "only a holder of the old secret learns that it existed, and where"
    pair = {"auth": (application.client_id, application.client_secret)}
    basic = driver.call("POST", "/oauth/token", data={"grant_type": "authorization_code", "code": code}, **pair)
    assert error_of(basic, 401, "invalid_client") == said
    assert basic.headers["WWW-Authenticate"].startswith("Basic ")
    assert driver.exchange(application, code, client_secret=answer["client_secret"]).status_code == 200

    event = f'"client_id":"{application.client_id}","secret_row"'
    assert provider.logged(event)
    line = json.loads(next(line for line in provider.log.splitlines() if event in line))
    facts = {"message": "expired client secret used", "level": "warning", "secret_row": old["id"]}
    assert line.items() >= {**facts, "address": "127.0.0.1"}.items()
    assert line["expired_seconds"] >= 3600
    assert application.client_secret not in provider.log


@contract("O.application.rotate-secret", "O.application.rotate-again")
def test_the_overlap_is_as_asked_for_and_lengthens_no_older_life(manage: Manage, application: Registered) -> None:
    rotated(manage, application, "--overlap", "720h")
    assert overlap(manage, application) == timedelta(days=30)
    rotated(manage, application, "--overlap", "36h")
    ends = [one["expires"] for one in shown(manage, application)]
    assert overlap(manage, application, 1) == overlap(manage, application, 2) == timedelta(hours=36)
    rotated(manage, application, "--overlap", "30d")
    assert [one["expires"] for one in shown(manage, application)][2:] == ends[1:]
    rotated(manage, application, "--overlap", "1m")
    assert {overlap(manage, application, number) for number in (1, 2, 3, 4)} == {timedelta(minutes=1)}


@contract("O.application.rotate-secret")
def test_what_can_not_be_is_refused_in_one_sentence(manage: Manage, application: Registered) -> None:
    public, rotate = ApplicationFactory(client_type=Application.CLIENT_PUBLIC), "rotate-secret"
    unit = "--overlap is a number and a unit, m, h or d"
    of_another_form = ("", "24", "h", "0h", "-1h", "1.5h", "24H", "24h ", "1w", "31d", "721h", "99999d", "٣h")
    for registered, command, told in (
        *((application, [rotate, f"--overlap={each}"], unit) for each in of_another_form),
        (application, [rotate, "--name", "x" * 81], "CommandError: name: "),
        (application, [rotate, "--name", "two\nlines"], "CommandError: name: "),
        (application, [rotate, "--overlap", "1h", "--now"], "not allowed with"),
        (application, ["revoke-secret", "2"], "The application has no secret No. 2."),
        *((public, each, "public: it has no secret") for each in (["revoke-secret", "1"], [rotate], [rotate, "--now"])),
    ):
        name, *more = command
        result = manage("application", name, registered.client_id, *more)
        assert result.returncode == (2 if told == "not allowed with" else 1), command
        assert told in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1 or "--overlap" in command
        assert result.stdout == ""
    assert [secret["expires"] for secret in shown(manage, application)] == [None]
    assert not public.row.secrets.exists()
    result = manage("application", "revoke-secret", application.client_id, "1")
    assert result.returncode == 0
    assert "No secret of this application works now." in result.stderr


@contract("O.application.rotate-secret", "O.application.rotate-now")
def test_ten_secrets_work_and_now_ends_all(manage: Manage, driver: OAuthDriver, application: Registered) -> None:
    second, *_others = [rotated(manage, application)["client_secret"] for _ in range(9)]
    result = manage("application", "rotate-secret", application.client_id)
    assert result.returncode != 0
    assert "10 secrets of this application still work" in result.stderr
    assert exchange(driver, application, application.client_secret).status_code == 200
    answer = rotated(manage, application, "--now")
    assert [old["works"] for old in answer["older_secrets"]] == [False] * 10
    assert [one["works"] for one in shown(manage, application)] == [True] + 10 * [False]
    for secret in (application.client_secret, second):
        error_of(exchange(driver, application, secret), 401, "invalid_client")
    assert exchange(driver, application, answer["client_secret"]).status_code == 200


@contract("O.application.secrets", "D15.digests")
def test_each_secret_is_told_of_and_never_shown(manage: Manage, driver: OAuthDriver, application: Registered) -> None:
    (secret,) = shown(manage, application)
    told = {"number", "name", "maker", "maker_sub", "prefix", "state", "warning"}
    assert set(secret) == {"id", "created", "last_used", "expires", "works"} | told
    assert (secret["last_used"], secret["expires"], secret["works"]) == (None, None, True)
    new = rotated(manage, application, "--name", "Of the shop")["client_secret"]
    exchange(driver, application, new)
    second, first = secrets = shown(manage, application)
    assert printed(manage, "secrets", application.client_id) == secrets
    assert datetime.fromisoformat(second["last_used"]) >= datetime.fromisoformat(second["created"])
    for told, expected in (
        (second, {"number": 2, "name": "Of the shop", "maker": "command line", "prefix": new[:4], "state": "works"}),
        (second, {"maker_sub": None, "works": True, "expires": None}),
        (first, {"number": 1, "name": "", "state": "ending", "warning": "", "id": secret["id"], "last_used": None}),
    ):
        assert told.items() >= expected.items()
    assert first["expires"]
    listed = manage("application", "secrets", application.client_id).stdout
    (third,) = [each for each in rotated(manage, application)["older_secrets"] if each["id"] == second["id"]]
    assert third["last_used"] == second["last_used"]
    text = listed + manage("application", "show", application.client_id).stdout
    digests = [bytes(row.digest).hex() for row in application.row.secrets.all()]
    assert [each for each in (application.client_secret, new, *digests) if each in text] == []
    text = listed + "".join(
        manage("application", "rotate-secret", application.client_id, *options).stdout for options in (["--now"], [])
    )
    for line in (
        rf"^No\. 2  Of the shop  {re.escape(new[:4])}…  works; last used .* by command line$",
        r"^No\. 1  works until .*; never used; made .* UTC$",
        r"secret: +No\. 2  Of .*  ended 20[-0-9]+ [:0-9]+ UTC; last used 20[-0-9]+ [:0-9]+ UTC; made",
        r"secret: +No\. 4 .*works until 20[-0-9]+ [:0-9]+ UTC; never used; made 20",
    ):
        assert re.search(line, text, re.M), line


@pytest.mark.integration
@pytest.mark.parametrize("options", [(), ("--leaked",)])
def test_one_secret_is_ended_and_its_tokens_if_it_has_leaked(
    manage: Manage, driver: OAuthDriver, application: Registered, options: tuple[str, ...]
) -> None:
    new = rotated(manage, application)["client_secret"]
    tokens = [exchange(driver, application, each).json()["access_token"] for each in (application.client_secret, new)]
    ended = printed(manage, "revoke-secret", application.client_id, "1", *options)
    assert (ended["number"], ended["works"], ended["state"]) == (1, False, "leaked" if options else "revoked")
    error_of(exchange(driver, application, application.client_secret), 401, "invalid_client")
    application.row.refresh_from_db()
    assert exchange(driver, application, new).status_code == 200
    assert [driver.userinfo(token).status_code for token in tokens] == [401 if options else 200] * 2
