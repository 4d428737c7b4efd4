from django.apps import AppConfig
from django.utils.translation import gettext_lazy


class OAuthBridgeConfig(AppConfig):
    name = "oauth_bridge"
    verbose_name = gettext_lazy("Applications")

    def ready(self) -> None:
        from oauth_bridge import checks  # noqa: F401 - registers itself; the import needs the settings
