"""Headers that make Django's own parsing fail never end in a 500. D19."""

from __future__ import annotations

import pytest
import requests

from tests.contract_coverage import contract
from tests.server import Server

EXTENDED = "x/y; a*=bogus''%41"


@contract("D19.json")
@pytest.mark.parametrize(
    "path", ["/oauth/token", "/oauth/userinfo", "/oauth/nowhere", "/oauth/authorize?client_id=%2F"]
)
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": EXTENDED},
        {"Content-Type": "application/x-www-form-urlencoded; a*=bogus''%41"},
        {"Content-Type": "text/plain; charset=rot13"},
        {"Content-Type": "text/plain; charset=unicode_escape"},
        {"Accept": "text/plain; a*=bogus''%41"},
        {"Accept": "*/*;b*0*=bogus''%41, text/plain"},
    ],
    ids=lambda headers: next(iter(headers.items()))[1],
)
def test_a_machine_path_answers_in_json_whatever_the_headers_claim(provider: Server, path, headers) -> None:
    for method in ("GET", "POST"):
        answer = requests.request(method, provider.base_url + path, headers=headers, timeout=10)
        assert answer.status_code < 500, method
        assert answer.headers["Content-Type"].startswith(("application/json", "text/html"))
        if not path.startswith("/oauth/authorize"):
            assert {"error", "error_description"} <= answer.json().keys()


@contract("D19.page")
@pytest.mark.parametrize("content_type", [EXTENDED, "text/plain; charset=rot13", "text/plain; charset=unicode_escape"])
@pytest.mark.parametrize("accept", ["text/html", "text/html; a*=bogus''%41"])
def test_a_page_is_a_page_whatever_the_headers_claim(provider: Server, accept, content_type) -> None:
    answer = requests.get(
        f"{provider.auth_url}/accounts/sign-in?next=%2Fa%5Cud800",
        headers={"Accept": accept, "Content-Type": content_type},
        timeout=10,
    )
    assert answer.status_code == 200
    assert "<form" in answer.text


@contract("D3.order", "7/400")
@pytest.mark.parametrize("client_id", ["%00", "a%00b", "%ff", "%ed%a0%80", "%0a", "a" * 3000])
def test_an_impossible_client_id_is_an_unknown_client(provider: Server, client_id) -> None:
    answer = requests.get(f"{provider.auth_url}/oauth/authorize?client_id={client_id}&redirect_uri=x", timeout=10)
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
