"""The settings that limit something: rates, lifetimes, retention and sizes. config.settings imports all of them."""

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
# No variable changes the rates below. A rate for each network address also applies, in a multiple, to the site of an
# IPv6 address (config.infrastructure.rate_limits.by_address).
#
# The limit of failed sign-ins of all unknown browsers together. Hashing a password takes 25 ms, so 1,200 passwords a
# minute occupy half a core. RATE_SIGN_IN_ADDRESS allows one machine, with an IPv4 address and an IPv6 site, at most 250
# failures in 15 minutes. So one machine never reaches this limit.
SIGN_IN_FAILURES_OF_ALL = "1200/m"
RESETS_PER_ADDRESS = "20/m"
NEW_PASSWORDS_PER_ADDRESS = "20/m"
# The limit of codes and links that one network address may request, for all mailboxes together.
MAILS_PER_ADDRESS = "200/h"
# The limits of accounts that one network address may request. The purge deletes an account that is still unconfirmed
# after 30 days (P19).
SIGN_UPS_PER_ADDRESS = "20/m"
SIGN_UPS_PER_ADDRESS_AND_DAY = "300/d"
PASSKEY_OPTIONS_PER_ADDRESS = "60/m"
NEW_PASSKEYS_PER_PERSON = "20/h"
# Each link works for an hour, so a mailbox that has reached this limit still contains a valid link.
RESET_MAILS_PER_MAILBOX = "5/h"
# All unknown browsers together may request this multiple of RESET_MAILS_PER_MAILBOX for one mailbox.
RESET_MAILS_FROM_ALL = 3
# The limit of codes that one person may request for new addresses. Each code may be sent again twice.
NEW_ADDRESSES_PER_PERSON = "5/h"
# Strangers can cause the e-mail "you already have an account" and codes of each kind. These are the limits of such
# e-mails to one mailbox.
TAKEN_MAILS_PER_MAILBOX = "5/h"
CODES_PER_MAILBOX = "10/h"
# The limit of e-mails of one kind about what happens to an account or an application, to one mailbox.
NOTICES_PER_MAILBOX_AND_KIND = "5/h"
# The same limit for all applications together, if the limit is for each application.
NOTICES_OF_ALL_APPLICATIONS = "20/h"
# The limit of changes by one administrator on pages. The audit trail keeps each change for ever.
ADMINISTRATIONS_PER_PERSON = "300/h"
# The same limit for acts with a page of their own, such as switching off or signing out: they are small and urgent.
ACTS_PER_PERSON = "3000/h"
# The limit of e-mails about unknown browsers. A browser that keeps no cookies is unknown at each sign-in, and would
# cause an e-mail each time.
NEW_BROWSER_MAILS_PER_DAY = 5
# The limits of pictures that one person uploads, as the person's picture or as the logo of an application.
PICTURES_PER_PERSON = "6/m"
PICTURES_PER_PERSON_AND_HOUR = "40/h"
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

ACTIVITY_DAYS = env.number("ACTIVITY_DAYS", default=30, largest=365)

# Sizes ---------------------------------------------------------------------------------------------------------------

PASSWORD_MIN_LENGTH = 15  # the minimum of NIST SP 800-63B for a password that is the only factor
PASSWORD_MAX_LENGTH = 1024
PICTURE_MAX_BYTES = 25 * 1024 * 1024  # of an uploaded picture; enough for the photos of telephones
# The maximum size of a form without its files. `next` may contain a percent-encoded authorization link of 32 kB.
DATA_UPLOAD_MAX_MEMORY_SIZE = 128 * 1024
# A list page of the admin posts up to 30 rows. A multipart form may have as many parts as both numbers together.
DATA_UPLOAD_MAX_NUMBER_FIELDS = 40
DATA_UPLOAD_MAX_NUMBER_FILES = 2
