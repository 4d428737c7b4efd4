"""The line in the log, the headers of every answer, and the origin it is given at."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.test import Client, RequestFactory
from django.urls import resolve

from config import logs
from config.http.middleware import OriginMiddleware, RequestLogMiddleware
from config.http.response_headers import ResponseHeadersMiddleware
from config.infrastructure import references

API, PAGES = "https://api.example.com", "https://auth.example.com"
View = Callable[[HttpRequest], HttpResponse]


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<!doctype html>")


@pytest.fixture
def two_origins(settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = API, PAGES
    settings.ALLOWED_HOSTS = ["api.example.com", "auth.example.com"]
    settings.ORIGINS_ARE_SET = True


def directives(response: HttpResponse) -> dict[str, str]:
    policy = response["Content-Security-Policy"].split("; ")
    return {name: sources for name, _, sources in (directive.partition(" ") for directive in policy)}


# Headers --------------------------------------------------------------------------------------------------------------


def test_a_page_takes_nothing_from_elsewhere(rf: RequestFactory) -> None:
    response = ResponseHeadersMiddleware(page)(rf.get("/"))
    assert directives(response) == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self'",
        "connect-src": "'self'",
        "font-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "frame-ancestors": "'none'",
    }
    assert response["Cache-Control"] == "no-store"
    assert response["Referrer-Policy"] == "same-origin"
    assert response["X-Frame-Options"] == "DENY"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "publickey-credentials" not in response["Permissions-Policy"]


def test_pictures_of_the_api_host_are_shown_on_pages(rf: RequestFactory, two_origins: None) -> None:
    assert directives(ResponseHeadersMiddleware(page)(rf.get("/")))["img-src"] == f"'self' {API}"


def test_what_a_view_says_of_its_headers_and_of_single_directives_is_kept(rf: RequestFactory) -> None:
    own = {"Cache-Control": "public", "Referrer-Policy": "origin"}

    def consent(request: HttpRequest) -> HttpResponse:
        return HttpResponse(headers={"Content-Security-Policy": "form-action 'self' https:; img-src 'none'", **own})

    response = ResponseHeadersMiddleware(consent)(rf.get("/"))
    assert {name: response[name] for name in own} == own
    policy = directives(response)
    assert policy["form-action"] == "'self' https:"
    assert policy["img-src"] == "'none'"
    assert policy["script-src"] == "'self'"


@pytest.mark.parametrize(
    "view",
    [lambda request: JsonResponse({}), lambda request: HttpResponse(status=302, headers={"Location": "/"})],
    ids=["data", "redirect"],
)
def test_data_and_redirects_tell_nobody_where_they_were(rf: RequestFactory, view: View) -> None:
    response = ResponseHeadersMiddleware(view)(rf.get("/"))
    assert response["Referrer-Policy"] == "no-referrer"
    assert response["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert response["Cache-Control"] == "no-store"


# Origins --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("url", "is_secure"), [(PAGES, True), ("http://localhost:8000", False)])
def test_a_request_is_secure_exactly_when_the_pages_are_https(
    rf: RequestFactory, settings: Any, url: str, is_secure: bool
) -> None:
    settings.BASE_URL = settings.AUTH_URL = url
    settings.ALLOWED_HOSTS = ["auth.example.com", "localhost"]
    seen: list[bool] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(request.is_secure())
        return HttpResponse()

    for forwarded in ("http", "https"):
        OriginMiddleware(view)(rf.get("/", headers={"Host": urlsplit(url).netloc, "X-Forwarded-Proto": forwarded}))
    assert seen == [is_secure, is_secure]


@pytest.mark.parametrize("method", ["get", "head"])
@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/oauth/authorize?client_id=1&state=%20a%22%C3%A9%2B+%7e",
        "/accounts/sign-in?next=/oauth/authorize%3Fstate%3D%2525",
        "/admin/oauth_bridge/application/?q=%E2%82%AC",
    ],
)
def test_pages_are_found_at_the_page_address_with_their_query_untouched(
    rf: RequestFactory, two_origins: None, method: str, target: str
) -> None:
    path, _, query = target.partition("?")
    request = getattr(rf, method)(path, headers={"Host": "api.example.com"}, QUERY_STRING=query)
    response = OriginMiddleware(page)(request)
    assert response.status_code == 302
    assert response["Location"] == PAGES + target


@pytest.mark.parametrize(
    ("path", "query", "location"),
    [
        ("/oauth/authorize", "state=é ".encode().decode("latin-1"), "/oauth/authorize?state=%C3%A9%20"),
        ("/oauth/authorize", "state=" + "%00" * 8192, "/oauth/authorize?state=" + "%00" * 8192),
        ("/accounts//mallory.example/..%0d%0aX: y", "", "/accounts//mallory.example/..%0D%0AX:%20y"),
    ],
    ids=["raw bytes", "long", "mallory"],
)
def test_a_strange_address_survives_the_move_and_does_not_leave_the_service(
    rf: RequestFactory, two_origins: None, path: str, query: str, location: str
) -> None:
    request = rf.get(path, headers={"Host": "api.example.com"}, QUERY_STRING=query)
    assert OriginMiddleware(page)(request)["Location"] == PAGES + location


@pytest.mark.parametrize("path", ["/oauth/authorize", "/accounts/sign-in", "/admin/login/"])
def test_nothing_is_posted_to_pages_at_the_api_address(rf: RequestFactory, two_origins: None, path: str) -> None:
    with pytest.raises(Http404):
        OriginMiddleware(page)(rf.post(path, headers={"Host": "api.example.com"}))


@pytest.mark.parametrize(
    "path", ["/oauth/token", "/oauth/userinfo", "/avatars/1/2.png", "/logos/1.png", "/static/a.css", "/health/live"]
)
def test_the_api_address_serves_machines_without_cookies(rf: RequestFactory, two_origins: None, path: str) -> None:
    def view(request: HttpRequest) -> HttpResponse:
        response = HttpResponse(f"{request.COOKIES}")
        response.set_cookie("session", "x")
        return response

    rf.cookies["session"] = "sent"
    response = OriginMiddleware(view)(rf.get(path, headers={"Host": "API.example.com:443"}))
    assert response.content == b"{}"
    assert not response.cookies


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/userinfo"])
def test_token_and_user_info_read_and_set_no_cookie_at_the_host_of_the_pages_either(
    client: Client, db: None, path: str
) -> None:
    """Django replaces a malformed CSRF cookie, where it reads one."""
    cookies = f"{settings.CSRF_COOKIE_NAME}=malformed; {settings.SESSION_COOKIE_NAME}={'a' * 32}"
    for answer in (client.get(path, headers={"Cookie": cookies}), client.post(path, headers={"Cookie": cookies})):
        assert not answer.cookies
        assert "Vary" not in answer
    assert client.get("/accounts/sign-in", headers={"Cookie": cookies}).cookies


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "[::1]:8000", "localhost", "localhost.:8000", "localhost:08000"])
def test_other_spellings_of_the_page_address_lead_to_it(rf: RequestFactory, settings: Any, host: str) -> None:
    settings.BASE_URL = settings.AUTH_URL = "http://localhost:8000"
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    settings.ORIGINS_ARE_SET = False
    assert OriginMiddleware(page)(rf.get("/accounts/sign-in", headers={"Host": host})).status_code == 200
    settings.ORIGINS_ARE_SET = True
    answer = OriginMiddleware(page)(rf.get("/accounts/sign-in", headers={"Host": host}))
    assert answer["Location"] == "http://localhost:8000/accounts/sign-in"
    assert not answer.cookies


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
    line, unknown = map(json.loads, texts)
    assert (line["method"], line["route"], line["status"]) == ("POST", "/oauth/token", 400)
    assert line["address"] == "192.0.2.1"
    assert line["duration_ms"] >= 0
    assert (unknown["method"], unknown["route"]) == ("other", None)
    assert "hidden" not in "".join(texts).lower()


def test_each_request_has_a_reference_of_our_own(rf: RequestFactory) -> None:
    seen: list[str] = []

    def view(request: HttpRequest) -> HttpResponse:
        seen.append(references.current.get())
        return HttpResponse()

    for _ in range(2):
        RequestLogMiddleware(view)(rf.get("/", headers={"X-Request-Id": "mallory"}))
    first, second = seen
    assert first != second
    assert re.fullmatch("[0-9A-HJKMNP-TV-Z]{8}", first)
    assert references.current.get() == ""
