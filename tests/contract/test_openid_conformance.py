"""What the OpenID Foundation's plans Basic OP and Form Post OP ask for, in both response modes.

https://openid.net/certification/. Of the modules, those that no other test is about are here.
"""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from tests.contract.test_openid import verified
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, Registered

# The modules oidcc-ensure-request-without-nonce…, oidcc-ensure-other-scope-order…, oidcc-display-…, and so on.
SUCCEED: list[dict[str, str | None]] = [
    {"nonce": None},
    {"scope": "email openid"},
    {"display": "page"},
    {"display": "popup"},
    {"max_age": "10000"},
    {"extra": "foobar"},
    {"login_hint": "bob@example.com"},
    {"ui_locales": "se"},
    {"claims_locales": "se"},
    {"acr_values": "1 2"},
]


@contract("I2.members", "I6.form-post", "I7.silent")
@pytest.mark.parametrize("mode", [None, "form_post"])
def test_requests_of_the_plans_are_answered_in_both_response_modes(
    driver: OAuthDriver, application: Registered, alice: Any, mode: str | None
) -> None:
    def ask(**changes: str | None) -> dict[str, Any]:
        """The parameters of the callback after whatever the person is asked for, and the request."""
        given = {"scope": "openid", "nonce": secrets.token_urlsafe(8), "state": "s" * 128}
        asked = {**given, "response_mode": mode, **changes}
        answer = driver.open(driver.authorization_url(application, **asked))
        if Page(answer).sign_in:
            answer = driver.sign_in(answer, alice.email, PASSWORD)
        if Page(answer).consent:
            answer = driver.decide(answer, remember=True)
        if mode:
            [form] = [form for form in Page(answer).forms if form.action == application.redirect_uri]
            assert form.method == "post"
            found = form.fields
        else:
            assert driver.callback(answer).address == application.redirect_uri
            found = driver.callback(answer).parameters
        assert (found["state"], found["iss"]) == (asked["state"], driver.base_url)
        return {**asked, **found}

    def claims_of(found: dict[str, Any]) -> dict[str, Any]:
        body = driver.exchange(application, found["code"]).json()
        assert sorted(body["scope"].split()) == sorted(found["scope"].split())
        claims = verified(driver, application, body["id_token"])
        assert (claims["sub"], claims.get("nonce")) == (str(alice.pk), found["nonce"])
        return claims | {"token": body["id_token"]}

    assert ask(prompt="none")["error"] == "login_required"
    for changes in SUCCEED:
        first = claims_of(ask(**changes))
    again = claims_of(ask(prompt="none", id_token_hint=first["token"]))
    assert first["auth_time"] == again["auth_time"]
