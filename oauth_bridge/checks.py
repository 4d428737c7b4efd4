"""System checks of the bridge: a set-up that would bring the toolkit's own behaviour back can't start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

MODELS = {
    "OAUTH2_PROVIDER_APPLICATION_MODEL": "oauth_bridge.Application",
    "OAUTH2_PROVIDER_GRANT_MODEL": "oauth_bridge.AuthorizationCode",
    "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL": "oauth_bridge.AccessToken",
    "OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL": "oauth_bridge.RefreshToken",
    "OAUTH2_PROVIDER_ID_TOKEN_MODEL": "oauth_bridge.IDToken",
}
BACKEND = "oauth_bridge.backend.Backend"
LIFETIMES_SECONDS = {"AUTHORIZATION_CODE_EXPIRE_SECONDS": 600, "ACCESS_TOKEN_EXPIRE_SECONDS": 3600}


@register
def toolkit_is_configured(*, app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """oauth_bridge.E001: a model of the toolkit is not swapped. E002: the backend is not ours.

    E003: a lifetime is not the one of the specification (2.2, 2.3).
    """
    given = settings.OAUTH2_PROVIDER
    rows = [
        *(("oauth_bridge.E001", name, getattr(settings, name, None), ours) for name, ours in MODELS.items()),
        ("oauth_bridge.E002", "OAUTH2_BACKEND_CLASS", given.get("OAUTH2_BACKEND_CLASS"), BACKEND),
        *(("oauth_bridge.E003", name, given.get(name), seconds) for name, seconds in LIFETIMES_SECONDS.items()),
    ]
    return [
        Error(f"{name} is {value}.", hint=f"Set it to {ours}.", id=check)
        for check, name, value, ours in rows
        if value != ours
    ]
