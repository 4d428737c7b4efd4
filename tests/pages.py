"""What a person does with Django's test client, and what its pages and the e-mails say."""

from __future__ import annotations

import re
import time
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from django.core import mail
from django.test import Client

from accounts.mail import outbox
from accounts.models import User
from tests.factories import PASSWORD, PersonFactory

LOOPBACK = "127.0.0.1"
NEW_PASSWORD = "another battery staple"
AUTHORIZE = "/oauth/authorize?client_id=photo&state=a%20b"  # where a sign-in may lead back to
SIGN_UP = "/accounts/sign-up"
CODE_PAGE = "/accounts/confirm-email"
NEW = {"email": "New@Example.org", "nickname": "Nia", "password1": "a long enough phrase"}
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


# Signing in -----------------------------------------------------------------------------------------------------------


def sign_in(
    browser: Client, email: str, password: str = PASSWORD, *, query: str = "", address: str = LOOPBACK, **fields: str
) -> Any:
    """The answer to the form of the sign-in page."""
    form = {"login": email, "password": password, **fields}
    return browser.post(f"/accounts/sign-in{query}", form, REMOTE_ADDR=address)


def browser_of(person: User, agent: str = FIREFOX) -> Client:
    """A new browser in which the person has just typed the password, and nothing else was asked for."""
    browser = Client(headers={"user-agent": agent})
    assert sign_in(browser, person.email).status_code == 302
    return browser


def with_session(person: User, **options: Any) -> Client:
    """A new browser with a session of the person, who has not typed the password there."""
    browser = Client(**options)
    browser.force_login(person)
    return browser


def proven(browser: Client) -> Client:
    """The browser, in which the person has just typed the password again."""
    session = browser.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time()}]
    session["account_authentication_methods_user"] = session["_auth_user_id"]
    session.save()
    return browser


def admin_browser() -> Client:
    """The browser of a new administrator, who has just typed the password."""
    return proven(with_session(PersonFactory(is_staff=True, is_superuser=True)))


def known_browser(person: User) -> Client:
    """A browser in which the person has signed in and out before."""
    browser = browser_of(person)
    browser.post("/accounts/sign-out")
    return browser


def sign_up(browser: Client, path: str = SIGN_UP, **changes: str) -> Any:
    """The answer to the form of the sign-up page."""
    return browser.post(path, NEW | changes)


def is_signed_in(browser: Client) -> bool:
    return bool(browser.get("/accounts/profile").status_code == 200)


# Pages ----------------------------------------------------------------------------------------------------------------


def html_of(answer: Any) -> str:
    return str(answer.content.decode())


def text_of(page: Any) -> str:
    """The words of a page, or of its HTML, with single spaces between them and without the tags."""
    html = page if isinstance(page, str) else html_of(page)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def secret_on(page: Any) -> str | None:
    """The client secret that the page shows."""
    found = re.search(r">\s*([A-Za-z0-9_-]{43})\s*<", html_of(page))
    return found[1] if found else None


# E-mails --------------------------------------------------------------------------------------------------------------


def deliver_all() -> int:
    """Send the e-mails that wait, and return their number."""
    return sum(1 for _ in iter(outbox.deliver_next, False))


def mailed_code() -> str:
    """The code of the newest e-mail, which stands on a line of its own."""
    found = re.search(r"^ {4}([A-Z0-9]+(?:-[A-Z0-9]+)*)$", str(mail.outbox[-1].body), re.MULTILINE)
    assert found, mail.outbox[-1].body
    return found[1]


def type_code(browser: Client, code: str) -> Any:
    """The answer to the form for that code."""
    return browser.post(CODE_PAGE, {"code": code})


def mailed_link() -> str:
    """The address in the newest e-mail at which a new password is chosen."""
    found = re.search(r"https?://\S+/accounts/password/reset/\S+-\S+", str(mail.outbox[-1].body))
    assert found, mail.outbox[-1].body
    return found[0]


def mailed_path() -> str:
    return urlsplit(mailed_link()).path


def ask_for_link(browser: Client, email: str, *, address: str = LOOPBACK, **fields: str) -> Any:
    """The answer to the form that asks for an e-mail with such an address."""
    return browser.post("/accounts/password/reset", {"email": email, **fields}, REMOTE_ADDR=address)


def choose(
    browser: Client, path: str, password: str = NEW_PASSWORD, again: str | None = None, *, address: str = LOOPBACK
) -> Any:
    """The answer to the form at that address, or to the form that cannot be reached."""
    page = browser.get(path, follow=True)
    form = {"password1": password, "password2": password if again is None else again}
    return browser.post(page.context["action_url"] if page.context else path, form, REMOTE_ADDR=address)
