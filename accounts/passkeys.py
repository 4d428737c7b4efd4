"""Where passkeys work: they belong to the host of AUTH_URL, whatever the Host header says (D1)."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from django.conf import settings


def host() -> str:
    """The relying party ID of WebAuthn. A passkey works for the host only for which it was made."""
    return urlsplit(settings.AUTH_URL).hostname or ""


def are_possible() -> bool:
    """Whether browsers make passkeys for this host: they refuse IP addresses."""
    try:
        ipaddress.ip_address(host())
    except ValueError:
        return True
    return False
