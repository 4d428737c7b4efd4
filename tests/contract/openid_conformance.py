"""The modules of the OpenID Foundation's plans, and the client that they are: it asks, and checks every answer."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any, NamedTuple

from tests.contract.test_openid import verified
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, Registered

BASIC = (
    "oidcc-server",
    "oidcc-response-type-missing",
    "oidcc-idtoken-signature",
    "oidcc-idtoken-unsigned",
    "oidcc-userinfo-get",
    "oidcc-userinfo-post-header",
    "oidcc-userinfo-post-body",
    "oidcc-ensure-request-without-nonce-succeeds-for-code-flow",
    "oidcc-scope-profile",
    "oidcc-scope-email",
    "oidcc-scope-address",
    "oidcc-scope-phone",
    "oidcc-scope-all",
    "oidcc-ensure-other-scope-order-succeeds",
    "oidcc-display-page",
    "oidcc-display-popup",
    "oidcc-prompt-login",
    "oidcc-prompt-none-not-logged-in",
    "oidcc-prompt-none-logged-in",
    "oidcc-max-age-1",
    "oidcc-max-age-10000",
    "oidcc-ensure-request-with-unknown-parameter-succeeds",
    "oidcc-id-token-hint",
    "oidcc-login-hint",
    "oidcc-ui-locales",
    "oidcc-claims-locales",
    "oidcc-ensure-request-with-acr-values-succeeds",
    "oidcc-codereuse",
    "oidcc-codereuse-30seconds",
    "oidcc-ensure-registered-redirect-uri",
    "oidcc-ensure-post-request-succeeds",
    "oidcc-server-client-secret-post",
    "oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported",
    "oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported",
    "oidcc-claims-essential",
    "oidcc-ensure-request-object-with-redirect-uri",
    "oidcc-refresh-token",
    "oidcc-ensure-request-with-valid-pkce-succeeds",
)
PLANS = {
    "oidcc-basic-certification-test-plan": BASIC,
    "oidcc-formpost-basic-certification-test-plan": BASIC,
    "oidcc-config-certification-test-plan": ("oidcc-discovery-endpoint-verification",),
}
LOGOUT_PLANS = {
    "oidcc-rp-initiated-logout-certification-test-plan": (
        "oidcc-rp-initiated-logout-discovery-endpoint-verification",
        "oidcc-rp-initiated-logout",
        "oidcc-rp-initiated-logout-bad-post-logout-redirect-uri",
        "oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri",
        "oidcc-rp-initiated-logout-modified-id-token-hint",
        "oidcc-rp-initiated-logout-bad-id-token-hint",
        "oidcc-rp-initiated-logout-no-id-token-hint",
        "oidcc-rp-initiated-logout-no-params",
        "oidcc-rp-initiated-logout-no-post-logout-redirect-uri",
        "oidcc-rp-initiated-logout-no-state",
        "oidcc-rp-initiated-logout-only-state",
    ),
    "oidcc-backchannel-rp-initiated-logout-certification-test-plan": (
        "oidcc-backchannel-logout-discovery-endpoint-verification",
        "oidcc-backchannel-rp-initiated-logout",
    ),
}
# The suite skips these, each for what discovery does not announce.
NOT_APPLICABLE = {
    "oidcc-idtoken-unsigned": "It registers a client dynamically, and wants the algorithm `none`.",
    "oidcc-scope-address": "`scopes_supported` has no `address`.",
    "oidcc-scope-phone": "`scopes_supported` has no `phone`.",
    "oidcc-scope-all": "It asks for `address` and `phone` too.",
    "oidcc-refresh-token": "There are no refresh tokens (D11).",
}


class Tokens(NamedTuple):
    """What the token operation answered. `claims` are those of the verified ID token."""

    code: str
    access_token: str
    id_token: str
    claims: dict[str, Any]


class Client:
    """A client with `client_secret_basic`, and the browser of a person. `mode` is the response mode of its plan."""

    def __init__(self, driver: OAuthDriver, application: Registered, person: Any, mode: dict[str, str]) -> None:
        self.driver = driver
        self.application = application
        self.person = person
        self.mode = mode
        self.asked: dict[str, str] = {}

    def parameters(self, **changes: str | None) -> dict[str, str]:
        given = {"scope": "openid", "nonce": secrets.token_urlsafe(8), "state": secrets.token_urlsafe(8)}
        asked = {**given, **self.mode, **changes}
        self.asked = {name: value for name, value in asked.items() if value is not None}
        return self.asked

    def ask(self, **changes: str | None) -> Any:
        """The page, or the redirect, that answers the authorization request."""
        without = {"response_type": None} if changes.pop("response_type", "code") is None else {}
        return self.driver.open(
            self.driver.authorization_url(self.application, **self.parameters(**changes), **without)
        )

    def sign_in(self, answer: Any, *, remember: bool = False) -> Any:
        """What the person does: sign in, if asked to, and allow."""
        if Page(answer).sign_in:
            answer = self.driver.sign_in(answer, self.person.email, PASSWORD)
        return self.driver.decide(answer, remember=remember) if Page(answer).consent else answer

    def prove(self, answer: Any) -> Any:
        """Types the password again, and allows."""
        [form] = [form for form in Page(answer).forms if form.of_type("password")]
        return self.driver.decide(self.driver.submit(form, password=PASSWORD))

    def answer(self, answer: Any) -> dict[str, str]:
        """The parameters of the callback, in the response mode that was asked for, with `state` and `iss`."""
        if self.mode:
            [form] = [form for form in Page(answer).forms if form.action == self.application.redirect_uri]
            assert form.method == "post"
            found = form.fields
        else:
            callback = self.driver.callback(answer)
            assert callback.address == self.application.redirect_uri
            found = callback.parameters
        assert (found["state"], found["iss"]) == (self.asked["state"], self.driver.base_url)
        return found

    def error(self, answer: Any) -> str:
        found = self.answer(answer)
        assert set(found) == {"error", "error_description", "state", "iss"}
        return found["error"]

    def redeem(self, code: str, **more: str) -> Any:
        pair = f"{self.application.client_id}:{self.application.client_secret}"
        headers = {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        return self.driver.exchange(self.application, code, headers=headers, client_id=None, client_secret=None, **more)

    def tokens(self, found: dict[str, str]) -> Tokens:
        """The tokens for the code of a callback. OpenID Connect Core 1.0 §3.1.3.3, §3.1.3.7, §2."""
        answer = self.redeem(found["code"])
        assert answer.status_code == 200, answer.text
        assert (answer.headers["Cache-Control"], answer.headers["Pragma"]) == ("no-store", "no-cache")
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
        assert sorted(body["scope"].split()) == sorted(self.asked["scope"].split())
        claims = verified(self.driver, self.application, body["id_token"])
        assert claims["aud"] == claims["azp"] == self.application.client_id
        assert claims.get("nonce") == self.asked.get("nonce")
        assert claims["sub"] == str(self.person.pk)
        assert abs(time.time() - claims["iat"]) < 60
        assert claims["auth_time"] <= claims["iat"]
        half = hashlib.sha256(body["access_token"].encode()).digest()[:16]
        assert claims["at_hash"] == base64.urlsafe_b64encode(half).rstrip(b"=").decode()
        return Tokens(found["code"], body["access_token"], body["id_token"], claims)

    def flow(self, *, remember: bool = False, **changes: str | None) -> Tokens:
        return self.tokens(self.answer(self.sign_in(self.ask(**changes), remember=remember)))
