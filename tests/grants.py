"""What applications, and people on the way to one, send with Django's test client, and the events of it."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from accounts.factors.authenticators import FactorAdapter
from accounts.models import User
from config.infrastructure import network
from oauth_bridge.credentials.code_redemption import challenge_of
from tests.factories import ApplicationFactory, CodeFactory, Issued, PersonFactory, Registered
from tests.pages import ask_for_link, choose, html_of, is_signed_in, mailed_path, sign_in

FORM = "application/x-www-form-urlencoded"
PAGE = {"accept": "text/html"}


def link_of(application: Registered, **more: str) -> str:
    query = {"client_id": application.client_id, "redirect_uri": application.redirect_uri, "response_type": "code"}
    return f"/oauth/authorize?{urlencode(query | more)}"


def pending_path(name: str = "Photo Printer") -> str:
    """The return path of a sign-in for a new application of this name."""
    page = Client().get(link_of(ApplicationFactory(name=name)), headers=PAGE)["Location"]
    return parse_qs(urlsplit(page).query)["next"][0]


def browser_at_pages() -> Client:
    return Client(headers={"host": urlsplit(settings.AUTH_URL).netloc})


def consent_page(browser: Client, application: Registered) -> str:
    response = browser.get(link_of(application), headers=PAGE)
    if response["Location"].startswith("/oauth/authorize"):
        response = browser.get(response["Location"], headers=PAGE)
    return html_of(response)


def answer(browser: Client, page: str, decision: str = "allow", **more: str) -> Any:
    pending = re.search(r'name="pending" value="([^"]+)"', page)
    assert pending
    fields = {"pending": unescape(pending[1]), "decision": decision, **more}
    return browser.post("/oauth/authorize", urlencode(fields), content_type=FORM)


def redeem(application: Registered, code: Issued, browser: Client | None = None) -> Any:
    form = {"grant_type": "authorization_code", "code": code.raw}
    form |= {"client_id": application.client_id, "client_secret": application.secret}
    return (browser or browser_at_pages()).post("/oauth/token", urlencode(form), content_type=FORM)


def read(token: str) -> Any:
    return browser_at_pages().get("/oauth/userinfo", headers={"authorization": f"Bearer {token}"})


HTML = {"HTTP_ACCEPT": "text/html"}


class Log(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append({**vars(record), "reference": network.reference.get()})

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == event]


class Attempt:
    """A browser, signed in or not, and an application with these fields."""

    def __init__(self, **fields: Any) -> None:
        self.application: Registered = ApplicationFactory(**fields)
        self.person = PersonFactory()
        self.browser = Client(raise_request_exception=False)

    def link(self, **changes: str) -> str:
        return link_of(self.application, **changes)

    def form(self, **fields: str) -> dict[str, str]:
        self.browser.force_login(self.person)
        page = self.browser.get(self.browser.get(self.link(), **HTML)["Location"], **HTML)
        return {"pending": page.context["pending"], **fields}

    def post(self, path: str, form: dict[str, str], browser: Client | None = None) -> Any:
        return (browser or self.browser).post(path, urlencode(form), FORM, **HTML)

    def answer(self, **fields: str) -> Any:
        return self.post("/oauth/authorize", self.form(**fields))


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
    return Client().post("/oauth/token", urlencode(form), content_type=FORM, REMOTE_ADDR=address)


def userinfo(token: str, address: str = ANOTHER) -> int:
    headers = {"authorization": f"Bearer {token}"}
    return Client().get("/oauth/userinfo", headers=headers, REMOTE_ADDR=address).status_code


def try_password(
    email: str, password: str = "wrong password", *, address: str = ANOTHER, browser: Client | None = None
) -> Any:
    return sign_in(browser or Client(), email, password, address=address)


def add_second_factor(person: User) -> Authenticator:
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


_VALUES = {"sub": "00000000-0000-0000-0000-000000000000", "pk": "1", "object_id": "1", "content_type_id": "1"}
# Of routes that are regular expressions, by their beginning: the names of apps in one have no fixed order.
_EXAMPLES = {
    "/^(?P<path>(oauth|\\.well-known)(/.*)?)$": "/.well-known/openid-configuration",
    "/^accounts/password/reset/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>[^/]+)$": "/accounts/password/reset/1-set-password",
    "/admin/^(?P<app_label>": "/admin/accounts/",
    "/admin/(?P<url>.*)$": "/admin/nothing",
}


def example_paths() -> set[str]:
    return {
        next(path for beginning, path in _EXAMPLES.items() if route.startswith(beginning))
        if "(?P" in route
        else re.sub(r"<(?:\w+:)?(\w+)>", lambda name: _VALUES.get(name[1], "x"), route)
        for route in _routes(get_resolver())
    }


def _routes(resolver: Any, prefix: str = "/") -> Iterator[str]:
    for each in resolver.url_patterns:
        route = f"{prefix}{each.pattern}"
        if isinstance(each, URLResolver):
            yield from _routes(each, route)
        elif isinstance(each, URLPattern):
            yield route
