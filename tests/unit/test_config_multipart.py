"""Multipart forms are refused before they are parsed, except at the paths that take a file (config.http.middleware)."""

from __future__ import annotations

import io
from contextlib import nullcontext
from typing import Any

import pytest
from django.core.exceptions import BadRequest
from django.test import Client

from accounts.pictures.reencoder_runner import PART_MAX_SEMICOLONS, CheckedParts
from tests.factories import PersonFactory

pytestmark = pytest.mark.django_db

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
