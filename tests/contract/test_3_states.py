"""Specification 3: the events that end a code or a token."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory
from tests.server import Server

Rewind = Callable[..., None]
# PostgreSQL redeems a code in one statement of its own.
pytestmark = pytest.mark.integration


@contract("3.1", "2.2/use", "8/code", "D13.twice", "D13.no-row")
def test_a_code_is_redeemed_once_only_and_its_token_lives(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    token = driver.exchange(application, code).json()["access_token"]
    for _ in range(3):
        assert "less than 3 seconds ago" in error_of(driver.exchange(application, code), 400, "invalid_grant")
    assert driver.userinfo(token).status_code == 200
    assert AccessToken.objects.filter(application=application.row).count() == 1


@contract("3.2", "2.2/validity", "8/code", "D14.code")
@pytest.mark.parametrize(("age", "status"), [(500, 200), (600, 400)])
def test_a_code_lives_ten_minutes(
    signed_in: OAuthDriver, application: Registered, rewind: Rewind, age: int, status: int
) -> None:
    page = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(signed_in.decide(page)).parameters["code"]
    rewind(AuthorizationCode.objects.get(application=application.row), age)
    answer = signed_in.exchange(application, code)
    assert answer.status_code == status
    assert ("10 minutes" in answer.text) is (status == 400)


@contract("3.3", "8/token", "7/401", "D14.token")
def test_a_token_lives_one_hour_from_its_issue(driver: OAuthDriver, application: Registered, rewind: Rewind) -> None:
    code = CodeFactory(application=application)
    rewind(code.row, 500)
    token = driver.exchange(application, code.raw).json()["access_token"]
    row = AccessToken.objects.get(application=application.row)
    assert row.expires_at - row.issued_at == timedelta(seconds=3600)
    rewind(row, 3000)
    assert driver.userinfo(token).status_code == 200
    rewind(row, 600)
    error_of(driver.userinfo(token), 401, "invalid_token")


@contract("D13.replay", "D13.recorded", "3.1")
@pytest.mark.parametrize("age", [3, 120, 601])
def test_a_replay_revokes_the_token_that_was_issued_from_the_code_and_is_recorded(
    driver: OAuthDriver, provider: Server, application: Registered, alice: Any, rewind: Rewind, age: int
) -> None:
    codes = [CodeFactory(application=application, user=alice) for _ in range(2)]
    tokens = [driver.exchange(application, code.raw).json()["access_token"] for code in codes]
    rewind(codes[0].row, age)
    error_of(driver.exchange(ApplicationFactory(), codes[0].raw), 400, "invalid_grant")
    error_of(driver.exchange(application, codes[0].raw, client_secret="guess"), 401, "invalid_client")
    assert [driver.userinfo(token).status_code for token in tokens] == [200, 200], (
        "whoever saw the code revokes nothing"
    )
    assert "has been revoked" in error_of(driver.exchange(application, codes[0].raw), 400, "invalid_grant")
    assert [driver.userinfo(token).status_code for token in tokens] == [401, 200]

    event = f'"event":"code_replayed","client_id":"{application.client_id}"'
    assert provider.logged(event)
    line = next(line for line in provider.log.splitlines() if event in line)
    assert '"address":"127.0.0.1"' in line
    assert json.loads(line)["age_seconds"] >= age
    assert codes[0].raw not in provider.log


@contract("D13.replay")
@pytest.mark.parametrize("kind", [Application.CLIENT_PUBLIC, Application.CLIENT_CONFIDENTIAL])
def test_a_replay_of_a_challenged_code_needs_the_right_verifier(driver: OAuthDriver, rewind: Rewind, kind: str) -> None:
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


@contract("D13.unspent", "D11.refresh", "D19/unsupported", "4.3/grant_type")
def test_a_wrong_client_or_grant_type_does_not_spend_the_code(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    error_of(driver.exchange(application, code, client_secret="wrong"), 401, "invalid_client")
    error_of(driver.exchange(application, code, client_secret=None), 401, "invalid_client")
    error_of(driver.exchange(ApplicationFactory(), code), 400, "invalid_grant")
    more = {"username": "a", "password": "b", "refresh_token": "c", "device_code": "d"}
    device = "urn:ietf:params:oauth:grant-type:device_code"
    for grant_type in ("password", "client_credentials", "refresh_token", "implicit", "CODE", "ü", device):
        error_of(driver.exchange(application, code, grant_type=grant_type, **more), 400, "unsupported_grant_type")
    assert driver.exchange(application, code).status_code == 200


@contract("D17.person")
def test_a_deactivated_person_makes_codes_and_tokens_useless_and_is_signed_out_at_once(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = CodeFactory(application=application, user=alice).raw
    token = TokenFactory(application=application, user=alice).raw
    page = signed_in.open(signed_in.authorization_url(application))
    alice.is_active = False
    alice.save()
    error_of(signed_in.exchange(application, code), 400, "invalid_grant")
    error_of(signed_in.userinfo(token), 401, "invalid_token")
    assert "code=" not in signed_in.decide(page).headers.get("Location", "")
    assert signed_in.get("/accounts/profile").status_code == 302
    anew = another_driver.consent_page(application, alice.email, PASSWORD)
    assert (Page(anew).consent, anew.headers.get("Location")) == (None, None)


@contract("D17.application", "D8.leads-on", "D3.exact")
def test_a_disabled_application_makes_codes_tokens_and_open_pages_useless_at_once(
    signed_in: OAuthDriver, application: Registered, alice: Any
) -> None:
    code = CodeFactory(application=application, user=alice).raw
    token = TokenFactory(application=application, user=alice).raw
    page = signed_in.open(signed_in.authorization_url(application))
    rows = Application.objects.filter(pk=application.row.pk)
    for changes in ({"redirect_uris": "https://new.example/cb"}, {"is_enabled": False}):
        rows.update(**changes)
        for decision in ("allow", "refuse"):
            answer = signed_in.decide(page, decision)
            assert (answer.status_code, answer.headers.get("Location")) == (400, None)
    error_of(signed_in.exchange(application, code), 401, "invalid_client")
    error_of(signed_in.userinfo(token), 401, "invalid_token")
    error_of(signed_in.call("GET", signed_in.authorization_url(application, at="")), 400, "unauthorized_client")
