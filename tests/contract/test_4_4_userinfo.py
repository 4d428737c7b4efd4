"""Specification 4.4: the profile of the person who owns the token."""

from __future__ import annotations

import secrets
from typing import Any

from oauth_bridge.models import AccessToken
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import CodeFactory, PersonFactory, TokenFactory


def ask(
    driver: OAuthDriver, authorization: str | bytes | None, method: str = "GET", path: str = "", **more: Any
) -> Any:
    headers = {} if authorization is None else {"Authorization": authorization}
    return driver.call(method, f"/oauth/userinfo{path}", headers=headers, **more)


@contract("D17.scheme", "4.4/authorization", "5.1", "7/401", "D19/invalid_token", "D19.stranger")
def test_the_scheme_is_case_insensitive_and_without_bearer_the_challenge_names_no_error(driver: OAuthDriver) -> None:
    token = TokenFactory().raw
    for scheme in ("Bearer", "bearer", "bEaReR"):
        assert ask(driver, f"{scheme} {token}").status_code == 200
    for header, said in (
        (None, ""),
        ("", ""),
        (f"Bearer,{token}", ""),
        *(
            (f"{scheme} {token}", f"has the scheme {scheme}. Send Bearer")
            for scheme in ("token", "Basic", "DPoP", "Bearerx")
        ),
        *(
            (form.format(token, token), "has no scheme. Send Bearer")
            for form in ("{}", "{} x", "Bearer{}", "Bearer:{}", "Bearer: {}", "{}{} x", "Bearer\t{}")
        ),
    ):
        answer = ask(driver, header)
        assert said in error_of(answer, 401, "invalid_token"), header
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")
        assert "error" not in answer.headers["WWW-Authenticate"]
        assert token[:16] not in answer.text + str(answer.headers)


@contract("D19/invalid_token", "D17.header", "3.3", "7/401")
def test_a_token_that_was_never_issued_is_refused(driver: OAuthDriver) -> None:
    token = TokenFactory().raw
    for header in (
        "Bearer x",
        f"Bearer {token}x",
        f"Bearer {token} x",
        f"Bearer {token},x",
        f"Bearer {token}, Bearer {token}",
        "Bearer é",
    ):
        answer = ask(driver, header.encode("latin-1"))
        description = f"{error_of(answer, 401, 'invalid_token')} Reference {answer.headers['X-Reference']}."
        challenge = answer.headers["WWW-Authenticate"]
        assert challenge == f'Bearer error="invalid_token", error_description="{description}"'
    for header in ("Bearer ", "Bearer"):
        error_of(ask(driver, header), 401, "invalid_token")


@contract("D19/invalid_token")
def test_another_credential_in_the_place_of_the_token_is_told_by_its_shape(driver: OAuthDriver) -> None:
    """Whether it was issued here or not, since only its shape is looked at."""
    part = "e30_"
    for sent, kind in (
        (f"eyJhbGciOiJSUzI1NiJ9.{part}.{part}", "an ID token or another JWT"),
        (f"eyJhbGciOiJub25lIn0.{part}.", "an ID token or another JWT"),
        (f"eyJhbGciOiJkaXIifQ..{part}.{part}.{part}", "an ID token or another JWT"),
        (f"openid-{secrets.token_urlsafe(32)}", "an authorization code"),
        (f"openid-{secrets.token_urlsafe(30)}", "an authorization code"),
        (TokenFactory().row.application.client_id, "a client_id"),
        ("f" * 32, "a client_id"),
    ):
        description = error_of(driver.userinfo(sent), 401, "invalid_token")
        assert f"looks like {kind}. Send the access_token that the token operation answered." in description
    for sent in (CodeFactory().raw, secrets.token_urlsafe(32), "eyJ.x", "x.y.z"):
        assert "is not known. Send the access_token" in error_of(driver.userinfo(sent), 401, "invalid_token")


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


@contract("D17.header", "5.1", "5.2")
def test_a_token_in_the_query_the_body_or_a_cookie_counts_for_nothing_nor_does_a_session(
    driver: OAuthDriver, signed_in: OAuthDriver
) -> None:
    error_of(signed_in.get("/oauth/userinfo"), 401, "invalid_token")
    token = TokenFactory().raw
    in_url = ask(driver, None, path=f"?access_token={token}")
    assert "was sent in the URL" in error_of(in_url, 401, "invalid_token")
    assert token not in in_url.text + str(in_url.headers)
    assert ask(driver, None, data={"access_token": token}).status_code == 401
    answer = driver.call("GET", "/oauth/userinfo", headers={"Cookie": f"access_token={token}"})
    assert answer.status_code == 401
    assert token not in answer.text


@contract("4.4", "D19.head")
def test_head_has_the_headers_and_no_body(driver: OAuthDriver) -> None:
    header = f"Bearer {TokenFactory().raw}"
    answer = ask(driver, header, "HEAD")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == ask(driver, header).headers["Content-Length"]


@contract("D18.insufficient", "D16.email", "7/403")
def test_a_token_without_the_right_to_the_profile_or_of_an_unconfirmed_address_gets_403(driver: OAuthDriver) -> None:
    for scope in ("", "openid", "profiles", "email"):
        answer = driver.userinfo(TokenFactory(scope=scope).raw)
        error_of(answer, 403, "insufficient_scope")
        assert 'error="insufficient_scope"' in answer.headers["WWW-Authenticate"]
    person = PersonFactory(email_verified_at=None)
    answer = driver.userinfo(TokenFactory(user=person).raw)
    error_of(answer, 403, "access_denied")
    assert person.email not in answer.text


@contract("4.4/body")
def test_a_token_reads_its_own_person_only_and_anew_each_time(driver: OAuthDriver, alice: Any, mallory: Any) -> None:
    for owner, other in ((alice, mallory), (mallory, alice)):
        token = TokenFactory(user=owner).raw
        path = f"?sub={other.pk}&user_id={other.pk}&email={other.email}"
        for nickname in (owner.nickname, 'Al "the Ice" <b>☃</b>'):
            owner.nickname = nickname
            owner.save()
            told = ask(driver, f"Bearer {token}", path=path).json()
            assert (told["sub"], told["nickname"]) == (str(owner.pk), nickname)
        error_of(ask(driver, f"Bearer {token}", path=f"/{other.pk}"), 404, "not_found")
