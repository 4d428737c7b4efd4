"""The host of passkeys: the host of AUTH_URL, never the Host header (D1)."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from config.infrastructure.hosts import is_ip_address


def host() -> str:
    """Return the host as WebAuthn's relying party ID. A passkey works only for the host for which it was made."""
    return urlsplit(settings.AUTH_URL).hostname or ""


def are_possible() -> bool:
    """Return whether browsers make passkeys for this host. Browsers refuse IP addresses."""
    return not is_ip_address(host())
