"""The requests that attacker and victim send to reach a limit, each from a separate address."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.core import mail
from django.test import Client

from accounts.models import User
from oauth_bridge.storage import codes
from tests.factories import PASSWORD, CodeFactory, Registered

HERS = "192.0.2.1"
ANOTHER = "198.51.100.1"
VERIFIER = "v" * 43


def site_address(site: int, network: int) -> str:
    """An IPv6 address of the /64 `network` in the /48 `site`."""
    return f"2001:db8:{site:x}:{network:x}::1"


def authorize(address: str) -> int:
    query = {"client_id": "unknown", "redirect_uri": "https://client.example/", "response_type": "code"}
    return Client().get("/oauth/authorize", query, REMOTE_ADDR=address).status_code


def exchange(application: Registered, *, address: str = ANOTHER, **changes: str) -> Any:
    """An exchange that succeeds, unless a change makes it fail."""
    is_public = application.row.is_public
    challenge = codes.challenge_of(VERIFIER) if is_public else ""
    proof = {"code_verifier": VERIFIER} if is_public else {"client_secret": application.client_secret}
    code = changes.get("code") or CodeFactory(application=application, code_challenge=challenge).raw
    form = {"grant_type": "authorization_code", "client_id": application.client_id, **proof, **changes, "code": code}
    media_type = "application/x-www-form-urlencoded"
    return Client().post("/oauth/token", urlencode(form), content_type=media_type, REMOTE_ADDR=address)


def userinfo(token: str, address: str = ANOTHER) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return Client().get("/oauth/userinfo", headers=headers, REMOTE_ADDR=address).status_code


def sign_in(
    email: str, password: str = "wrong password", *, address: str = ANOTHER, browser: Client | None = None
) -> Any:
    form = {"login": email, "password": password}
    return (browser or Client()).post("/accounts/sign-in", form, REMOTE_ADDR=address)


def known_browser(person: User) -> Client:
    """A browser in which the person has signed in and out before."""
    browser = Client()
    assert sign_in(person.email, PASSWORD, browser=browser).status_code == 302
    browser.post("/accounts/sign-out")
    return browser


def ask_for_reset(email: str, *, address: str = ANOTHER, browser: Client | None = None) -> Any:
    return (browser or Client()).post("/accounts/password/reset", {"email": email}, REMOTE_ADDR=address)


def choose_password_by_mail(person: User, browser: Client, address: str = ANOTHER) -> None:
    """Ask for a reset link, follow it and sign in, as a person can whose sign-in is limited."""
    ask_for_reset(person.email, browser=browser, address=address)
    link = next(word for word in mail.outbox[-1].body.split() if "/accounts/password/reset/" in word)
    form_path = browser.get(link.removeprefix("http://testserver"))["Location"]
    new = "a wholly different password"
    browser.post(form_path, {"password1": new, "password2": new}, REMOTE_ADDR=address)
    assert browser.get("/accounts/profile").status_code == 200


def statuses(answers: list[Any]) -> list[int]:
    return [answer if isinstance(answer, int) else answer.status_code for answer in answers]
