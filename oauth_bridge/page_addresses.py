"""Validate the addresses of an application's own pages, and show their hosts. Specification 2.1."""

from __future__ import annotations

from urllib.parse import urlsplit

import idna
from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.utils.translation import gettext as _

from config.infrastructure.hosts import LOOPBACK_HOSTS
from config.infrastructure.validators import refuse_control_characters

validate_web_address = URLValidator(["https", "http"])


def validate_page(address: str) -> None:
    """Validate the address of a page.

    Raises ValidationError: the scheme is not http or https, or the address has a user name, a control character or a
    bad host.
    """
    refuse_control_characters(address)
    validate_web_address(address)
    if "@" in urlsplit(address).netloc:
        raise ValidationError(_("A user name or password in the address is not possible."), code="user")
    if not shown_host(address):
        raise ValidationError(_("The host is not one that a browser can open."), code="host")


def validate_sign_in_start(address: str) -> None:
    """Validate the address at which an application starts a sign-in.

    Raises ValidationError: the address is invalid for `validate_page`, or its scheme is http and its host is not the
    loopback interface.
    """
    validate_page(address)
    parts = urlsplit(address)
    if parts.scheme.lower() != "https" and parts.hostname not in LOOPBACK_HOSTS:
        raise ValidationError(_("Use https; http is possible on localhost, 127.0.0.1 and [::1] only."), code="scheme")


def shown_host(address: str) -> str:
    """Return the host as browsers send it, and the port, if any; empty if the address can't be read.

    A non-ASCII name is shown in punycode (`xn--`, by UTS #46 as in browsers), because letters of several alphabets look
    alike. The user name is left out, because it could look like the host.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
        if not host.isascii():
            host = idna.encode(host, uts46=True).decode()
    except ValueError:  # idna raises UnicodeErrors, which are ValueErrors
        return ""
    host = f"[{host}]" if ":" in host else host
    return host if port is None else f"{host}:{port}"
