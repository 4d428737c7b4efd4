"""The wiring as Django sees it, and the admin with our pages only."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class WiringConfig(AppConfig):
    """Registers the checks of a deployment."""

    name = "config"

    def ready(self) -> None:
        from config import checks  # noqa: F401  (registers them)


class AdminConfig(SimpleAdminConfig):
    """Django admin without autodiscovery: only `accounts.admin` and `oauth_bridge.admin` are registered.

    The toolkit's and allauth's own admin pages would show staff what nobody may see (D15).
    """

    default_site = "accounts.admin_site.AdminSite"
