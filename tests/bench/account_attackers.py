"""Attacks by somebody who has accounts, each with the most of what a person may have."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from tests.bench.attackers import COOKIE, FORM, Attack, Site, flood
from tests.bench.holders import PASSWORD

LOCATION = re.compile(rb"(?i)\r\nlocation: ([^\r]+)")


def sign_in(site: Site, email: str) -> tuple[bytes, bytes]:
    """The cookies of a browser after the right password, and the address to which it leads."""
    token, cookies = site.form(b"/accounts/sign-in")
    body = b"csrfmiddlewaretoken=%s&login=%s&password=%s" % (
        token,
        email.replace("@", "%40").encode(),
        PASSWORD.replace(" ", "+").encode(),
    )
    answer = site.ask(site.request(b"POST /accounts/sign-in", FORM + cookies, body))
    leads = LOCATION.search(answer)
    if leads is None:
        raise RuntimeError(f"The attacker can't sign in: {answer[:100]!r}")
    return b"; ".join(COOKIE.findall(answer)), leads[1]


def second_factor_pages(site: Site, until: float) -> None:
    """The page after the password of a person with the most passkeys."""
    cookies, path = sign_in(site, site.holders.passkeys)
    request = site.request(b"GET " + path, b"Cookie: " + cookies + b"\r\n")
    flood(site, until, itertools.repeat(request), 10)


def browsers_and_exports(site: Site, until: float) -> None:
    """The pages that list all sessions of a person who has the most."""
    cookies, _ = sign_in(site, site.holders.sessions)
    token, headers = site.form(b"/accounts/export", cookies)
    export = site.request(b"POST /accounts/export", FORM + headers, b"csrfmiddlewaretoken=" + token)
    flood(site, until, itertools.cycle([site.request(b"GET /accounts/browsers", headers), export]), 10)


def pictures(site: Site, until: float) -> None:
    """Two people upload a picture that costs much to read, again and again, over two connections each."""

    def upload(email: str) -> bytes:
        cookies, _ = sign_in(site, email)
        token, headers = site.form(b"/accounts/profile", cookies)
        parts = {
            b"csrfmiddlewaretoken": token,
            b"nickname": b"Mallory",
            b"zoom": b"100",
            b"across": b"50",
            b"down": b"50",
        }
        body = b"".join(
            b'--b\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % part for part in parts.items()
        )
        body += b'--b\r\nContent-Disposition: form-data; name="picture"; filename="a.jpg"\r\n\r\n'
        body += site.holders.picture + b"\r\n--b--\r\n"
        return site.request(
            b"POST /accounts/profile", headers + b"Content-Type: multipart/form-data; boundary=b\r\n", body
        )

    both: Iterator[bytes] = itertools.cycle([upload(email) for email in site.holders.uploaders])
    flood(site, until, both, 4)


BY_HOLDERS: dict[str, Attack] = {
    "second-factor pages with 20 passkeys, 10 connections": second_factor_pages,
    "browsers and exports of 100 sessions, 10 connections": browsers_and_exports,
    "pictures of 700 scans, two accounts, 4 connections": pictures,
}
