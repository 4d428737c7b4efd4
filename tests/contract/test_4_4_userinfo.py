"""Specification 4.4: the profile of the person who owns the token."""

from __future__ import annotations

import secrets
from typing import Any

from oauth_bridge.models import AccessToken
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, error_of
from tests.factories import CodeFactory, PersonFactory, TokenFactory

REALM = 'realm="userinfo"'
WELL_FORMED = secrets.token_urlsafe(32)


def ask(driver: OAuthDriver, authorization: str | bytes | None, path: str = "", **more: Any) -> Any:
    headers = {} if authorization is None else {"Authorization": authorization}
    return driver.call("GET", f"/oauth/userinfo{path}", headers=headers, **more)


@contract("D17.scheme", "D17.header", "3.3", "4.4/authorization", "5.1", "7/401", "D19/invalid_token", "D19.stranger")
def test_what_is_no_valid_token_is_told_apart_and_no_error_without_bearer(driver: OAuthDriver, rewind: Any) -> None:
    """Of another credential only its shape is looked at, so whether it was issued here is not told."""
    token, expired, revoked = TokenFactory().raw, TokenFactory(), TokenFactory()
    rewind(expired.row, 3601)
    AccessToken.objects.filter(pk=revoked.row.pk).update(revoked_at=revoked.row.issued_at)
    for scheme in ("Bearer", "bearer", "bEaReR"):
        assert ask(driver, f"{scheme} {token}").status_code == 200
    jwts = ("eyJhbGciOiJSUzI1NiJ9.e30_.e30_", "eyJhbGciOiJub25lIn0.e30_.", "eyJhbGciOiJkaXIifQ..e30_.e30_.e30_")
    not_bearer = ("{}", "{} x", "Bearer{}", "Bearer:{}", "Bearer: {}", "{}{} x", "Bearer\t{}")
    malformed = ("Bearer x", "Bearer {}x", "Bearer {} x", "Bearer {},x", "Bearer {}, Bearer {}", "Bearer é", "Bearer ")
    for header, said, is_bearer in (
        *((each, "", False) for each in (None, "", f"Bearer,{token}")),
        *(
            (f"{each} {token}", f"has the scheme {each}. Send Bearer", False)
            for each in ("token", "Basic", "DPoP", "Bearerx")
        ),
        *((each.format(token, token), "has no scheme. Send Bearer", False) for each in not_bearer),
        *((each.format(token, token), "", True) for each in malformed),
        *((f"Bearer {each}", "looks like an ID token or another JWT. Send the access_token", True) for each in jwts),
        *(
            (f"Bearer {each}", "is not known. Send the", True)
            for each in (CodeFactory().raw, f"openid-{WELL_FORMED}", "f" * 32, "eyJ.x", "x.y.z", WELL_FORMED)
        ),
        (f"Bearer {expired.raw}", "older than 1 hour", True),
        (f"Bearer {revoked.raw}", "has been revoked", True),
    ):
        answer = ask(driver, header and header.encode("latin-1"))
        description = error_of(answer, 401, "invalid_token")
        assert said in description, header
        told = f'error="invalid_token", error_description="{description} Reference {answer.headers["X-Reference"]}."'
        assert answer.headers["WWW-Authenticate"] == f"Bearer {told if is_bearer else REALM}"
        assert token[:16] not in answer.text + str(answer.headers)


@contract("D17.header", "5.1", "5.2")
def test_a_token_elsewhere_and_a_session_count_for_nothing(driver: OAuthDriver, signed_in: OAuthDriver) -> None:
    error_of(signed_in.get("/oauth/userinfo"), 401, "invalid_token")
    token = TokenFactory().raw
    in_url = ask(driver, None, path=f"?access_token={token}")
    assert "was sent in the URL" in error_of(in_url, 401, "invalid_token")
    assert token not in in_url.text + str(in_url.headers)
    assert ask(driver, None, data={"access_token": token}).status_code == 401
    answer = driver.call("GET", "/oauth/userinfo", headers={"Cookie": f"access_token={token}"})
    assert answer.status_code == 401
    assert token not in answer.text


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
