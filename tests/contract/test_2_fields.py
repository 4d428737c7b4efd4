"""Specification 2: the fields of codes, tokens and profiles."""

from __future__ import annotations

import io
import uuid
from typing import Any

import pytest
import requests
from PIL import Image

from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page
from tests.factories import PASSWORD, PersonFactory, Registered, TokenFactory
from tests.server import Server


@contract("2.3/access_token", "2.3/token_type", "2.3/expires_in", "4.3/body", "D14.token")
@contract("D11.refresh", "D11.three")
def test_the_token_answer_has_exactly_three_members(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    link = driver.authorization_url(application, scope="profile email offline_access", access_type="offline")
    code = driver.authorize(link, alice.email, PASSWORD).parameters["code"]
    body = driver.exchange(application, code, scope="offline_access").json()
    assert set(body) == {"access_token", "token_type", "expires_in"}
    assert isinstance(body["access_token"], str)
    assert len(body["access_token"]) >= 43
    assert body["token_type"] == "Bearer"
    assert body["expires_in"] == 3600
    assert type(body["expires_in"]) is int


@contract("2.4/sub", "2.4/nickname", "2.4/email", "2.4/avatar", "D16.strings", "D16.sub", "4.4/body")
@contract("4.4", "4.4/authorization", "5.1")
def test_the_profile_has_exactly_four_members_all_strings_and_a_random_sub(driver: OAuthDriver, alice: Any) -> None:
    profile = driver.userinfo(TokenFactory(user=alice).raw).json()
    assert set(profile) == {"sub", "nickname", "email", "avatar"}
    assert all(isinstance(value, str) and value for value in profile.values())
    assert profile["nickname"] == alice.nickname
    assert profile["email"] == alice.email
    assert uuid.UUID(profile["sub"]).version == 4
    assert driver.userinfo(TokenFactory(user=alice).raw).json()["sub"] == profile["sub"], "at another application too"
    assert driver.userinfo(TokenFactory().raw).json()["sub"] != profile["sub"]


@contract("D16.nickname", "D16.strings", "2.4/nickname")
def test_without_a_nickname_the_fallback_reveals_nothing_of_the_address(driver: OAuthDriver) -> None:
    for nickname in ("", "   "):
        person = PersonFactory(nickname=nickname, email=f"secretive-{uuid.uuid4().hex}@private.example")
        shown = driver.userinfo(TokenFactory(user=person).raw).json()["nickname"]
        assert shown.strip()
        local, _, domain = person.email.partition("@")
        assert local not in shown
        assert "secretive" not in shown
        assert domain not in shown


@pytest.mark.integration
@contract("D16.avatar", "2.4/avatar")
def test_the_avatar_is_an_image_at_the_api_address(signed_in: OAuthDriver, provider: Server, alice: Any) -> None:
    upload, seen = io.BytesIO(), []
    Image.new("RGB", (640, 480), "teal").save(upload, "JPEG")
    form = next(form for form in Page(signed_in.open("/accounts/profile")).forms if "picture" in form.types)
    fields = {name: value for name, value in form.fields.items() if name != "picture"}
    for _ in range(2):
        url = signed_in.userinfo(TokenFactory(user=alice).raw).json()["avatar"]
        seen.append(url)
        assert url.startswith(f"{provider.base_url}/")
        assert alice.email not in url
        answer = requests.get(url, timeout=10)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
        assert "Set-Cookie" not in answer.headers
        picture = Image.open(io.BytesIO(answer.content))
        assert picture.format == "PNG"
        assert picture.width == picture.height >= 64
        signed_in.browser.post(form.action, fields, files={"picture": ("me.jpg", upload.getvalue(), "image/jpeg")})
    assert seen[0] != seen[1]
