"""Specification 1: what the service does, from the application's link to the person's profile."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, Registered
from tests.server import Server, serve


@pytest.fixture(scope="module")
def two_origins(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OAuthDriver]:
    """A browser at a service whose API and pages have different addresses."""
    origins = {"BASE_URL": "http://127.0.0.1:{port}", "AUTH_URL": "http://localhost:{port}"}
    with serve(tmp_path_factory.mktemp("two"), **origins) as server:
        yield OAuthDriver(server.base_url, server.auth_url)


@pytest.mark.integration
@contract("1.1", "1.2", "1.3", "1.4", "1.5", "1/format", "4.1", "5.2", "D7.asked")
def test_a_person_signs_in_to_an_application(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    sign_in_page = driver.open(driver.authorization_url(application, state="xyz"))
    assert f"Sign in to continue to {application.row.name}" in Page(sign_in_page).text
    consent_page = driver.sign_in(sign_in_page, alice.email, PASSWORD)
    page = Page(consent_page)
    for shown in (application.row.name, "client.example", str(alice.pk), alice.nickname, alice.email):
        assert shown in page.text
    assert page.consent
    assert sorted(page.consent.buttons) == [("decision", "allow"), ("decision", "refuse")]

    callback = driver.callback(driver.decide(consent_page))
    assert callback.address == application.redirect_uri
    assert callback.parameters["state"] == "xyz"

    exchanged = driver.exchange(application, callback.parameters["code"])
    profile = driver.userinfo(exchanged.json()["access_token"])
    for answer in (exchanged, profile):
        assert answer.headers["Content-Type"].partition(";")[0] == "application/json"
    read = json.loads(profile.content.decode("utf-8"))
    assert (read["sub"], read["email"], read["nickname"]) == (str(alice.pk), alice.email, "Alice Ægir")


@contract("D2.slash", "D2.post")
def test_a_slash_at_the_end_is_a_404_that_names_the_right_path_and_no_post_is_redirected(driver: OAuthDriver) -> None:
    for path in ("/oauth/token", "/oauth/userinfo", "/oauth/authorize"):
        for method in ("GET", "POST"):
            answer = driver.call(method, f"{path}/?client_id=x")
            assert path in error_of(answer, 404, "not_found").split()
            assert "Location" not in answer.headers
    for path in ("/oauth/token/", "/oauth/token", "//oauth/token", "/oauth", "/oauth/", "/oauth/jwks", "/admin"):
        answer = driver.call("POST", path, data={"grant_type": "authorization_code"})
        assert answer.status_code in (400, 404, 405), path


@contract("D1.redirect", "D2.post", "4.1")
def test_authorize_at_the_api_address_leads_to_the_pages_with_the_same_query(two_origins: OAuthDriver) -> None:
    query = "client_id=x&state=%FF+a%20%22%C3%BC'()&x=1&response_type=code"
    answer = two_origins.call("GET", f"/oauth/authorize?{query}")
    assert answer.status_code == 302
    assert answer.headers["Location"] == f"{two_origins.auth_url}/oauth/authorize?{query}"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert two_origins.call("POST", "/oauth/authorize", data={"decision": "allow"}).status_code == 404


@contract("D1.cookies", "D1.origins")
def test_only_the_address_of_pages_sets_cookies(two_origins: OAuthDriver, application: Registered, alice: Any) -> None:
    driver = two_origins
    link = driver.authorization_url(application, at=driver.base_url)
    callback = driver.authorize(link, alice.email, PASSWORD)
    assert {cookie.domain.removesuffix(".local") for cookie in driver.browser.cookies} == {"localhost"}

    answer = driver.exchange(application, callback.parameters["code"])
    profile = driver.userinfo(answer.json()["access_token"])
    assert profile.json()["avatar"].startswith(driver.base_url)
    for response in (answer, profile, driver.call("GET", "/accounts/sign-in"), driver.call("GET", "/health/live")):
        assert "Set-Cookie" not in response.headers


@contract("D1.origins")
def test_origins_are_never_guessed_from_request_headers(
    driver: OAuthDriver, provider: Server, application: Registered, alice: Any
) -> None:
    token = driver.token(application, alice.email, PASSWORD)
    lies = {"Host": "127.0.0.1", "X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https"}
    avatar = driver.userinfo(token, **lies, Forwarded="host=evil.example;proto=https").json()["avatar"]
    assert avatar.startswith(f"{provider.base_url}/")
    assert urlsplit(avatar).scheme == "http"


@contract("D19.sentence", "D19.page", "D1.origins")
@pytest.mark.parametrize("host", ["sign-in.example:8000", "", "x" * 300, 'a"\\b\x9b'])
def test_a_host_that_is_not_served_is_named_on_this_machine(driver: OAuthDriver, provider: Server, host: str) -> None:
    headers = {"Host": host.encode("latin-1")}
    received = re.sub(r"[^\x20-\x7e]|[\"\\]", "?", host)[:100] or "(none)"
    for method, path in (("POST", "/oauth/token"), ("POST", "/accounts/sign-in"), ("GET", "/health")):
        description = error_of(driver.call(method, path, headers=headers), 400, "invalid_request")
        assert f"host {received}, but" in description
        assert "localhost" in description
    page = driver.get("/oauth/authorize", headers={**headers, "Accept": "text/html"})
    assert page.status_code == 400
    assert f"host {received}, but" in Page(page).text
    line = next(line for line in provider.log.splitlines() if f'"host":"{received}"' in line)
    assert "localhost" in json.loads(line)["allowed_hosts"]


@contract("D19.stranger", "D15.dump", "D19.sentence")
def test_a_stranger_is_told_no_host_that_is_served_and_nobody_what_follows_a_host(
    driver: OAuthDriver, provider: Server, settings: Any, client: Client
) -> None:
    """A header that only a proxy adds shows that the request is not from this machine. DEBUG tells everybody."""
    lies = {"Host": "127.0.0.1:1", "X-Forwarded-Host": "localhost"}
    sentences = set()
    for header in ("X-Forwarded-For", "Forwarded", "Via"):
        for host in ("evil.example", "a_b", "127.0.0.2"):
            answer = driver.call("GET", "/oauth/userinfo", headers={**lies, "Host": host, header: "192.0.2.1"})
            sentences.add(error_of(answer, 400, "invalid_request"))
    assert len(sentences) == 1
    assert "localhost" not in sentences.pop()
    for end in ("Authorization: Bearer ", "/", "//evil.example?code=", " ", "Cookie:sessionid="):
        credential = secrets.token_urlsafe(32)
        answer = driver.call("GET", "/oauth/userinfo", headers={"Host": f"evil.example{end}{credential}"})
        assert "host evil.example" in error_of(answer, 400, "invalid_request")
        assert credential not in answer.text + provider.log
    settings.DEBUG = True
    told = client.get("/oauth/userinfo", headers={"Host": "evil.example", "X-Forwarded-For": "192.0.2.1"})
    assert told.status_code == 400
    assert "host evil.example, but ALLOWED_HOSTS holds" in told.json()["error_description"]
