"""Revocation and introspection of access tokens. RFC 7009; RFC 7662."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import ApplicationFactory, Registered, TokenFactory


def send(driver: OAuthDriver, operation: str, application: Registered, token: str, **more: str) -> Any:
    form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": token, **more}
    return driver.call("POST", f"/oauth/{operation}", data={name: value for name, value in form.items() if value})


def token_of(application: Registered, alice: Any) -> str:
    return str(TokenFactory(application=application.row, user=alice).raw)


@pytest.mark.integration
@contract("I8.revoke", "I8.others")
@pytest.mark.parametrize("kind", ["confidential", "public"])
def test_an_application_ends_its_own_token_and_no_other(driver: OAuthDriver, alice: Any, kind: str) -> None:
    """A public one by the token alone."""
    application = ApplicationFactory(client_type=kind)
    token = token_of(application, alice)
    for other in (ApplicationFactory(), ApplicationFactory(client_type="public")):
        assert send(driver, "revoke", other, token).status_code == 200
    assert driver.userinfo(token).status_code == 200
    for _ in range(2):
        answer = send(driver, "revoke", application, token, token_type_hint="refresh_token")
        assert (answer.status_code, answer.text) == (200, "")
        error_of(driver.userinfo(token), 401, "invalid_token")


@pytest.mark.integration
@contract("I8.introspect", "I8.others")
def test_a_valid_token_is_told_as_active_and_every_other_alike(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    told = send(driver, "introspect", application, token_of(application, alice)).json()
    named = {"active": True, "sub": str(alice.pk), "client_id": application.client_id, "iss": driver.base_url}
    assert told.items() >= (named | {"exp": told["iat"] + 3600}).items()
    revoked = token_of(application, alice)
    send(driver, "revoke", application, revoked)
    for token in (revoked, "x", "x" * 5000, token_of(ApplicationFactory(), alice)):
        assert send(driver, "introspect", application, token).json() == {"active": False}


@contract("I8.client")
@pytest.mark.parametrize("operation", ["revoke", "introspect"])
def test_the_client_must_prove_itself_and_a_public_one_can_not_introspect(
    driver: OAuthDriver, application: Registered, alice: Any, operation: str
) -> None:
    token = token_of(application, alice)
    for secret in ("wrong", ""):
        error_of(send(driver, operation, application, token, client_secret=secret), 401, "invalid_client")
    error_of(send(driver, operation, application, ""), 400, "invalid_request")
    assert driver.userinfo(token).status_code == 200
    public = ApplicationFactory(client_type="public")
    for proof in ({}, {"code_verifier": "v" * 43}):
        answer = send(driver, "introspect", public, token_of(public, alice), client_secret="", **proof)
        error_of(answer, 401, "invalid_client")
