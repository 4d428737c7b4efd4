"""The log, the headers of every request and answer, the origin it is given at, and paths with another slash."""

from __future__ import annotations

import itertools
import json
import logging
import re
from typing import Any

import pytest
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.urls import resolve

from config import logs
from config.http.middleware import HEADER_LIMITS, OriginMiddleware, RequestLogMiddleware
from config.http.response_headers import ResponseHeadersMiddleware
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import admin_browser, browser_of, html_of

API, PAGES = "https://api.example.com", "https://auth.example.com"


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<!doctype html>")


@pytest.fixture
def two_origins(settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = API, PAGES
    settings.ALLOWED_HOSTS = ["api.example.com", "auth.example.com"]
    settings.ORIGINS_ARE_SET = True


def test_a_page_takes_pictures_of_the_api_host_too(rf: RequestFactory, two_origins: None) -> None:
    """The other headers: tests/security/test_headers.py."""
    assert f"img-src 'self' {API}; " in ResponseHeadersMiddleware(page)(rf.get("/"))["Content-Security-Policy"]


# Origins --------------------------------------------------------------------------------------------------------------


def test_a_strange_address_survives_the_move_to_the_pages_and_does_not_leave_the_service(
    rf: RequestFactory, two_origins: None
) -> None:
    for path, query, location in (
        ("/oauth/authorize", "state=é ".encode().decode("latin-1"), "/oauth/authorize?state=%C3%A9%20"),
        ("/oauth/authorize", "state=" + "%00" * 8192, "/oauth/authorize?state=" + "%00" * 8192),
        ("/accounts//mallory.example/..%0d%0aX: y", "", "/accounts//mallory.example/..%0D%0AX:%20y"),
    ):
        request = rf.get(path, headers={"Host": "api.example.com"}, QUERY_STRING=query)
        assert OriginMiddleware(page)(request)["Location"] == PAGES + location


def test_the_api_address_serves_machines_without_cookies(rf: RequestFactory, two_origins: None) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        response = HttpResponse(f"{request.COOKIES}")
        response.set_cookie("session", "x")
        return response

    rf.cookies["session"] = "sent"
    for path in ("/oauth/token", "/oauth/userinfo", "/avatars/1/2.png", "/logos/1.png", "/static/a.css"):
        response = OriginMiddleware(view)(rf.get(path, headers={"Host": "API.example.com:443"}))
        assert response.content == b"{}", path
        assert not response.cookies


def test_token_and_user_info_read_and_set_no_cookie_at_the_host_of_the_pages_either(client: Client, db: None) -> None:
    """Django replaces a malformed CSRF cookie, where it reads one."""
    sent = {"Cookie": f"{settings.CSRF_COOKIE_NAME}=malformed; {settings.SESSION_COOKIE_NAME}={'a' * 32}"}
    for ask, path in itertools.product((client.get, client.post), ("/oauth/token", "/oauth/userinfo")):
        answer = ask(path, headers=sent)
        assert not answer.cookies
        assert "Vary" not in answer


def test_other_spellings_of_the_page_address_lead_to_it(rf: RequestFactory, settings: Any) -> None:
    settings.BASE_URL = settings.AUTH_URL = "http://localhost:8000"
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    for host in ("127.0.0.1:8000", "[::1]:8000", "localhost.:8000"):
        request = rf.get("/accounts/sign-in", headers={"Host": host})
        settings.ORIGINS_ARE_SET = False
        assert OriginMiddleware(page)(request).status_code == 200
        settings.ORIGINS_ARE_SET = True
        assert OriginMiddleware(page)(request)["Location"] == "http://localhost:8000/accounts/sign-in"


@contract("D1.hosts")
def test_the_health_paths_and_nothing_else_answer_at_any_host(client: Client, db: None, two_origins: None) -> None:
    hosts = ("10.0.0.7:8000", "[fd00::1]", "evil.example", "a b", "", "auth.example.com")
    asked = [*({"HTTP_HOST": host} for host in hosts), {"SERVER_NAME": "10.0.0.7", "SERVER_PROTOCOL": "HTTP/1.0"}]
    for headers, path, ask in itertools.product(asked, ("live", "ready"), (client.get, client.head)):
        answer = ask(f"/health/{path}", **headers)
        assert (answer.status_code, answer.has_header("Location")) == (200, False), (path, headers)
        assert not answer.cookies
    for path in ("/health/live/", "/health", "/oauth/token", "/oauth/jwks", "/", "/static/x", "/x"):
        assert client.get(path, HTTP_HOST="10.0.0.7:8000").status_code == 400, path


@contract("D1.hosts")
@pytest.mark.parametrize(
    ("auth_url", "sent", "headers"),
    [
        ("https://auth.example.com:8443", "auth.example.com", {}),
        ("https://auth.example.com", "auth.example.com:99999", {}),
        ("http://[::1]:9000", "[::1]", {}),
        ("https://auth.example.com", "10.0.0.7:8000", {"X-Forwarded-Host": "auth.example.com"}),
    ],
)
def test_where_a_proxy_changes_the_host_no_page_is_redirected_to_itself(
    rf: RequestFactory, settings: Any, auth_url: str, sent: str, headers: Any
) -> None:
    settings.BASE_URL, settings.AUTH_URL, settings.ORIGINS_ARE_SET = auth_url, auth_url, True
    settings.ALLOWED_HOSTS = ["auth.example.com", "[::1]", "10.0.0.7"]
    for ask, path in itertools.product((rf.get, rf.post), ("/oauth/authorize?client_id=x", "/admin/")):
        answer = OriginMiddleware(page)(ask(path, headers={"Host": sent, "Accept": "application/json", **headers}))
        assert answer.status_code == 400
        said = json.loads(answer.content)["error_description"]
        assert f"arrived for the host {sent}, but AUTH_URL is {auth_url}. The proxy must pass the Host header" in said
        answer = OriginMiddleware(page)(ask(path, headers={"Host": sent, "Accept": "text/html", **headers}))
        assert "<h1>The service is not set up for this address</h1>" in answer.content.decode()
    assert OriginMiddleware(page)(rf.post("/oauth/token", headers={"Host": sent})).status_code == 200


@contract("D1.redirect")
def test_an_api_address_at_another_port_of_the_same_host_leads_to_the_pages(rf: RequestFactory, settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = "http://localhost:8000", "http://localhost:9000"
    answer = OriginMiddleware(page)(rf.get("/oauth/authorize?state=x", headers={"Host": "localhost:8000"}))
    assert answer["Location"] == "http://localhost:9000/oauth/authorize?state=x"


@contract("D19/discovery", "D19/not_found", "7/404")
@pytest.mark.django_db
def test_a_near_miss_of_a_path_is_told_what_to_use_and_who_registers_applications(two_origins: None) -> None:
    token, authorize = f"{API}/oauth/token", f"{PAGES}/oauth/authorize"
    discovery = ("/.well-known/oauth-authorization-server/oauth", "/.well-known/jwks.json", "/oauth/keys")
    for host, path, said in (
        ("api", "/oauth/authorize", f"Use {authorize}."),
        ("auth", "/oauth/authorize/", "Use /oauth/authorize without the slash at the end."),
        ("api", "/oauth/logout", f"Use {PAGES}/oauth/logout."),
        ("api", "/accounts/nonsense", "Compare it with the documentation"),
        ("api", "/oauth//token/", f"Use {token}."),
        ("api", "/realms/main/protocol/openid-connect/token", f"Use {token}."),
        ("auth", "/connect/authorize", f"Use {authorize}."),
        ("api", "/oauth2/token", f"Use {token}. The documentation is at {PAGES}/docs. Reference"),
        ("auth", "/connect/userinfo/", f"Use {API}/oauth/userinfo."),
        ("api", "/oauth2/revocation", f"Use {API}/oauth/revoke."),
        ("api", "/oauth/register/", "an administrator registers applications"),
        ("api", "/.well-known/oauth-protected-resource", f"Use {API}/.well-known/openid-configuration."),
        *(("api", each, f"Use {API}/.well-known/openid-configuration.") for each in discovery),
        ("api", "//.well-known/openid-configuration/mcp", f"Use {API}/.well-known/openid-configuration."),
        ("api", "/nonsense/register-me", "Compare it with the documentation"),
    ):
        answer = Client().post("/", headers={"Host": f"{host}.example.com"}, PATH_INFO=path)
        assert answer.status_code == 404, path
        assert said in answer.json()["error_description"], path
    assert Client().post("/oauth/token", headers={"Host": "api.example.com"}).status_code == 400, "this is none"


# The log --------------------------------------------------------------------------------------------------------------


def test_a_request_is_logged_by_its_route_and_never_by_its_address(
    rf: RequestFactory, caplog: pytest.LogCaptureFixture
) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        request.resolver_match = resolve("/oauth/token")
        return HttpResponse(status=400)

    with caplog.at_level(logging.INFO, logger="config.access"):
        RequestLogMiddleware(view)(rf.post("/oauth/token?code=hidden", REMOTE_ADDR="192.0.2.1"))
        RequestLogMiddleware(page)(rf.generic("HIDDEN", "/hidden"))
    texts = [logs.JsonFormatter().format(record) for record in caplog.records if record.name == "config.access"]
    assert re.search(
        r'"POST","route":"/oauth/token","status":400,"duration_ms":[0-9.]+,"address":"192.0.2.1"', texts[0]
    )
    assert '"method":"other","route":null' in texts[1]
    assert "hidden" not in "".join(texts).lower()


@contract("D19.json", "D19.page")
def test_a_header_above_its_limit_and_no_other_is_refused_by_name(client: Client) -> None:
    assert HEADER_LIMITS["HTTP_AUTHORIZATION"] == 4096
    for name, limit in HEADER_LIMITS.items():
        answer = client.get("/oauth/userinfo", **{name: "x" * (limit + 1)})
        header = name.removeprefix("HTTP_").replace("_", "-").title()
        sentence = f"The header {header} is longer than {limit} characters. Send a shorter one."
        assert answer.json()["error_description"].startswith(sentence)
        statuses = [answer.status_code, client.get("/health/live", **{name: "x" * limit}).status_code]
        assert [status == 431 for status in statuses] == [True, False], name
    answer = client.get("/accounts/sign-in", HTTP_COOKIE="a=" + "x" * 9000, HTTP_ACCEPT="text/html")
    assert (answer.status_code, "delete the cookies of this site" in answer.text) == (431, True)
    assert client.get("/static/css/site.css", HTTP_COOKIE="a=" + "x" * 9000).status_code == 200


# A path with a slash too many or too few leads to its page. D2 --------------------------------------------------------


@contract("D2.pages", "D2.post")
@pytest.mark.django_db
def test_a_page_is_found_with_the_wrong_slash(client: Client) -> None:
    for path, led_to in (
        ("/admin?q=%C3%A9", "/admin/?q=%C3%A9"),
        ("/accounts/", "/accounts"),
        ("/accounts/sign-in//?next=/accounts/profile", "/accounts/sign-in?next=/accounts/profile"),
        ("/docs/", "/docs"),
    ):
        for ask in (client.get, client.head):
            answer = ask(path)
            assert (answer.status_code, answer["Location"]) == (302, led_to)
        assert client.post(path).status_code == 404
    browser = admin_browser()
    assert browser.get("/admin/accounts/user?q=x")["Location"] == "/admin/accounts/user/?q=x"
    for path in ("/admin/nothing", "/admin/nothing/", "/admin/accounts/nothing/"):
        assert browser.get(path).status_code == 404


@contract("D2.slash")
@pytest.mark.django_db
def test_what_is_no_page_is_not_led_on(client: Client) -> None:
    for path in ("/oauth/token/", "/oauth/authorize/", "/openapi.json/", "/accounts/nothing/", "/health/live/"):
        assert client.get(path, headers={"Accept": "text/html"}).status_code == 404, path


@pytest.mark.django_db
def test_a_password_manager_finds_the_page_that_changes_the_password() -> None:
    """W3C, A Well-Known URL for Changing Passwords."""
    path = "/.well-known/change-password"
    assert Client().get(path, follow=True).request["PATH_INFO"] == "/accounts/sign-in"
    person = PersonFactory()
    shown = browser_of(person).get(path, follow=True)
    assert shown.request["PATH_INFO"] == "/accounts/password/change"
    assert 'autocomplete="new-password"' in html_of(shown)
    assert Client().post(path).status_code == 405
