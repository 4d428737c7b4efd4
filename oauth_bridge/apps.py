"""The application of Django."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class OAuthBridgeConfig(AppConfig):
    name = "oauth_bridge"
    verbose_name = gettext_lazy("Applications")
