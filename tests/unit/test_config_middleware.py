"""Headers, origins, paths with another slash, and multipart forms, which are parsed at a few paths only."""

from __future__ import annotations

import io
import itertools
import json
from contextlib import nullcontext
from typing import Any

import pytest
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from accounts.pictures.reencoder_runner import PART_MAX_SEMICOLONS, CheckedParts
from config.http.middleware import HEADER_LIMITS, OriginMiddleware
from config.http.response_headers import ResponseHeadersMiddleware
from tests.contract_coverage import contract
from tests.factories import PersonFactory
from tests.pages import admin_browser, browser_of, html_of

pytestmark = pytest.mark.django_db
API, PAGES = "https://api.example.com", "https://auth.example.com"


def page(request: HttpRequest) -> HttpResponse:
    return HttpResponse("<!doctype html>")


@pytest.fixture
def two_origins(settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = API, PAGES
    settings.ALLOWED_HOSTS = ["api.example.com", "auth.example.com"]
    settings.ORIGINS_ARE_SET = True


def test_a_strange_address_survives_the_move_and_stays_with_us(rf: RequestFactory, two_origins: None) -> None:
    for path, query, location in (
        ("/oauth/authorize", "state=é ".encode().decode("latin-1"), "/oauth/authorize?state=%C3%A9%20"),
        ("/oauth/authorize", "state=" + "%00" * 8192, "/oauth/authorize?state=" + "%00" * 8192),
        ("/accounts//mallory.example/..%0d%0aX: y", "", "/accounts//mallory.example/..%0D%0AX:%20y"),
    ):
        request = rf.get(path, headers={"Host": "api.example.com"}, QUERY_STRING=query)
        assert OriginMiddleware(page)(request)["Location"] == PAGES + location


def test_machines_get_no_cookies_at_the_api_and_operations_nowhere(rf: RequestFactory, two_origins: None) -> None:
    """A page may show pictures of the API's host."""
    assert f"img-src 'self' {API}; " in ResponseHeadersMiddleware(page)(rf.get("/"))["Content-Security-Policy"]

    def view(request: HttpRequest) -> HttpResponse:
        response = HttpResponse(f"{request.COOKIES}")
        response.set_cookie("session", "x")
        return response

    rf.cookies["session"] = "sent"
    operations = ("/oauth/token", "/oauth/userinfo")
    for host, paths in (
        ("API.example.com:443", (*operations, "/avatars/1/2.png", "/logos/1.png", "/static/a.css")),
        ("auth.example.com", operations),
    ):
        for path in paths:
            response = OriginMiddleware(view)(rf.get(path, headers={"Host": host}))
            assert (response.content, len(response.cookies)) == (b"{}", 0), path


@contract("D1.redirect")
def test_other_spellings_of_the_page_address_and_other_ports_lead_to_it(rf: RequestFactory, settings: Any) -> None:
    settings.BASE_URL, settings.AUTH_URL = "http://localhost:9000", "http://localhost:8000"
    settings.ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
    for host in ("127.0.0.1:8000", "[::1]:8000", "localhost.:8000", "localhost:9000"):
        request = rf.get("/oauth/authorize?state=x", headers={"Host": host})
        settings.ORIGINS_ARE_SET = False
        assert OriginMiddleware(page)(request).status_code == 200
        settings.ORIGINS_ARE_SET = True
        assert OriginMiddleware(page)(request)["Location"] == "http://localhost:8000/oauth/authorize?state=x"


@contract("D1.hosts")
def test_the_health_paths_and_nothing_else_answer_at_any_host(client: Client, two_origins: None) -> None:
    hosts = ("10.0.0.7:8000", "[fd00::1]", "evil.example", "a b", "", "auth.example.com")
    asked = [*({"HTTP_HOST": host} for host in hosts), {"SERVER_NAME": "10.0.0.7", "SERVER_PROTOCOL": "HTTP/1.0"}]
    for headers, path, ask in itertools.product(asked, ("live", "ready"), (client.get, client.head)):
        answer = ask(f"/health/{path}", **headers)
        assert (answer.status_code, answer.has_header("Location")) == (200, False), (path, headers)
        assert not answer.cookies
    for path in ("/health/live/", "/health", "/oauth/token", "/oauth/jwks", "/", "/static/x", "/x"):
        assert client.get(path, HTTP_HOST="10.0.0.7:8000").status_code == 400, path


@contract("D1.hosts")
def test_where_a_proxy_changes_the_host_no_page_is_redirected_to_itself(rf: RequestFactory, settings: Any) -> None:
    settings.ALLOWED_HOSTS, settings.ORIGINS_ARE_SET = ["auth.example.com", "[::1]", "10.0.0.7"], True
    sent_to = (
        ("https://auth.example.com:8443", "auth.example.com", {}),
        ("https://auth.example.com", "auth.example.com:99999", {}),
        ("http://[::1]:9000", "[::1]", {}),
        ("https://auth.example.com", "10.0.0.7:8000", {"X-Forwarded-Host": "auth.example.com"}),
    )
    asked = itertools.product(sent_to, (rf.get, rf.post), ("/oauth/authorize?client_id=x", "/admin/"))
    for (auth_url, sent, headers), ask, path in asked:
        settings.BASE_URL = settings.AUTH_URL = auth_url
        answer = OriginMiddleware(page)(ask(path, headers={"Host": sent, "Accept": "application/json", **headers}))
        assert answer.status_code == 400
        said = json.loads(answer.content)["error_description"]
        assert f"arrived for the host {sent}, but AUTH_URL is {auth_url}. The proxy must pass the Host header" in said
        answer = OriginMiddleware(page)(ask(path, headers={"Host": sent, "Accept": "text/html", **headers}))
        assert "<h1>The service is not set up for this address</h1>" in answer.content.decode()
        assert OriginMiddleware(page)(rf.post("/oauth/token", headers={"Host": sent})).status_code == 200


@contract("D19/discovery", "D19/not_found", "7/404")
def test_a_near_miss_of_a_path_is_told_what_to_use_and_who_registers_applications(two_origins: None) -> None:
    token, authorize = f"{API}/oauth/token", f"{PAGES}/oauth/authorize"
    discovery = ("/.well-known/oauth-authorization-server/oauth", "/.well-known/jwks.json", "/oauth/keys")
    for host, path, said in (
        ("api", "/oauth/authorize", f"Use {authorize}."),
        ("auth", "/oauth/authorize/", "Use /oauth/authorize without the slash at the end."),
        ("api", "/oauth/logout", f"Use {PAGES}/oauth/logout."),
        ("api", "/oauth//token/", f"Use {token}."),
        ("api", "/realms/main/protocol/openid-connect/token", f"Use {token}."),
        ("api", "/oauth2/token", f"Use {token}. The documentation is at {PAGES}/docs. Reference"),
        ("auth", "/connect/userinfo/", f"Use {API}/oauth/userinfo."),
        ("api", "/oauth/register/", "an administrator registers applications"),
        ("api", "/.well-known/oauth-protected-resource", f"Use {API}/.well-known/openid-configuration."),
        *(("api", each, f"Use {API}/.well-known/openid-configuration.") for each in discovery),
        ("api", "//.well-known/openid-configuration/mcp", f"Use {API}/.well-known/openid-configuration."),
        ("api", "/nonsense/register-me", "Compare it with the documentation"),
    ):
        answer = Client().post("/", headers={"Host": f"{host}.example.com"}, PATH_INFO=path)
        assert answer.status_code == 404, path
        assert said in answer.json()["error_description"], path


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


@contract("D2.pages", "D2.post")
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
    for path in ("/admin/nothing", "/admin/nothing/", "/accounts/nothing/", "/health/live/", "/openapi.json/"):
        assert browser.get(path).status_code == 404


def test_a_password_manager_finds_the_page_that_changes_the_password() -> None:
    shown = browser_of(PersonFactory()).get("/.well-known/change-password", follow=True)
    assert shown.request["PATH_INFO"] == "/accounts/password/change"
    assert 'autocomplete="new-password"' in html_of(shown)


CONTENT_TYPE = "multipart/form-data; boundary=b"
DESCRIPTION = "The body is multipart/form-data. Send the parameters as application/x-www-form-urlencoded."


def part(name: str, value: str = "x", *, semicolons: int = 1) -> bytes:
    return f'--b\r\nContent-Disposition: form-data{";" * semicolons} name="{name}"\r\n\r\n{value}\r\n'.encode()


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--b--\r\n"


def post(client: Client, path: str, *parts: bytes, **more: Any) -> Any:
    return client.generic("POST", path, form(*parts), CONTENT_TYPE, **more)


def test_a_multipart_form_is_refused_where_no_file_is_taken(client: Client) -> None:
    for path in (
        *("/accounts/sign-in", "/accounts/profile/", "/oauth/authorize", "/oauth/token", "/oauth/token/", "/x"),
        *("/admin/oauth_bridge/application/1/delete/", "/admin/accounts/user/add/"),
    ):
        answer = post(client, path, part("login"))
        assert answer.status_code == 400
        description = f"{DESCRIPTION} Reference {answer['X-Reference']}."
        assert answer.json() == {"error": "invalid_request", "error_description": description}
    page = post(client, "/accounts/sign-in", part("login"), HTTP_ACCEPT="text/html", HTTP_ACCEPT_LANGUAGE="de")
    assert '<html lang="de"' in page.text
    assert client.get("/health/live", CONTENT_TYPE=CONTENT_TYPE).status_code == 200


def test_a_part_with_many_parameters_is_refused_where_a_file_is_taken() -> None:
    person = PersonFactory(nickname="Ali")
    alice = Client()
    alice.force_login(person)
    # The last client is of another site: its request is refused before the check of the CSRF token.
    for client, status in ((Client(), 302), (alice, 400), (Client(enforce_csrf_checks=True), 400)):
        dear = part("nickname", "Bo", semicolons=PART_MAX_SEMICOLONS + 1)
        assert post(client, "/accounts/profile", dear).status_code == status
    person.refresh_from_db()
    assert person.nickname == "Ali"


@pytest.mark.parametrize("size", [1, 7, 3000])
@pytest.mark.parametrize("preamble", [b"", b"\r\n", b";" * 90, b"x;" * 600])
def test_parts_are_checked_however_the_body_is_cut_into_pieces(preamble: bytes, size: int) -> None:
    for most in (PART_MAX_SEMICOLONS, PART_MAX_SEMICOLONS + 1):
        body = preamble + form(*(part("x", "; " * 999, semicolons=number) for number in (1, most)))
        stream = CheckedParts(io.BytesIO(body).read, b"b")
        is_dear = max(most, preamble.count(b";")) > PART_MAX_SEMICOLONS
        with pytest.raises(BadRequest) if is_dear else nullcontext():
            assert b"".join(iter(lambda stream=stream: stream.read(size), b"")) == body


def test_a_file_may_hold_semicolons_and_half_a_separator_and_a_form_at_most_40_parts(client: Client) -> None:
    person = PersonFactory(nickname="Ali")
    client.force_login(person)
    file = b'--b\r\nContent-Disposition: form-data; name="x"; filename="f"\r\n\r\n' + b"\r\n-" * 60_000 + b";" * 70_000
    assert post(client, "/accounts/profile", file + b"\r\n", part("nickname", "Bo")).status_code == 302
    person.refresh_from_db()
    assert person.nickname == "Bo"
    answer = post(client, "/accounts/profile", *(part(f"x{number}") for number in range(100)))
    assert "more than 40 fields" in answer.json()["error_description"]
