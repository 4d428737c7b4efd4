"""Where passkeys work: they belong to the host of AUTH_URL, whatever the Host header says (D1)."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from config.infrastructure.hosts import is_ip_address


def host() -> str:
    """The relying party ID of WebAuthn. A passkey works only for the host for which it was made."""
    return urlsplit(settings.AUTH_URL).hostname or ""


def are_possible() -> bool:
    """Whether browsers make passkeys for this host: they refuse IP addresses."""
    return not is_ip_address(host())
