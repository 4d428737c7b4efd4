"""The length of a header is limited before it is parsed, and `Accept` chooses page or JSON."""

from __future__ import annotations

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory

from config.http.header_limits import LIMITS, HeaderLimitsMiddleware
from tests.contract_coverage import contract


@contract("D19.json", "D19.page")
def test_a_header_above_its_limit_and_no_other_is_refused_by_name(client: Client) -> None:
    assert {"HTTP_ACCEPT", "HTTP_AUTHORIZATION", "HTTP_COOKIE", "HTTP_X_FORWARDED_FOR"} <= LIMITS.keys()
    for name, limit in LIMITS.items():
        answer = client.get("/oauth/userinfo", **{name: "x" * (limit + 1)})
        assert answer.status_code == 431
        header = name.removeprefix("HTTP_").replace("_", "-").title()
        sentence = f"The header {header} is longer than {limit} characters. Send a shorter one."
        description = f"{sentence} Reference {answer['X-Reference']}."
        assert answer.json() == {"error": "invalid_request", "error_description": description}
        assert client.get("/health/live", **{name: "x" * limit}).status_code != 431
    answer = client.get("/accounts/sign-in", HTTP_COOKIE="a=" + "x" * 9000, HTTP_ACCEPT="text/html")
    assert answer.status_code == 431
    assert "delete the cookies of this site" in answer.content.decode()
    assert client.get("/static/css/site.css", HTTP_COOKIE="a=" + "x" * 9000).status_code == 200


def test_a_quoted_cookie_is_removed_and_the_others_are_read(rf: RequestFactory) -> None:
    read: list[dict[str, str]] = []

    def view(request: HttpRequest) -> HttpResponse:
        read.append(request.COOKIES)
        return HttpResponse()

    HeaderLimitsMiddleware(view)(rf.get("/", HTTP_COOKIE='a=1; quoted="\\\\\\"; b=2; "c"=3'))
    assert read == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("kind", "accepts"),
    [
        ("text/html", ("text/html", "TEXT/HTML;q=0.8", "a/b;c=d, text/html;a*=bogus''%41")),
        ("application/json", ("", "*/*", "text/*", "application/json;x=text/html", "text/htmlx")),
    ],
)
def test_accept_with_html_gets_a_page_and_any_other_json(client: Client, kind: str, accepts: tuple[str, ...]) -> None:
    assert [each for each in accepts if kind not in client.get("/nowhere", HTTP_ACCEPT=each)["Content-Type"]] == []
