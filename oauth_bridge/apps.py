from django.apps import AppConfig


class OAuthBridgeConfig(AppConfig):
    name = "oauth_bridge"
    verbose_name = "Applications"

    def ready(self) -> None:
        from oauth_bridge import checks  # noqa: F401 - registers itself; the import needs the settings
