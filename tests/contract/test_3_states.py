"""Specification 3: the events that end a code or a token."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from oauth_bridge.pkce import challenge_of
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory
from tests.server import Server

Rewind = Callable[..., None]


@contract("3.1", "2.2/use", "8/code")
def test_a_code_is_redeemed_once_only(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    assert driver.exchange(application, code).status_code == 200
    error_of(driver.exchange(application, code), 400, "invalid_grant")


@contract("3.2", "2.2/validity", "8/code", "D14.code")
def test_a_code_lives_ten_minutes(driver: OAuthDriver, application: Registered, rewind: Rewind) -> None:
    young, old = CodeFactory(application=application), CodeFactory(application=application)
    rewind(young.row, 590)
    rewind(old.row, 600)
    assert driver.exchange(application, young.raw).status_code == 200
    assert "10 minutes" in error_of(driver.exchange(application, old.raw), 400, "invalid_grant")


@contract("3.2", "2.2/validity", "8/code", "D14.code")
@pytest.mark.parametrize(("age", "status"), [(590, 200), (600, 400)])
def test_a_code_that_a_person_allowed_lives_ten_minutes(
    signed_in: OAuthDriver, application: Registered, rewind: Rewind, age: int, status: int
) -> None:
    page = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(signed_in.decide(page)).parameters["code"]
    rewind(AuthorizationCode.objects.get(application=application.row), age)
    assert signed_in.exchange(application, code).status_code == status


@contract("3.3", "8/token", "7/401", "D14.token")
def test_a_token_lives_one_hour(driver: OAuthDriver, rewind: Rewind) -> None:
    young, old = TokenFactory(), TokenFactory()
    rewind(young.row, 3590)
    rewind(old.row, 3600)
    assert driver.userinfo(young.raw).status_code == 200
    error_of(driver.userinfo(old.raw), 401, "invalid_token")


@contract("3.3", "8/token", "D14.token")
def test_a_token_that_was_exchanged_counts_from_its_own_issue(
    driver: OAuthDriver, application: Registered, rewind: Rewind
) -> None:
    code = CodeFactory(application=application)
    rewind(code.row, 590)
    token = driver.exchange(application, code.raw).json()["access_token"]
    row = AccessToken.objects.get(application=application.row)
    assert 3599 <= (row.expires_at - row.issued_at).total_seconds() <= 3601
    rewind(row, 3570)
    assert driver.userinfo(token).status_code == 200
    rewind(row, 30)
    assert driver.userinfo(token).status_code == 401


@contract("3.4", "4.2/error", "7/callback", "D6.refusal")
def test_a_refusal_carries_access_denied_instead_of_a_code(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    link = driver.authorization_url(application, state="xyz")
    refused = driver.authorize(link, alice.email, PASSWORD, "refuse").parameters
    assert set(refused) == {"error", "error_description", "state"}
    assert refused["error"] == "access_denied"
    assert refused["state"] == "xyz"


@contract("D13.twice", "3.1")
def test_an_exchange_that_is_sent_twice_leaves_its_token_alive(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    token = driver.exchange(application, code).json()["access_token"]
    for _ in range(3):
        assert "less than 3 seconds ago" in error_of(driver.exchange(application, code), 400, "invalid_grant")
    assert driver.userinfo(token).status_code == 200


@contract("D13.replay", "3.1")
def test_a_replay_revokes_the_token_that_was_issued_from_the_code(
    driver: OAuthDriver, application: Registered, rewind: Rewind
) -> None:
    code = CodeFactory(application=application)
    token = driver.exchange(application, code.raw).json()["access_token"]
    rewind(code.row, 3)
    assert driver.userinfo(token).status_code == 200
    assert "has been revoked" in error_of(driver.exchange(application, code.raw), 400, "invalid_grant")
    error_of(driver.userinfo(token), 401, "invalid_token")


@contract("D13.replay")
def test_a_replay_revokes_no_other_token(
    driver: OAuthDriver, application: Registered, alice: Any, rewind: Rewind
) -> None:
    codes = [CodeFactory(application=application, user=alice) for _ in range(2)]
    tokens = [driver.exchange(application, code.raw).json()["access_token"] for code in codes]
    rewind(codes[0].row, 3)
    driver.exchange(application, codes[0].raw)
    assert [driver.userinfo(token).status_code for token in tokens] == [401, 200]


@contract("D13.replay")
def test_a_code_that_expired_after_it_was_spent_still_revokes(
    driver: OAuthDriver, application: Registered, rewind: Rewind
) -> None:
    code = CodeFactory(application=application)
    token = driver.exchange(application, code.raw).json()["access_token"]
    rewind(code.row, 601)
    error_of(driver.exchange(application, code.raw), 400, "invalid_grant")
    assert driver.userinfo(token).status_code == 401


@contract("D13.replay")
def test_mallory_revokes_nothing_with_a_code_she_has_seen(
    driver: OAuthDriver, application: Registered, rewind: Rewind
) -> None:
    code = CodeFactory(application=application)
    token = driver.exchange(application, code.raw).json()["access_token"]
    rewind(code.row, 30)
    hers = ApplicationFactory()
    error_of(driver.exchange(hers, code.raw), 400, "invalid_grant")
    error_of(driver.exchange(application, code.raw, client_secret="guess"), 401, "invalid_client")
    assert driver.userinfo(token).status_code == 200


@contract("D13.replay")
@pytest.mark.parametrize("kind", [Application.CLIENT_PUBLIC, Application.CLIENT_CONFIDENTIAL])
def test_a_replay_of_a_code_with_a_challenge_revokes_with_the_right_verifier_only(
    driver: OAuthDriver, rewind: Rewind, kind: str
) -> None:
    """Anybody can send a public client_id, and a confidential client may have received a stolen code."""
    application = ApplicationFactory(client_type=kind)
    secret = application.client_secret or None
    verifier = "v" * 43
    code = CodeFactory(application=application, code_challenge=challenge_of(verifier))
    given: dict[str, str | None] = {"client_secret": secret, "code_verifier": verifier}
    token = driver.exchange(application, code.raw, **given).json()["access_token"]
    rewind(code.row, 30)
    for wrong in (None, "", "w" * 43):
        refused = driver.exchange(application, code.raw, **{**given, "code_verifier": wrong})
        is_unproved = kind == Application.CLIENT_PUBLIC and not wrong
        expected = (401, "invalid_client") if is_unproved else (400, "invalid_grant")
        assert "code_verifier" in error_of(refused, *expected)
    assert driver.userinfo(token).status_code == 200
    assert "has been revoked" in error_of(driver.exchange(application, code.raw, **given), 400, "invalid_grant")
    assert driver.userinfo(token).status_code == 401


@contract("D13.recorded")
def test_a_replay_is_recorded_with_its_age_and_address(
    driver: OAuthDriver, provider: Server, application: Registered, rewind: Rewind
) -> None:
    code = CodeFactory(application=application)
    driver.exchange(application, code.raw)
    rewind(code.row, 120)
    driver.exchange(application, code.raw)
    event = f'"event":"code_replayed","client_id":"{application.client_id}"'
    assert provider.logged(event)
    line = next(line for line in provider.log.splitlines() if event in line)
    assert '"address":"127.0.0.1"' in line
    assert 120 <= json.loads(line)["age_seconds"] < 180
    assert code.raw not in provider.log


@contract("D13.unspent")
def test_a_failed_client_authentication_does_not_spend_the_code(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    error_of(driver.exchange(application, code, client_secret="wrong"), 401, "invalid_client")
    error_of(driver.exchange(application, code, client_secret=None), 401, "invalid_client")
    error_of(driver.exchange(ApplicationFactory(), code), 400, "invalid_grant")
    assert driver.exchange(application, code).status_code == 200


@contract("D13.unspent")
def test_a_wrong_grant_type_does_not_spend_the_code(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    for grant_type in ("password", "client_credentials", "refresh_token", "Authorization_Code"):
        error_of(driver.exchange(application, code, grant_type=grant_type), 400, "unsupported_grant_type")
    assert driver.exchange(application, code).status_code == 200


@contract("D17.person")
def test_a_deactivated_person_makes_codes_and_tokens_useless_at_once(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = CodeFactory(application=application, user=alice).raw
    token = TokenFactory(application=application, user=alice).raw
    alice.is_active = False
    alice.save()
    error_of(driver.exchange(application, code), 400, "invalid_grant")
    error_of(driver.userinfo(token), 401, "invalid_token")


@contract("D17.person")
def test_a_deactivated_person_is_signed_out_at_once(
    signed_in: OAuthDriver, application: Registered, alice: Any
) -> None:
    consent_page = signed_in.open(signed_in.authorization_url(application))
    alice.is_active = False
    alice.save()
    answer = signed_in.decide(consent_page)
    assert "code=" not in answer.headers.get("Location", "")
    assert signed_in.get("/accounts/profile").status_code == 302


@contract("D17.application")
def test_a_disabled_application_makes_codes_and_tokens_useless_at_once(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = CodeFactory(application=application, user=alice).raw
    token = TokenFactory(application=application, user=alice).raw
    application.row.is_enabled = False
    application.row.save()
    error_of(driver.exchange(application, code), 401, "invalid_client")
    error_of(driver.userinfo(token), 401, "invalid_token")
    error_of(driver.call("GET", driver.authorization_url(application, at="")), 400, "unauthorized_client")


@contract("D17.application", "D8.leads-on")
def test_an_application_disabled_while_the_person_reads_gets_no_code(
    signed_in: OAuthDriver, application: Registered
) -> None:
    consent_page = signed_in.open(signed_in.authorization_url(application))
    application.row.is_enabled = False
    application.row.save()
    answer = signed_in.decide(consent_page)
    assert answer.status_code == 400
    assert "Location" not in answer.headers
