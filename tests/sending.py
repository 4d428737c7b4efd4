"""The requests that attacker and victim send to reach a limit, each from a separate address."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from allauth.mfa.models import Authenticator
from django.test import Client

from accounts.factors.adapter import FactorAdapter
from accounts.models import User
from oauth_bridge.pkce import challenge_of
from tests.factories import CodeFactory, Registered
from tests.pages import ask_for_link, choose, is_signed_in, mailed_path, sign_in

HERS = "192.0.2.1"
ANOTHER = "198.51.100.1"
VERIFIER = "v" * 43


def site_address(site: int, network: int) -> str:
    """An IPv6 address of the /64 `network` in the /48 `site`."""
    return f"2001:db8:{site:x}:{network:x}::1"


def authorize(address: str) -> int:
    query = {"client_id": "unknown", "redirect_uri": "https://client.example/", "response_type": "code"}
    return Client().get("/oauth/authorize", query, REMOTE_ADDR=address).status_code


def logout(address: str) -> int:
    return Client().get("/oauth/logout", {"client_id": "unknown"}, REMOTE_ADDR=address).status_code


def exchange(application: Registered, *, address: str = ANOTHER, **changes: str) -> Any:
    """An exchange that succeeds, unless a change makes it fail."""
    is_public = application.row.is_public
    challenge = challenge_of(VERIFIER) if is_public else ""
    proof = {"code_verifier": VERIFIER} if is_public else {"client_secret": application.client_secret}
    code = changes.get("code") or CodeFactory(application=application, code_challenge=challenge).raw
    form = {"grant_type": "authorization_code", "client_id": application.client_id, **proof, **changes, "code": code}
    media_type = "application/x-www-form-urlencoded"
    return Client().post("/oauth/token", urlencode(form), content_type=media_type, REMOTE_ADDR=address)


def userinfo(token: str, address: str = ANOTHER) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return Client().get("/oauth/userinfo", headers=headers, REMOTE_ADDR=address).status_code


def try_password(
    email: str, password: str = "wrong password", *, address: str = ANOTHER, browser: Client | None = None
) -> Any:
    """The answer to the form of the sign-in page."""
    return sign_in(browser or Client(), email, password, address=address)


def add_second_factor(person: User) -> Authenticator:
    """An authenticator app, so that a sign-in waits for its code."""
    secret = FactorAdapter().encrypt("A" * 32)
    return Authenticator.objects.create(user=person, type=Authenticator.Type.TOTP, data={"secret": secret})


def ask_for_reset(email: str, *, address: str = ANOTHER, browser: Client | None = None) -> Any:
    return ask_for_link(browser or Client(), email, address=address)


def choose_password_by_mail(person: User, browser: Client, address: str = ANOTHER) -> None:
    """Ask for a reset link, follow it and sign in, as a person can whose sign-in is limited."""
    ask_for_reset(person.email, browser=browser, address=address)
    choose(browser, mailed_path(), "a wholly different password", address=address)
    assert is_signed_in(browser)


def statuses(answers: list[Any]) -> list[int]:
    return [answer if isinstance(answer, int) else answer.status_code for answer in answers]
