"""Settings for rates, lifetimes, retention and sizes. config.settings imports all of them."""

from __future__ import annotations

from config import environment as env

# Rates and attempts --------------------------------------------------------------------------------------------

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
# No variable changes the rates below. docs/contract.md says what each counts.
if RATES:
    RATES |= {
        "logout": RATES["authorize"],
        "revoke": RATES["userinfo"],
        "introspect": RATES["userinfo"],
        "sign_in": "1200/m",
        "sign_in_begun": RATES["sign_in_done"],
        "reset": "20/m",
        "new_password": "20/m",
        "mail": "200/h",
        "sign_up": "20/m",
        "sign_up_day": "300/d",
        "passkey_options": "60/m",
        "new_passkey": "20/h",
        "reset_mail": "5/h",  # each link works for an hour, so a mailbox at this limit still has a valid link
        "new_address": "5/h",
        "taken_mail": "5/h",
        "code_mail": "10/h",
        "notice": "5/h",
        "notice_of_all": "20/h",
        "administration": "300/h",
        "act": "3000/h",
        "picture": "6/m",
        "picture_hour": "40/h",
    }
# Records of refused requests, by caller and application, and for all callers of one kind of an application.
# RATE_LIMITS does not switch these limits off, as they refuse no request.
RATES_OF_RECORDS = {"records_of_caller": "120/h", "records_of_kind": "1000/h"}
# All unknown browsers together may request this multiple of `reset_mail` for one mailbox.
RESET_MAILS_FROM_ALL = 3
NEW_BROWSER_MAILS_PER_DAY = 5
# None: off in allauth, because accounts.throttling counts. `False` would also remove
# allauth's limit of codes that are sent by e-mail.
ACCOUNT_RATE_LIMITS = {
    **dict.fromkeys(("signup", "login", "login_failed", "change_password", "reauthenticate", "reset_password")),
    "reset_password_from_key": None,
    "confirm_email": "1/10s/key" if RATES else None,
}
MFA_RATE_LIMITS = {"webauthn_login": None}  # accounts.throttling counts passkeys that are not accepted

# Lifetimes, in seconds -----------------------------------------------------------------------------------------------

AUTHORIZATION_CODE_EXPIRE_SECONDS = 600
ACCESS_TOKEN_EXPIRE_SECONDS = 3600
SESSION_COOKIE_AGE = 60 * 60 * 24 * 14
# The age at which a session without a signed-in person ends, however often it is used.
ANONYMOUS_SESSION_AGE = 3600
KNOWN_BROWSER_AGE_SECONDS = 180 * 24 * 3600
PASSWORD_RESET_TIMEOUT = 3600  # of a reset link
ACCOUNT_LOGIN_TIMEOUT = 3600  # of a sign-in that waits for a code or a second factor
ACCOUNT_EMAIL_VERIFICATION_BY_CODE_TIMEOUT = 1800
INVITATION_AGE = 7 * 24 * 3600  # of an invitation to make an account
# The page of a sensitive change opens only if the latest sign-in or proof is younger than this.
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
MFA_TOTP_TOLERANCE = 1  # accepted 30-second periods before and after the present period. RFC 6238 §5.2, §6

# Retention -----------------------------------------------------------------------------------------------------------

ACTIVITY_DAYS = env.number("ACTIVITY_DAYS", "30", largest=365)

# Sizes ---------------------------------------------------------------------------------------------------------------

PASSWORD_MIN_LENGTH = 15  # the minimum of NIST SP 800-63B for a password that is the only factor
PASSWORD_MAX_LENGTH = 1024
PICTURE_MAX_BYTES = 25 * 1024 * 1024  # of an uploaded picture; enough for the photos of telephones
# The maximum size of a form without its files. `next` may contain a percent-encoded authorization link of 32 kB.
DATA_UPLOAD_MAX_MEMORY_SIZE = 128 * 1024
# A list page of the admin posts up to 30 rows. A multipart form may have as many parts as both numbers together.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 40
DATA_UPLOAD_MAX_NUMBER_FILES = 2
