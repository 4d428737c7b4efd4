"""The operator's interface: client secrets are rotated without an outage."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from oauth_bridge.models import Application
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, CodeFactory, Registered, rewind

Manage = Callable[..., subprocess.CompletedProcess[str]]
DAY = 24 * 3600


def rotated(manage: Manage, application: Registered, *options: str) -> dict[str, Any]:
    result = manage("application", "rotate-secret", application.client_id, *options, "--json")
    assert result.returncode == 0, result.stderr
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def shown(manage: Manage, application: Registered) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(manage("application", "show", application.client_id, "--json").stdout)[
        "secrets"
    ]
    return answer


def seconds_left(secret: dict[str, Any]) -> float:
    return (datetime.fromisoformat(secret["expires"]) - timezone.now()).total_seconds()


def exchange(driver: OAuthDriver, application: Registered, secret: str) -> Any:
    return driver.exchange(application, CodeFactory(application=application).raw, client_secret=secret)


@contract("O.application.rotate-secret")
def test_old_and_new_secret_work_until_the_overlap_is_over(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    answer = rotated(manage, application)
    assert set(answer) == {"client_id", "client_secret", "name", "redirect_uris", "older_secrets"}
    (old,) = answer["older_secrets"]
    assert old["works"]
    assert DAY - 60 < seconds_left(old) <= DAY
    for secret in (application.client_secret, answer["client_secret"]):
        assert exchange(driver, application, secret).status_code == 200
    rewind(application.row.secrets.get(pk=old["id"]), DAY + 1)
    error_of(exchange(driver, application, application.client_secret), 401, "invalid_client")
    assert exchange(driver, application, answer["client_secret"]).status_code == 200


@contract("O.application.rotate-secret")
@pytest.mark.parametrize(
    ("overlap", "seconds"), [("1m", 60), ("36h", 36 * 3600), ("30d", 30 * DAY), ("720h", 30 * DAY)]
)
def test_the_overlap_is_as_long_as_it_was_asked_for(
    manage: Manage, application: Registered, overlap: str, seconds: int
) -> None:
    (old,) = rotated(manage, application, "--overlap", overlap)["older_secrets"]
    assert seconds - 60 < seconds_left(old) <= seconds


@contract("O.application.rotate-secret")
@pytest.mark.parametrize(
    "overlap", ["", "24", "h", "0h", "-1h", "1.5h", "24H", "24h ", "1w", "31d", "721h", "99999d", "٣h"]
)
def test_an_overlap_of_another_form_or_length_is_refused_in_one_sentence(
    manage: Manage, application: Registered, overlap: str
) -> None:
    result = manage("application", "rotate-secret", application.client_id, f"--overlap={overlap}")
    assert result.returncode != 0
    assert "--overlap is a number and a unit, m, h or d" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""
    assert [secret["expires"] for secret in shown(manage, application)] == [None]


@contract("O.application.rotate-secret")
def test_overlap_and_now_are_refused_together(manage: Manage, application: Registered) -> None:
    result = manage("application", "rotate-secret", application.client_id, "--overlap", "1h", "--now")
    assert result.returncode != 0
    assert "not allowed with" in result.stderr
    assert len(shown(manage, application)) == 1


@contract("O.application.rotate-now")
def test_now_ends_every_older_secret_at_once(manage: Manage, driver: OAuthDriver, application: Registered) -> None:
    second = rotated(manage, application)["client_secret"]
    answer = rotated(manage, application, "--now")
    assert [old["works"] for old in answer["older_secrets"]] == [False, False]
    for secret in (application.client_secret, second):
        error_of(exchange(driver, application, secret), 401, "invalid_client")
    assert exchange(driver, application, answer["client_secret"]).status_code == 200


@contract("O.application.rotate-again")
def test_another_rotation_never_lengthens_the_life_of_an_older_secret(manage: Manage, application: Registered) -> None:
    rotated(manage, application, "--overlap", "1h")
    second, first = rotated(manage, application, "--overlap", "7d")["older_secrets"]
    assert seconds_left(first) <= 3600
    assert seconds_left(second) > 6 * DAY
    for old in rotated(manage, application, "--overlap", "1m")["older_secrets"]:
        assert seconds_left(old) <= 60


@contract("O.application.secrets", "D15.digests")
def test_show_tells_of_each_secret_when_it_was_made_last_used_and_expires(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    (secret,) = shown(manage, application)
    assert set(secret) == {"id", "created", "last_used", "expires", "works"}
    assert (secret["last_used"], secret["expires"], secret["works"]) == (None, None, True)
    exchange(driver, application, application.client_secret)
    (used,) = shown(manage, application)
    assert timezone.now() - datetime.fromisoformat(used["last_used"]) < timedelta(minutes=1)

    new = rotated(manage, application)
    assert [old["last_used"] for old in new["older_secrets"]] == [used["last_used"]]
    assert [(one["last_used"] is None, one["expires"] is None) for one in shown(manage, application)] == [
        (True, True),
        (False, False),
    ]
    text = manage("application", "show", application.client_id).stdout
    for credential in (application.client_secret, new["client_secret"]):
        assert credential not in text
    for row in application.row.secrets.all():
        assert bytes(row.digest).hex() not in text


@contract("O.application.rotate-secret")
def test_without_json_it_prints_until_when_a_secret_works_and_its_last_use(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    exchange(driver, application, application.client_secret)
    text = manage("application", "rotate-secret", application.client_id).stdout
    assert re.search(r"secret \d+: +works until 20[-0-9]+ [:0-9]+ UTC; last used 20[-0-9]+ [:0-9]+ UTC; made 20", text)
    text = manage("application", "rotate-secret", application.client_id, "--now").stdout
    assert re.search(r"secret \d+: +ended 20[-0-9]+ [:0-9]+ UTC; never used; made 20", text)


@contract("O.application.rotate-secret", "O.application.rotate-now")
def test_an_eleventh_working_secret_is_refused_and_now_ends_the_others(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    for _ in range(9):
        rotated(manage, application)
    result = manage("application", "rotate-secret", application.client_id)
    assert result.returncode != 0
    assert "10 secrets of this application still work" in result.stderr
    assert exchange(driver, application, application.client_secret).status_code == 200
    new = rotated(manage, application, "--now")["client_secret"]
    assert [one["works"] for one in shown(manage, application)] == [True] + 10 * [False]
    assert exchange(driver, application, new).status_code == 200


@contract("O.application.rotate-secret")
def test_a_public_application_has_no_secret_to_rotate(manage: Manage) -> None:
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    for options in ((), ("--now",)):
        result = manage("application", "rotate-secret", public.client_id, *options)
        assert result.returncode != 0
        assert "public: it has no secret" in result.stderr
    assert not public.row.secrets.exists()


@contract("D19/expired-secret", "D13.unspent")
def test_an_expired_secret_is_refused_in_words_of_its_own_and_recorded(
    manage: Manage, launch: Launch, application: Registered
) -> None:
    server = launch()
    driver = OAuthDriver(server.base_url)
    (old,) = rotated(manage, application, "--overlap", "1m")["older_secrets"]
    rewind(application.row.secrets.get(pk=old["id"]), 3660)
    code = CodeFactory(application=application).raw
    said = error_of(driver.exchange(application, code), 401, "invalid_client")
    assert "expired" in said
    assert said != error_of(driver.exchange(application, code, client_secret="wrong"), 401, "invalid_client")

    assert server.logged("expired client secret used")
    (line,) = [json.loads(line) for line in server.log.splitlines() if "expired client secret used" in line]
    assert line["level"] == "warning"
    assert (line["client_id"], line["secret_row"]) == (application.client_id, old["id"])
    assert 3600 <= line["expired_seconds"] < 3660
    assert line["address"] == "127.0.0.1"
    assert application.client_secret not in server.log


@contract("D19/expired-secret")
def test_with_basic_an_expired_secret_gets_the_challenge(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    rotated(manage, application, "--now")
    answer = driver.backend.post(
        f"{driver.base_url}/oauth/token",
        data={"grant_type": "authorization_code", "code": "x"},
        auth=(application.client_id, application.client_secret),
        timeout=10,
    )
    assert "expired" in error_of(answer, 401, "invalid_client")
    assert answer.headers["WWW-Authenticate"].startswith("Basic ")


def listed(manage: Manage, application: Registered) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(manage("application", "secrets", application.client_id, "--json").stdout)
    return answer


def test_the_secrets_are_listed_with_numbers_names_and_makers(
    manage: Manage, driver: OAuthDriver, application: Registered
) -> None:
    new = rotated(manage, application, "--name", "Of the shop")["client_secret"]
    exchange(driver, application, new)
    second, first = listed(manage, application)
    assert (second["number"], second["name"], second["maker"], second["maker_sub"]) == (
        2,
        "Of the shop",
        "command line",
        None,
    )
    assert (second["prefix"], second["state"], second["works"]) == (new[:4], "works", True)
    assert (first["number"], first["name"], first["state"]) == (1, "", "ending")
    assert (first["may_be_removed"], first["warning"], second["may_be_removed"]) == (True, "", False)
    assert [one["id"] for one in shown(manage, application)] == [second["id"], first["id"]]
    text = manage("application", "secrets", application.client_id).stdout
    assert re.search(rf"^No\. 2  Of the shop  {re.escape(new[:4])}…  works; last used .* by command line$", text, re.M)
    assert re.search(r"^No\. 1  works until .*; never used; made .*  safe to remove$", text, re.M)
    assert new not in text


def test_a_name_that_cannot_be_stored_makes_no_secret(manage: Manage, application: Registered) -> None:
    for name in ("x" * 81, "two\nlines"):
        result = manage("application", "rotate-secret", application.client_id, "--name", name)
        assert result.returncode == 1
        assert result.stderr.startswith("CommandError: name: ")
    assert len(shown(manage, application)) == 1


@pytest.mark.parametrize("options", [(), ("--leaked",)])
def test_one_secret_is_ended_and_its_tokens_if_it_has_leaked(
    manage: Manage, driver: OAuthDriver, application: Registered, options: tuple[str, ...]
) -> None:
    new = rotated(manage, application)["client_secret"]
    tokens = [exchange(driver, application, each).json()["access_token"] for each in (application.client_secret, new)]
    result = manage("application", "revoke-secret", application.client_id, "1", *options, "--json")
    assert result.returncode == 0, result.stderr
    ended = json.loads(result.stdout)
    assert (ended["number"], ended["works"], ended["state"]) == (1, False, "leaked" if options else "revoked")
    error_of(exchange(driver, application, application.client_secret), 401, "invalid_client")
    assert exchange(driver, application, new).status_code == 200
    assert [driver.userinfo(token).status_code for token in tokens] == [401 if options else 200, 200]


def test_ending_the_last_secret_says_that_none_is_left(manage: Manage, application: Registered) -> None:
    result = manage("application", "revoke-secret", application.client_id, "1")
    assert result.returncode == 0
    assert "No secret of this application works now." in result.stderr


def test_a_number_that_does_not_exist_and_a_public_application_are_refused(
    manage: Manage, application: Registered
) -> None:
    result = manage("application", "revoke-secret", application.client_id, "2")
    assert result.returncode == 1
    assert "The application has no secret No. 2." in result.stderr
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    result = manage("application", "revoke-secret", public.client_id, "1")
    assert result.returncode == 1
    assert "public: it has no secret" in result.stderr
