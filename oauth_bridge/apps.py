"""The applications of Django, and the check of the toolkit's settings, without which the service does not start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.utils.translation import gettext_lazy
from oauth2_provider import apps as toolkit

MODELS = {
    "OAUTH2_PROVIDER_APPLICATION_MODEL": "oauth_bridge.Application",
    "OAUTH2_PROVIDER_GRANT_MODEL": "oauth_bridge.AuthorizationCode",
    "OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL": "oauth_bridge.AccessToken",
    "OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL": "oauth_bridge.RefreshToken",
    "OAUTH2_PROVIDER_ID_TOKEN_MODEL": "oauth_bridge.IDToken",
}
BACKEND = "oauth_bridge.backend.Backend"
LIFETIMES_SECONDS = {"AUTHORIZATION_CODE_EXPIRE_SECONDS": 600, "ACCESS_TOKEN_EXPIRE_SECONDS": 3600}


def toolkit_is_configured(*, app_configs: Sequence[AppConfig] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Return the errors in the toolkit's settings.

    oauth_bridge.E001: a model of the toolkit is not swapped. E002: the backend is not the class of this package. E003:
    a lifetime differs from the specification (2.2, 2.3).
    """
    configured = settings.OAUTH2_PROVIDER
    rows = [
        *(("oauth_bridge.E001", name, getattr(settings, name, None), model) for name, model in MODELS.items()),
        ("oauth_bridge.E002", "OAUTH2_BACKEND_CLASS", configured.get("OAUTH2_BACKEND_CLASS"), BACKEND),
        *(("oauth_bridge.E003", name, configured.get(name), seconds) for name, seconds in LIFETIMES_SECONDS.items()),
    ]
    return [
        Error(f"{name} is {value}.", hint=f"Set it to {expected}.", id=check)
        for check, name, value, expected in rows
        if value != expected
    ]


class OAuthBridgeConfig(AppConfig):
    name = "oauth_bridge"
    verbose_name = gettext_lazy("Applications")

    def ready(self) -> None:
        register(toolkit_is_configured)


class ToolkitConfig(toolkit.DOTConfig):
    """The toolkit without its commands, templates and static files, which Django searches below `path`.

    `createapplication` would store an application without a secret. The other commands use columns that do not exist.
    """

    default = False  # "oauth_bridge" in INSTALLED_APPS is the other class
    path = str(Path(toolkit.__file__).with_name("migrations"))
