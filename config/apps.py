"""The Django apps of this package."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class WiringConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers them)


class AdminConfig(SimpleAdminConfig):
    """Disables the autodiscovery of Django's admin. `config.urls` imports our modules of admin classes instead.

    Autodiscovery would add the admin pages of allauth and django-oauth-toolkit, which show credentials.
    """

    default_site = "oauth_bridge.administration.site.Site"
