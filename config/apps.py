"""The Django apps of this package."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class WiringConfig(AppConfig):
    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers them)


class AdminConfig(SimpleAdminConfig):
    """Does not import `admin` modules by itself: the modules of allauth and django-oauth-toolkit show credentials."""

    default_site = "oauth_bridge.administration.site.Site"
