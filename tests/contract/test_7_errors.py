"""Specification 7: error responses for programs and for people."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conftest import Launch
from tests.contract.test_4_3_other_origins import allows_every_origin
from tests.contract_coverage import contract
from tests.driver import HTML, OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Registered, TokenFactory


@contract("7/body", "D19.json")
def test_a_machine_path_always_answers_in_json(driver: OAuthDriver) -> None:
    for path in ("/oauth/token", "/oauth/userinfo", "/oauth/", "/oauth/unknown", "/oauth/token/x", "/oauth//token"):
        for accept in ("*/*", HTML["Accept"], "text/html", "image/png", "application/json", ""):
            for method in ("GET", "POST", "DELETE"):
                answer = driver.call(method, path, headers={"Accept": accept})
                assert answer.status_code in (400, 401, 404, 405)
                error_of(answer, answer.status_code, answer.json()["error"])


@pytest.mark.integration
@contract("7/404", "D19/not_found", "D2.slash")
def test_an_unknown_path_is_a_404_as_json_or_as_a_page(driver: OAuthDriver) -> None:
    error_of(driver.call("GET", "/oauth/unknown"), 404, "not_found")
    error_of(driver.call("GET", "/unknown"), 404, "not_found")
    page = driver.get("/unknown")
    assert page.status_code == 404
    assert page.headers["Content-Type"].startswith("text/html")
    assert "There is no page here" in Page(page).text
    for path in ("/accounts/unknown", "/accounts/unknown/", "/avatars/x", "/logos/x"):
        assert driver.get(path).status_code == 404, path
        assert driver.call("POST", path).status_code in (403, 404, 405), path


# PostgreSQL takes no NUL and no text that is not UTF-8.
@pytest.mark.integration
@contract("7/400", "D19/invalid_request", "D19/invalid_grant", "D19.large", "D19.sentence")
def test_odd_bytes_never_make_a_500_or_leave_the_description(driver: OAuthDriver, application: Registered) -> None:
    code = CodeFactory(application=application).raw
    pairs = {
        "grant_type": "authorization_code",
        "code": code,
        "client_id": application.client_id,
        "client_secret": application.client_secret,
    }
    for value in ("%00", "a%00b", "%ff%fe", "%C3%28", "%0d%0a", "x" * 20_000):
        for name in ("client_id", "redirect_uri", "response_type", "scope", "code_challenge"):
            link = f"{driver.authorization_url(application, **{name: None})}&{name}={value}"
            answer = driver.get(link, headers={"Accept": "*/*"})
            assert answer.status_code in (302, 400), (name, value)
            if answer.status_code == 400:
                error_of(answer, 400, "invalid_request")
        for name in (*pairs, "redirect_uri", "code_verifier"):
            answer = driver.post_token("&".join(f"{key}={each}" for key, each in {**pairs, name: value}.items()))
            assert answer.status_code in ((400,) if "%" in value else (400, 401)), (name, value)
            error_of(answer, answer.status_code, "invalid_request" if "%" in value else answer.json()["error"])
    nasty = '"\\\r\n☃<script>'
    for changes in ({"code": nasty}, {"grant_type": nasty}, {nasty: "a"}):
        answer = driver.exchange(application, **{"code": "x", **changes})
        error_of(answer, 400, answer.json()["error"])
    for body in ("&".join(f"a{number}=b" for number in range(5000)), "a=b&%22%5C%E2%98%83=1&%22%5C%E2%98%83=2"):
        error_of(driver.post_token(body), 400, "invalid_request")
    assert driver.exchange(application, code).status_code == 200
    driver.backend.headers["Connection"] = "close"
    error_of(driver.exchange(application, "x" * 100_000), 413, "invalid_request")


@contract("7/500", "D19/server_error", "D19.page", "D20.framing", "D22.errors")
def test_our_fault_is_a_500_with_a_reference_in_the_log(launch: Launch, application: Registered, alice: Any) -> None:
    server = launch(wsgi="tests.wsgi.broken")
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(alice.email, PASSWORD)
    page = driver.get(driver.authorization_url(ApplicationFactory(is_trusted=True)))
    assert page.status_code == 500
    assert page.headers["Content-Type"].startswith("text/html")
    assert page.headers["X-Frame-Options"] == "DENY"
    assert "Something went wrong" in Page(page).text
    assert f"Reference {page.headers['X-Reference']}" in Page(page).text
    answers = [driver.exchange(application, "x"), driver.userinfo(TokenFactory().raw)]
    for answer in answers:
        error_of(answer, 500, "server_error")
        assert allows_every_origin(answer)
    for answer in (page, *answers):
        assert "a detail" not in answer.text
        assert "RuntimeError" not in answer.text
        reference = answer.headers["X-Reference"]
        assert server.logged(reference)
        line = next(line for line in server.log.splitlines() if reference in line and '"level":"error"' in line)
        assert "RuntimeError" in json.dumps(json.loads(line))


@contract("D2.post", "D19.json", "D19/method_not_allowed")
def test_other_methods_are_not_allowed(driver: OAuthDriver) -> None:
    for operation, allowed in (
        ("authorize", "GET, HEAD, POST"),
        ("userinfo", "GET, HEAD, POST"),
        ("token", "POST"),
        ("revoke", "POST"),
        ("introspect", "POST"),
    ):
        for method in {"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} - set(allowed.split(", ")):
            answer = driver.call(method, f"/oauth/{operation}")
            assert (answer.status_code, answer.headers["Allow"]) == (405, allowed), (operation, method)
            if method != "HEAD":
                error_of(answer, 405, "method_not_allowed")
