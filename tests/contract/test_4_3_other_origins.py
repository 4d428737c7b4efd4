"""Applications in browsers: scripts of other origins at token and user info. D22; Fetch, CORS protocol."""

from __future__ import annotations

from typing import Any

import requests

from oauth_bridge.models import Application
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory

ORIGIN = "https://app.example"
DOCUMENTS = {
    "/openapi.json": 200,
    "/oauth/jwks": 200,
    "/.well-known/openid-configuration": 200,
    "/.well-known/oauth-authorization-server": 200,
    "/.well-known/oauth-authorization-server/mcp": 404,
    "/.well-known/oauth-protected-resource": 404,
    "/.well-known/x": 404,
}


def allows_every_origin(answer: requests.Response) -> bool:
    exposed = answer.headers.get("Access-Control-Expose-Headers", "")
    assert "Access-Control-Allow-Credentials" not in answer.headers
    return answer.headers.get("Access-Control-Allow-Origin") == "*" and {
        name.strip().lower() for name in exposed.split(",")
    } == {"www-authenticate", "retry-after", "x-reference"}


def preflight(driver: OAuthDriver, path: str, method: str, **headers: str) -> requests.Response:
    sent = {"Origin": ORIGIN, "Access-Control-Request-Method": method, **headers}
    return driver.call("OPTIONS", path, headers=sent)


@contract("D22.origins", "D22.errors", "D22.documents")
def test_answers_errors_and_documents_are_read_from_every_origin(driver: OAuthDriver, application: Registered) -> None:
    """Scripts look for metadata at several paths below `/.well-known/`, and read the 404 of the missing ones."""
    driver.backend.headers["Connection"] = "close"
    public = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    proof = {"client_secret": None, "code_verifier": "v" * 43}
    for headers in ({}, {"Origin": ORIGIN}, {"Origin": "null"}):
        code, bearer = CodeFactory(application=application).raw, {"Authorization": f"Bearer {TokenFactory().raw}"}
        for status, answer in (
            (200, driver.exchange(application, code, headers=headers)),
            (200, driver.call("GET", "/oauth/userinfo", headers={**headers, **bearer})),
            (400, driver.exchange(application, "x", headers=headers)),
            (400, driver.exchange(public, "x", headers=headers, **proof)),
            (401, driver.exchange(application, "x", client_secret="wrong", headers=headers)),
            (401, driver.userinfo("bad", **headers)),
            (403, driver.userinfo(TokenFactory(scope="").raw, **headers)),
            (405, driver.call("GET", "/oauth/token", headers=headers)),
            (405, driver.call("PUT", "/oauth/userinfo", headers=headers)),
            (413, driver.exchange(application, "x" * 100_000, headers=headers)),
            (431, driver.userinfo("x" * 5000, **headers)),
            *((status, driver.call("GET", path, headers=headers)) for path, status in DOCUMENTS.items()),
        ):
            assert answer.status_code == status, answer.url
            assert allows_every_origin(answer)
            assert "Set-Cookie" not in answer.headers


@contract("D22.preflight", "D22.documents")
def test_a_preflight_names_what_applications_send_and_another_options_request_is_refused(driver: OAuthDriver) -> None:
    """Any other header too: products and tracing add `x-grafana-device-id`, `traceparent`, `MCP-Protocol-Version`."""
    methods = {
        "/oauth/token": "POST",
        "/oauth/revoke": "POST",
        "/oauth/userinfo": "GET",
        **dict.fromkeys(DOCUMENTS, "GET"),
    }
    for path, method in methods.items():
        answer = preflight(driver, path, method, **{"Access-Control-Request-Headers": "authorization,traceparent"})
        assert (answer.status_code, answer.content) == (200, b""), path
        assert allows_every_origin(answer)
        assert method in answer.headers["Access-Control-Allow-Methods"].split(", ")
        assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, *", "* leaves Authorization out"
        assert int(answer.headers["Access-Control-Max-Age"]) >= 600
        for headers in ({}, {"Origin": ORIGIN}, {"Access-Control-Request-Method": "POST"}):
            if DOCUMENTS.get(path) != 404:
                error_of(driver.call("OPTIONS", path, headers=headers), 405, "method_not_allowed")


@contract("D22.pages")
def test_pages_and_authorize_allow_no_other_origin(driver: OAuthDriver, application: Registered, alice: Any) -> None:
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
