"""The Django apps of this package: system checks, and the admin site."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class WiringConfig(AppConfig):
    """Registers the system checks of `config.checks`."""

    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers them)


class AdminConfig(SimpleAdminConfig):
    """Django's admin without autodiscovery: `config.urls` imports only two modules of admin classes.

    The admin pages of allauth and the toolkit would show credentials (D15).
    """

    default_site = "oauth_bridge.administration.site.Site"
