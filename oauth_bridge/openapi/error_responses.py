"""The errors of each operation. The tests compare every response with these lists. D19."""

from __future__ import annotations

from config.infrastructure.errors import SiteFault
from oauth_bridge.errors import OAuthFault

ANYWHERE = (
    SiteFault.BAD_REQUEST,
    SiteFault.HOST,
    SiteFault.HOST_NAMED,
    SiteFault.METHOD,
    SiteFault.HEADER_TOO_LONG,
    SiteFault.RATE_LIMITED,
    SiteFault.SERVER_ERROR,
    SiteFault.AWAY,
)
UNVERIFIED = (
    OAuthFault.CLIENT_UNKNOWN,
    OAuthFault.CLIENT_DISABLED,
    OAuthFault.REDIRECT_URI_MISMATCH,
    OAuthFault.REQUEST_DAMAGED,
)
AUTHORIZE = (OAuthFault.MISSING, OAuthFault.REPEATED, *UNVERIFIED, OAuthFault.SPECULATIVE, *ANYWHERE)
CALLBACK = (
    OAuthFault.MISSING,
    OAuthFault.REPEATED,
    OAuthFault.RESPONSE_TYPE,
    OAuthFault.REFUSED,
    OAuthFault.NOT_ADMITTED,
    OAuthFault.CHALLENGE_NEEDED,
    OAuthFault.CHALLENGE_METHOD,
    OAuthFault.CHALLENGE_MALFORMED,
    OAuthFault.REQUEST_OBJECT,
    OAuthFault.REQUEST_URI,
    OAuthFault.RESPONSE_MODE,
    OAuthFault.OPENID_MISSPELT,
    OAuthFault.NONCE_TOO_LONG,
    OAuthFault.CLAIMS_MALFORMED,
    OAuthFault.PROMPT_NONE,
    OAuthFault.MAX_AGE,
    OAuthFault.HINT,
    OAuthFault.ACR,
    OAuthFault.LOGIN_REQUIRED,
    OAuthFault.CONSENT_REQUIRED,
    OAuthFault.INTERACTION_REQUIRED,
)
FORM = (
    OAuthFault.REPEATED,
    OAuthFault.MALFORMED,
    OAuthFault.PADDED,
    SiteFault.MEDIA_TYPE,
    OAuthFault.IN_URL,
    SiteFault.TOO_LARGE,
)
CSRF = (SiteFault.CSRF, SiteFault.CSRF_NO_COOKIE, SiteFault.CSRF_ORIGIN)
CONSENT = (*FORM, SiteFault.TOO_MANY_FIELDS, *UNVERIFIED, *CSRF, SiteFault.NOT_FOUND, *ANYWHERE)
TOKEN = (
    *FORM,
    OAuthFault.MISSING,
    OAuthFault.GRANT_TYPE,
    OAuthFault.TWO_AUTHENTICATIONS,
    OAuthFault.CLIENT_DIFFERS,
    OAuthFault.VERIFIER_MALFORMED,
    *(fault for fault in OAuthFault if fault.error in ("invalid_client", "invalid_grant")),
    *ANYWHERE,
)
TOKEN_STATE = (
    *FORM,
    OAuthFault.MISSING,
    OAuthFault.TWO_AUTHENTICATIONS,
    OAuthFault.CLIENT_DIFFERS,
    *(fault for fault in OAuthFault if fault.error == "invalid_client"),
    *ANYWHERE,
)
LOGOUT = (
    OAuthFault.MISSING,
    OAuthFault.REPEATED,
    OAuthFault.CLIENT_UNKNOWN,
    OAuthFault.CLIENT_DISABLED,
    OAuthFault.LOGOUT_HINT,
    OAuthFault.LOGOUT_HINT_OF_ANOTHER,
    OAuthFault.LOGOUT_ADDRESS,
    OAuthFault.SPECULATIVE,
    *ANYWHERE,
)
LOGOUT_POSTED = (
    *FORM,
    SiteFault.TOO_MANY_FIELDS,
    OAuthFault.CLIENT_UNKNOWN,
    OAuthFault.CLIENT_DISABLED,
    OAuthFault.LOGOUT_ADDRESS,
    *CSRF,
    SiteFault.NOT_FOUND,
    *ANYWHERE,
)
USERINFO = (
    *(fault for fault in OAuthFault if fault.error in ("invalid_token", "insufficient_scope")),
    OAuthFault.NO_VERIFIED_EMAIL,
    *ANYWHERE,
)
