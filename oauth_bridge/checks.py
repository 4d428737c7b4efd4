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
CLASSES = {
    "OAUTH2_SERVER_CLASS": "oauth_bridge.server.Server",
    "OAUTH2_BACKEND_CLASS": "oauth_bridge.server.Core",
    "OAUTH2_VALIDATOR_CLASS": "oauth_bridge.validator.Validator",
}


@register
def toolkit_is_ours(*, app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """oauth_bridge.E001: a model of the toolkit is not swapped. E002: one of its classes is not the bridge's."""
    swapped = {name: (getattr(settings, name, None), ours) for name, ours in MODELS.items()}
    classes = {name: (settings.OAUTH2_PROVIDER.get(name), ours) for name, ours in CLASSES.items()}
    return [
        Error(f"{name} is {given}.", hint=f"Set it to {ours}.", id=check)
        for check, rows in (("oauth_bridge.E001", swapped), ("oauth_bridge.E002", classes))
        for name, (given, ours) in rows.items()
        if given != ours
    ]
