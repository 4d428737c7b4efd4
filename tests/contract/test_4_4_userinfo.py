"""Specification 4.4: the profile of the person who owns the token."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from oauth_bridge.models import AccessToken
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import PersonFactory, TokenFactory

CHALLENGE_WITHOUT_ERROR = "Bearer"


def ask(
    driver: OAuthDriver, authorization: str | bytes | None, method: str = "GET", path: str = "", **more: Any
) -> Any:
    headers = {} if authorization is None else {"Authorization": authorization}
    return driver.call(method, f"/oauth/userinfo{path}", headers=headers, **more)


@contract("4.4", "4.4/body", "4.4/authorization", "5.1", "D20.no-store", "D20.referrer")
def test_a_token_reads_the_profile(driver: OAuthDriver, alice: Any) -> None:
    answer = driver.userinfo(TokenFactory(user=alice).raw)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "Set-Cookie" not in answer.headers
    assert set(json.loads(answer.content.decode())) == {"sub", "nickname", "email", "avatar"}


@contract("4.4/body")
def test_the_profile_is_read_anew_each_time(driver: OAuthDriver, alice: Any) -> None:
    token = TokenFactory(user=alice).raw
    assert driver.userinfo(token).json()["nickname"] == alice.nickname
    alice.nickname = 'Al "the Ice" <b>☃</b>'
    alice.save()
    assert driver.userinfo(token).json()["nickname"] == 'Al "the Ice" <b>☃</b>'


@contract("D17.scheme", "4.4/authorization")
@pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER {}", "bEaReR {}"])
def test_the_scheme_is_case_insensitive(driver: OAuthDriver, form: str) -> None:
    assert ask(driver, form.format(TokenFactory().raw)).status_code == 200


@contract("4.4/authorization", "5.1", "7/401", "D19/invalid_token")
@pytest.mark.parametrize("header", [None, "", "Basic eDp5", "Digest x", "Bearerx y", "{}", "Token {}", "Bearer,{}"])
def test_without_a_bearer_token_the_challenge_names_no_error(driver: OAuthDriver, header: str | None) -> None:
    answer = ask(driver, header and header.format(TokenFactory().raw))
    error_of(answer, 401, "invalid_token")
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
    assert "error" not in answer.headers["WWW-Authenticate"]


@contract("D17.scheme", "D19/invalid_token")
@pytest.mark.parametrize("scheme", ["token", "Basic", "Digest", "DPoP", "Bearerx"])
def test_another_scheme_is_named(driver: OAuthDriver, scheme: str) -> None:
    answer = ask(driver, f"{scheme} {TokenFactory().raw}")
    assert f"has the scheme {scheme}. Send Bearer" in error_of(answer, 401, "invalid_token")


@contract("D17.scheme", "D19.stranger")
@pytest.mark.parametrize("header", ["{}", "{} x", "Bearer{}", "Bearer:{}", "Bearer: {}", "{}{} x", "Bearer\t{}"])
def test_a_token_without_a_scheme_is_not_repeated(driver: OAuthDriver, header: str) -> None:
    token = TokenFactory().raw
    answer = ask(driver, header.format(token, token))
    assert "has no scheme. Send Bearer" in error_of(answer, 401, "invalid_token")
    assert token[:16] not in answer.text + str(answer.headers)


@contract("D19/invalid_token", "3.3", "7/401")
@pytest.mark.parametrize(
    "header", ["Bearer x", "Bearer {}x", "Bearer {} x", "Bearer {},x", "Bearer é", "Bearer ", "Bearer"]
)
def test_a_token_that_was_never_issued_is_refused(driver: OAuthDriver, header: str) -> None:
    answer = ask(driver, header.format(TokenFactory().raw).encode("latin-1"))
    description = error_of(answer, 401, "invalid_token")
    challenge = answer.headers["WWW-Authenticate"]
    if "error" in challenge:
        description = f"{description} Reference {answer.headers['X-Reference']}."
        assert challenge == f'Bearer error="invalid_token", error_description="{description}"'
    else:
        assert header.strip() == "Bearer"


@contract("D19/invalid_token")
def test_unknown_expired_and_revoked_are_told_apart(driver: OAuthDriver, rewind: Any) -> None:
    expired = TokenFactory()
    rewind(expired.row, 3601)
    revoked = TokenFactory()
    AccessToken.objects.filter(pk=revoked.row.pk).update(revoked_at=revoked.row.issued_at)
    sentences = set()
    for token in (secrets.token_urlsafe(32), expired.raw, revoked.raw):
        answer = driver.userinfo(token)
        sentences.add(error_of(answer, 401, "invalid_token"))
        assert 'error="invalid_token"' in answer.headers["WWW-Authenticate"]
    assert len(sentences) == 3


@contract("D17.header", "5.1")
def test_a_token_in_the_query_or_the_body_counts_for_nothing(driver: OAuthDriver) -> None:
    token = TokenFactory().raw
    assert ask(driver, None, path=f"?access_token={token}").status_code == 401
    assert ask(driver, None, data={"access_token": token}).status_code == 401
    answer = driver.call("GET", "/oauth/userinfo", headers={"Cookie": f"access_token={token}"})
    assert answer.status_code == 401
    assert token not in answer.text


@contract("D17.header")
def test_two_authorization_headers_are_refused(driver: OAuthDriver) -> None:
    token = TokenFactory().raw
    assert ask(driver, f"Bearer {token}, Bearer {token}").status_code == 401


@contract("D19/method_not_allowed", "D19.json")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_not_allowed(driver: OAuthDriver, method: str) -> None:
    answer = ask(driver, f"Bearer {TokenFactory().raw}", method)
    error_of(answer, 405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, HEAD, POST"


@contract("4.4", "D19.head")
def test_head_has_the_headers_and_no_body(driver: OAuthDriver) -> None:
    header = f"Bearer {TokenFactory().raw}"
    answer = ask(driver, header, "HEAD")
    assert answer.status_code == 200
    assert answer.content == b""
    assert answer.headers["Content-Length"] == ask(driver, header).headers["Content-Length"]


@contract("D18.insufficient", "7/403")
@pytest.mark.parametrize("scope", ["", "openid", "profiles", "email"])
def test_a_token_without_the_right_to_read_the_profile_gets_403(driver: OAuthDriver, scope: str) -> None:
    answer = driver.userinfo(TokenFactory(scope=scope).raw)
    error_of(answer, 403, "insufficient_scope")
    assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]


@contract("D16.email")
def test_a_person_whose_address_lost_its_confirmation_gets_no_profile_out(driver: OAuthDriver) -> None:
    person = PersonFactory(email_verified_at=None)
    error_of(driver.userinfo(TokenFactory(user=person).raw), 403, "access_denied")


@contract("4.4/body")
def test_a_token_reads_its_own_person_only(driver: OAuthDriver, alice: Any, mallory: Any) -> None:
    for owner, other in ((alice, mallory), (mallory, alice)):
        token = TokenFactory(user=owner).raw
        answer = ask(driver, f"Bearer {token}", path=f"?sub={other.pk}&user_id={other.pk}&email={other.email}")
        assert answer.json()["sub"] == str(owner.pk)
