"""What to fill into the settings of a product that uses this service."""

from __future__ import annotations

from django.conf import settings
from django.utils.translation import gettext as _

from config.infrastructure import paths
from oauth_bridge.models import Application

OPENID_SCOPE = "openid profile email"


def of(found: Application) -> list[tuple[str, list[tuple[str, str]]]]:
    """The settings that products need besides client ID and secret: first with discovery, then without discovery."""
    discovered = [
        (_("Issuer"), settings.BASE_URL),
        (_("Discovery address"), f"{settings.BASE_URL}{paths.OPENID_CONFIGURATION}"),
        (_("Scope"), OPENID_SCOPE),
    ]
    others = [
        (_("Authorization"), f"{settings.AUTH_URL}{paths.AUTHORIZE}"),
        (_("Token"), f"{settings.BASE_URL}{paths.TOKEN}"),
        (_("User info"), f"{settings.BASE_URL}{paths.USERINFO}"),
        (_("Keys (JWKS)"), f"{settings.BASE_URL}{paths.JWKS}"),
        (_("Signature of ID tokens"), found.id_token_alg),
    ]
    return [(_("OpenID Connect"), discovered), (_("Without discovery, or for plain OAuth 2.0"), others)]
