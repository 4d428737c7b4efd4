"""Applications in browsers: scripts of other origins at token and user info. D22; Fetch, CORS protocol."""

from __future__ import annotations

from typing import Any

import pytest
import requests

from oauth_bridge.models import Application
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory

ORIGIN = "https://app.example"
PATHS = ["/oauth/token", "/oauth/userinfo"]


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
@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {"Origin": "null"}], ids=str)
def test_a_token_and_a_profile_may_be_read_from_every_origin(
    driver: OAuthDriver, application: Registered, headers: dict[str, str]
) -> None:
    exchanged = driver.exchange(application, CodeFactory(application=application).raw, headers=headers)
    token = exchanged.json()["access_token"]
    read = driver.call("GET", "/oauth/userinfo", headers={**headers, "Authorization": f"Bearer {token}"})
    assert read.status_code == 200
    assert allows_every_origin(exchanged)
    assert allows_every_origin(read)


@contract("D22.errors")
def test_refusals_may_be_read_from_every_origin(driver: OAuthDriver, application: Registered) -> None:
    driver.backend.headers["Connection"] = "close"
    answers = [
        (400, driver.exchange(application, "x")),
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


@contract("D22.errors")
def test_limits_and_faults_of_ours_may_be_read_from_every_origin(launch: Launch, application: Registered) -> None:
    server = launch(wsgi="tests.broken_wsgi", RATE_LIMITS="on", RATE_TOKEN_FAILURES="1/30d")
    driver = OAuthDriver(server.base_url)
    broken = driver.exchange(application, "x")
    error_of(broken, 500, "server_error")
    answers = [driver.exchange(application, "x", client_secret="wrong") for _ in range(3)]
    error_of(answers[-1], 429, "rate_limited")
    assert all(allows_every_origin(answer) for answer in (broken, *answers))


@contract("D22.preflight")
@pytest.mark.parametrize(("path", "method"), [("/oauth/token", "POST"), ("/oauth/userinfo", "GET")])
def test_a_preflight_names_what_an_application_sends(driver: OAuthDriver, path: str, method: str) -> None:
    answer = preflight(driver, path, method, **{"Access-Control-Request-Headers": "authorization,content-type"})
    assert answer.status_code == 200
    assert answer.content == b""
    assert allows_every_origin(answer)
    assert method in answer.headers["Access-Control-Allow-Methods"].split(", ")
    assert answer.headers["Access-Control-Allow-Headers"] == "Authorization, Content-Type"
    assert int(answer.headers["Access-Control-Max-Age"]) >= 600


@contract("D22.preflight")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {"Access-Control-Request-Method": "POST"}], ids=str)
def test_an_options_request_that_is_no_preflight_is_not_allowed(
    driver: OAuthDriver, path: str, headers: dict[str, str]
) -> None:
    error_of(driver.call("OPTIONS", path, headers=headers), 405, "method_not_allowed")


@contract("D22.uncounted")
def test_preflights_count_against_no_limit(launch: Launch, application: Registered) -> None:
    low = dict.fromkeys(("RATE_TOKEN", "RATE_TOKEN_FAILURES", "RATE_USERINFO", "RATE_USERINFO_FAILURES"), "1/30d")
    driver = OAuthDriver(launch(RATE_LIMITS="on", **low).base_url)
    for path in PATHS * 12:
        assert preflight(driver, path, "POST").status_code == 200
    token = driver.exchange(application, CodeFactory(application=application).raw).json()["access_token"]
    assert driver.userinfo(token).status_code == 200


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


def test_a_cookie_says_nothing_at_the_operations(signed_in: OAuthDriver) -> None:
    for path in PATHS:
        answer = signed_in.get(f"{signed_in.base_url}{path}", headers={"Origin": ORIGIN})
        assert answer.status_code in (401, 405)
        assert "Set-Cookie" not in answer.headers


@contract("D22.errors")
def test_a_public_client_exchanges_without_a_preflight(driver: OAuthDriver) -> None:
    application = ApplicationFactory(client_type=Application.CLIENT_PUBLIC)
    answer = driver.exchange(application, "x", client_secret=None, code_verifier="v" * 43, headers={"Origin": ORIGIN})
    error_of(answer, 400, "invalid_grant")
    assert allows_every_origin(answer)
