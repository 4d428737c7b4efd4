"""The metadata of the service. OpenID Connect Discovery 1.0 §3; RFC 8414 §2.

`authorization_response_iss_parameter_supported` is absent, because plain OAuth 2.0 callbacks have no `iss`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils.translation import to_locale

from accounts.sign_in.reauthentication import ONE_FACTOR, TWO_FACTORS
from config.infrastructure import paths
from oauth_bridge.openid import claims, signing_keys

# The claims of an ID token that no scope asks for.
TOKEN_CLAIMS = ["iss", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "azp", "at_hash"]
SECRET_METHODS = ["client_secret_basic", "client_secret_post"]


def document() -> dict[str, Any]:
    """Return one metadata document for OpenID Connect and RFC 8414. Clients ignore members that they do not know."""
    return {
        "issuer": settings.BASE_URL,
        "authorization_endpoint": settings.AUTH_URL + paths.AUTHORIZE,
        "token_endpoint": settings.BASE_URL + paths.TOKEN,
        "userinfo_endpoint": settings.BASE_URL + paths.USERINFO,
        "revocation_endpoint": settings.BASE_URL + paths.REVOKE,
        "introspection_endpoint": settings.BASE_URL + paths.INTROSPECT,
        "end_session_endpoint": settings.AUTH_URL + paths.LOGOUT,
        "jwks_uri": settings.BASE_URL + paths.JWKS,
        "service_documentation": settings.AUTH_URL + paths.DOCS,
        "scopes_supported": list(claims.SCOPES),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "form_post"],
        "grant_types_supported": ["authorization_code"],
        "token_endpoint_auth_methods_supported": [*SECRET_METHODS, "none"],
        "revocation_endpoint_auth_methods_supported": [*SECRET_METHODS, "none"],
        "introspection_endpoint_auth_methods_supported": SECRET_METHODS,
        "code_challenge_methods_supported": ["S256"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": list(signing_keys.ALGORITHMS),
        "acr_values_supported": [ONE_FACTOR, TWO_FACTORS],
        "claim_types_supported": ["normal"],
        "claims_supported": [*claims.NAMES, *TOKEN_CLAIMS],
        "claims_parameter_supported": True,
        "request_parameter_supported": False,
        "request_uri_parameter_supported": False,  # the default of this member is true
        "prompt_values_supported": ["none", "login", "consent", "select_account"],
        # As BCP 47 spells them: pt-BR, zh-Hans.
        "ui_locales_supported": [to_locale(code).replace("_", "-") for code, _name in settings.LANGUAGES],
    }
