"""Validate the addresses of an application's own pages, and show their hosts. Specification 2.1."""

from __future__ import annotations

from urllib.parse import urlsplit

import idna
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.utils.translation import gettext as _

from oauth_bridge.redirect_uris import LOOPBACK_HOSTS

is_web_address = URLValidator(["https", "http"])


def validate_page(address: str) -> None:
    """Raises ValidationError: not an http or https address, or its host is hidden or can't be shown."""
    is_web_address(address)
    if "@" in urlsplit(address).netloc:
        raise ValidationError(_("A user name or password in the address is not possible."), code="user")
    if not shown_host(address):
        raise ValidationError(_("The host is not one that a browser can open."), code="host")


def validate_sign_in_start(address: str) -> None:
    """Raises ValidationError: as `validate_page`, or an http address that is not of the person's own machine."""
    validate_page(address)
    parts = urlsplit(address)
    if parts.scheme.lower() != "https" and parts.hostname not in LOOPBACK_HOSTS:
        raise ValidationError(_("Use https; http is possible on localhost, 127.0.0.1 and [::1] only."), code="scheme")


def shown_host(address: str) -> str:
    """The host as browsers send it, with a port; empty when it can't be read.

    A name outside ASCII is in punycode (`xn--…`): letters of other alphabets can look like those of another name. UTS
    #46, as in browsers; without a user name, which could look like the host.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = idna.encode(host, uts46=True).decode()
    except ValueError:  # UnicodeError, which idna raises, is one
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
