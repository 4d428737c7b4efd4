"""The settings that limit something: rates, lifetimes, retention and sizes. config.settings imports all of them.

Rates that no variable changes are in accounts.throttling.
"""

from __future__ import annotations

from config import environment as env

# Rates and attempts (D21) --------------------------------------------------------------------------------------------

RATES = env.rates(
    "RATE_LIMITS",
    RATE_TOKEN="600/m",
    RATE_TOKEN_FAILURES="20/m",
    RATE_USERINFO="6000/m",
    RATE_USERINFO_FAILURES="60/m",
    RATE_AUTHORIZE="120/m",
    RATE_SIGN_IN_ACCOUNT="10/15m",
    RATE_SIGN_IN_ADDRESS="50/15m",
    RATE_SECOND_FACTOR="10/15m",
    RATE_SIGN_IN_DONE="60/15m",
)
# The limits that are None here are off in allauth: accounts.throttling counts sign-ups, sign-ins, confirmations by
# password and requests for a reset link, and accounts.factors.failures counts second factors (D21). The value `False`
# would also remove allauth's limit of codes that are sent by e-mail. For pages of allauth that this site does not have,
# allauth's limits are unchanged.
ACCOUNT_RATE_LIMITS = {
    **dict.fromkeys(("signup", "login", "login_failed", "change_password", "reauthenticate")),
    **dict.fromkeys(("reset_password", "reset_password_from_key")),
    "confirm_email": "1/10s/key" if RATES else None,
}
MFA_RATE_LIMITS = {"webauthn_login": None}  # accounts.throttling counts passkeys that are not accepted
ACCOUNT_EMAIL_VERIFICATION_BY_CODE_MAX_ATTEMPTS = 3

# Lifetimes, in seconds -----------------------------------------------------------------------------------------------

AUTHORIZATION_CODE_EXPIRE_SECONDS = 600
ACCESS_TOKEN_EXPIRE_SECONDS = 3600
SESSION_COOKIE_AGE = 60 * 60 * 24 * 14
KNOWN_BROWSER_AGE_SECONDS = 180 * 24 * 3600
PASSWORD_RESET_TIMEOUT = 3600  # of a reset link
ACCOUNT_LOGIN_TIMEOUT = 3600  # of a sign-in that waits for a code or a second factor
ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT = 1800
# The page of a sensitive change opens only if the latest sign-in or proof is younger than this.
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
MFA_TOTP_TOLERANCE = 1  # accepted 30-second periods before and after the present period. RFC 6238 §5.2, §6

# Retention -----------------------------------------------------------------------------------------------------------

ACTIVITY_DAYS = env.number("ACTIVITY_DAYS", default=30, largest=365)

# Sizes ---------------------------------------------------------------------------------------------------------------

# The maximum size of a form without its files. `next` may contain a percent-encoded authorization link of 32 kB.
DATA_UPLOAD_MAX_MEMORY_SIZE = 128 * 1024
# A list page of the admin posts up to 30 rows. A multipart form may have as many parts as both numbers together.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 40
DATA_UPLOAD_MAX_NUMBER_FILES = 2
