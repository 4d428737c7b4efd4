"""Applications in browsers: scripts of other origins at token and user info. D22; Fetch, CORS protocol."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory

ORIGIN = "https://app.example"


def allows_every_origin(answer: requests.Response) -> bool:
    exposed = answer.headers.get("Access-Control-Expose-Headers", "")
    assert "Access-Control-Allow-Credentials" not in answer.headers
    return answer.headers.get("Access-Control-Allow-Origin") == "*" and {
        name.strip().lower() for name in exposed.split(",")
    } == {"www-authenticate", "retry-after", "x-reference"}


def preflight(driver: OAuthDriver, path: str, method: str, **headers: str) -> requests.Response:
    sent = {"Origin": ORIGIN, "Access-Control-Request-Method": method, **headers}
    return driver.call("OPTIONS", path, headers=sent)


@contract("D22.origins")
def test_a_token_and_a_profile_may_be_read_from_every_origin(driver: OAuthDriver, application: Registered) -> None:
    for headers in ({}, {"Origin": ORIGIN}, {"Origin": "null"}):
        exchanged = driver.exchange(application, CodeFactory(application=application).raw, headers=headers)
        token = exchanged.json()["access_token"]
        read = driver.call("GET", "/oauth/userinfo", headers={**headers, "Authorization": f"Bearer {token}"})
        assert read.status_code == 200
        assert allows_every_origin(exchanged)
        assert allows_every_origin(read)


@contract("D22.errors")
def test_refusals_may_be_read_from_every_origin(driver: OAuthDriver, application: Registered) -> None:
    driver.backend.headers["Connection"] = "close"
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    proof = {"client_secret": None, "code_verifier": "v" * 43}
    answers = [
        (400, driver.exchange(application, "x")),
        (400, driver.exchange(public, "x", headers={"Origin": ORIGIN}, **proof)),
        (401, driver.exchange(application, "x", client_secret="wrong")),
        (401, driver.userinfo("bad")),
        (403, driver.userinfo(TokenFactory(scope="").raw)),
        (405, driver.call("GET", "/oauth/token")),
        (405, driver.call("PUT", "/oauth/userinfo")),
        (413, driver.exchange(application, "x" * 100_000)),
        (431, driver.userinfo("x" * 5000)),
    ]
    assert [answer.status_code for _, answer in answers] == [status for status, _ in answers]
    assert all(allows_every_origin(answer) for _, answer in answers)


@contract("D22.preflight")
@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/oauth/token", "POST"),
        ("/oauth/userinfo", "GET"),
        ("/oauth/jwks", "GET"),
        ("/oauth/revoke", "POST"),
        ("/openapi.json", "GET"),
        ("/.well-known/openid-configuration", "GET"),
    ],
)
def test_a_preflight_names_what_an_application_sends_and_another_options_request_is_not_allowed(
    driver: OAuthDriver, path: str, method: str
) -> None:
    """Any other header too: products and tracing add `x-grafana-device-id`, `traceparent`, `MCP-Protocol-Version`."""
    answer = preflight(driver, path, method, **{"Access-Control-Request-Headers": "authorization,traceparent"})
    assert answer.status_code == 200
    assert answer.content == b""
    assert allows_every_origin(answer)
    assert method in answer.headers["Access-Control-Allow-Methods"].split(", ")
    assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, *", "the asterisk leaves Authorization out"
    assert int(answer.headers["Access-Control-Max-Age"]) >= 600
    for headers in ({}, {"Origin": ORIGIN}, {"Access-Control-Request-Method": "POST"}):
        error_of(driver.call("OPTIONS", path, headers=headers), 405, "method_not_allowed")


@contract("D22.documents", "D22.preflight")
def test_every_origin_may_read_the_documents_and_that_there_is_none(driver: OAuthDriver) -> None:
    """Scripts look for metadata at several paths below `/.well-known/`, and read the 404 of the missing ones."""
    for path, status in (
        ("/openapi.json", 200),
        ("/oauth/jwks", 200),
        ("/.well-known/oauth-authorization-server", 200),
        ("/.well-known/oauth-authorization-server/mcp", 404),
        ("/.well-known/oauth-protected-resource", 404),
        ("/.well-known/x", 404),
    ):
        answer = driver.call("GET", path, headers={"Origin": ORIGIN, "MCP-Protocol-Version": "2025-06-18"})
        asked = preflight(driver, path, "GET", **{"Access-Control-Request-Headers": "mcp-protocol-version"})
        assert (answer.status_code, asked.status_code) == (status, 200), path
        assert allows_every_origin(answer)
        assert allows_every_origin(asked)
        assert "*" in asked.headers["Access-Control-Allow-Headers"]
        assert "Set-Cookie" not in answer.headers
    error_of(driver.call("POST", "/openapi.json", data={"a": "b"}), 405, "method_not_allowed")


@contract("D22.pages")
def test_no_page_and_no_path_under_authorize_allows_another_origin(
    driver: OAuthDriver, application: Registered, alice: Any
) -> None:
    url = driver.authorization_url(application)
    asked = {"Origin": ORIGIN}
    sign_in = driver.open(url, headers=asked)
    consent = driver.sign_in(sign_in, alice.email, PASSWORD)
    assert Page(consent).consent
    answers = [
        driver.get(driver.authorization_url(application, client_id="unknown"), headers=asked),
        sign_in,
        consent,
        driver.decide(consent, follow=False),
        driver.open("/accounts/profile", headers=asked),
        driver.open("/admin/", headers=asked),
        driver.call("GET", "/oauth/authorize", headers=asked),
        driver.call("GET", "/oauth/token/", headers=asked),
        driver.call("GET", "/health/live", headers=asked),
        *(preflight(driver, path, "POST") for path in ("/oauth/authorize", "/accounts/sign-in", "/admin/", "/unknown")),
    ]
    names = {name.lower() for answer in answers for name in answer.headers}
    assert [name for name in names if name.startswith("access-control")] == []
