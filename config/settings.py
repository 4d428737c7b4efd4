"""The Django settings. Many come from environment variables, which `docs/operations.md` explains."""

from __future__ import annotations

import tomllib
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from config import branding, logs
from config import environment as env
from config.limits_and_lifetimes import *

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = BASE_DIR / "var"
env.private_folder(VAR_DIR)
VERSION: str = tomllib.loads((BASE_DIR / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

# Addresses -----------------------------------------------------------------------------------------------------------

SERVICE_NAME = env.text("SERVICE_NAME", "Delegated Sign-In")
SERVICE_LOGO, SERVICE_COLOR = branding.logo("SERVICE_LOGO"), branding.color("SERVICE_COLOR")
PRIVACY_URL, TERMS_URL = env.link("PRIVACY_URL", ""), env.link("TERMS_URL", "")
SUPPORT_URL = env.link("SUPPORT_URL", "", is_support=True)
BIND = env.bind("BIND", "127.0.0.1:8000")
BASE_URL = env.origin("BASE_URL", f"http://localhost:{BIND.rpartition(':')[2]}")
AUTH_URL = env.origin("AUTH_URL", BASE_URL)
# If neither is set, the service runs on a developer's machine, and serves pages at every name of the machine.
ORIGINS_ARE_SET = bool(env.raw("BASE_URL") or env.raw("AUTH_URL"))
IS_HTTPS = AUTH_URL.startswith("https://")
ENVIRONMENT = env.text("ENVIRONMENT", "Production" if IS_HTTPS else "Development")
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", env.hosts_of(BASE_URL, AUTH_URL))
TRUSTED_PROXIES = env.networks("TRUSTED_PROXIES", "")

WEB_CONCURRENCY = env.number("WEB_CONCURRENCY", "1", largest=64)
METRICS_BIND = env.bind("METRICS_BIND", "", taken=BIND)
WEB_THREADS = env.number("WEB_THREADS", "8", largest=32)

DEBUG = env.boolean("DEBUG", "off")
SECRET_KEY = env.secret_key("SECRET_KEY", "", path=VAR_DIR / "secret-key")
SECRET_KEY_FALLBACKS = env.secret_keys("SECRET_KEY_FALLBACKS", "")
IS_SECRET_KEY_GENERATED = not env.raw("SECRET_KEY")

# Django --------------------------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "config.apps.WiringConfig",
    "config.apps.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "accounts",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "oauth_bridge",
    "oauth2_provider",
]

MIDDLEWARE = [
    "config.http.middleware.RequestLogMiddleware",
    "config.http.response_headers.ResponseHeadersMiddleware",
    "config.http.middleware.BoundsMiddleware",
    "config.http.languages.language_middleware",
    "config.http.middleware.OriginMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "accounts.sessions.store.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
]

ROOT_URLCONF = "config.urls"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "config.context_processors.service",
            ],
            "builtins": ["accounts.templatetags.times"],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

# Storage -------------------------------------------------------------------------------------------------------------

DATABASES = {"default": env.database("DATABASE_URL", f"sqlite:///{quote(str(VAR_DIR))}/db.sqlite3")}
IS_DATABASE_SET = bool(env.raw("DATABASE_URL"))
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.redis("REDIS_URL", "")
CACHES = {
    "default": {
        "BACKEND": "config.infrastructure.rate_limits.FailOpenRedisCache",
        "LOCATION": [REDIS_URL],
        "KEY_PREFIX": "delegated",
        "OPTIONS": env.redis_options(),
    }
    if REDIS_URL
    else {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 100_000}}
}
CACHES["limits"] = CACHES["default"] | (
    {"BACKEND": "config.infrastructure.rate_limits.RateLimitCache"} if REDIS_URL else {}
)

# By default, e-mails go to files, because no log may contain reset links.
globals().update(env.email("EMAIL_URL", f"filemail://{quote(str(VAR_DIR))}/mail"))
IS_EMAIL_SET = bool(env.raw("EMAIL_URL"))
EMAIL_TIMEOUT = 20  # seconds for a whole connection to the mail server
DEFAULT_FROM_EMAIL = env.sender("DEFAULT_FROM_EMAIL", env.no_reply(SERVICE_NAME, AUTH_URL))

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static", ("pictures", str(BASE_DIR / "docs" / "pictures"))]
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 300

# Counters of the limits (django-ratelimit) ---------------------------------------------------------------------------

RATELIMIT_USE_CACHE, RATELIMIT_FAIL_OPEN = "limits", True
# The defaults of django-ratelimit, which it would take longer to read at each count.
RATELIMIT_ENABLE, RATELIMIT_CACHE_PREFIX, RATELIMIT_HASH_ALGORITHM = True, "rl:", sha256

# Sign-in, sessions, cookies ------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
# Of sessions and permissions. accounts.sign_in.adapter checks passwords, and allauth and accounts.sessions.store
# refuse inactive people.
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.AllowAllUsersModelBackend"]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "profile"
LOGOUT_REDIRECT_URL = "account_login"
PASSWORD_HASHERS = ["accounts.passwords.hashing.PasswordHasher"]
# A page names the first broken rule.
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "accounts.passwords.validators.LengthValidator", "OPTIONS": {"min_length": PASSWORD_MIN_LENGTH}},
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ["email", "nickname"]},
    },
    {"NAME": "accounts.passwords.validators.PlainTextValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "accounts.passwords.validators.StrengthValidator"},
]

# With https, the name binds a cookie to this host and to https (RFC 6265bis §4.1.3.2).
_cookie = "__Host-" if IS_HTTPS else "delegated_"
KNOWN_BROWSER_COOKIE_NAME = f"{_cookie}known"

FILE_UPLOAD_HANDLERS = ["accounts.pictures.reencoder_runner.BoundedUploadHandler"]

SESSION_ENGINE = "accounts.sessions.store"
SESSION_COOKIE_NAME = f"{_cookie}session"
CSRF_COOKIE_NAME = f"{_cookie}csrf"
CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_HTTPS
CSRF_FAILURE_VIEW = "config.http.error_handlers.csrf_failure"
CSRF_TRUSTED_ORIGINS = [AUTH_URL]
MESSAGE_STORAGE = "accounts.sessions.store.MessageStorage"

# Headers of Django's SecurityMiddleware.
SECURE_HSTS_SECONDS = 60 * 60 * 24 * 365 if IS_HTTPS else 0
SECURE_REFERRER_POLICY = None
# An application may open the sign-in page in a pop-up window. An opener policy would disconnect the windows.
SECURE_CROSS_ORIGIN_OPENER_POLICY = None

SILENCED_SYSTEM_CHECKS = [
    "security.W002",  # Framing is forbidden by config.http.response_headers.
    "security.W005",  # The owner of the domain decides about HSTS for subdomains.
    "security.W008",  # The proxy redirects http to https; the service does not see the scheme of a request.
    "security.W021",  # The owner of the domain decides about HSTS preloading, which applies to the whole domain.
    "security.W022",  # Referrer-Policy depends on the kind of response, so config.http.response_headers sets it.
    # The checks of the grants of the toolkit and oauthlib, which are not used (docs/architecture.md).
    *(f"oauth2_provider.W{number:03}" for number in range(1, 11)),
]

# Language, time, log -------------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES: list[tuple[str, str]] = [
    ("en", "English"),
    ("de", "Deutsch"),
    ("fr", "Français"),
    ("es", "Español"),
    ("pt-br", "Português (Brasil)"),
    ("ar", "العربية"),
    ("zh-hans", "简体中文"),
]
LANGUAGE_COOKIE_NAME = f"{_cookie}language"
UI_LOCALES_COOKIE_NAME = "__Host-ui-locales" if IS_HTTPS else "delegated_ui_locales"
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["config.formats"]
TIME_ZONE = "UTC"
AUDIT_LOG = env.audit_log("AUDIT_LOG", "log")
LOGGING = logs.settings(AUDIT_LOG)

# Sign-in pages (allauth) ---------------------------------------------------------------------------------------------

ACCOUNT_ADAPTER = "accounts.sign_in.adapter.AccountAdapter"
ACCOUNT_FORMS = {
    "login": "accounts.sign_in.forms.SignInForm",
    "signup": "accounts.sign_in.sign_up.SignUpForm",
    "reset_password": "accounts.sign_in.password_pages.ResetRequestForm",
    "reset_password_from_key": "accounts.sign_in.password_pages.NewPasswordForm",
    "confirm_email_verification_code": "accounts.sign_in.forms.CodeForm",
    "change_password": "accounts.sign_in.forms.PasswordChangeForm",
    "reauthenticate": "accounts.sign_in.forms.ConfirmForm",
}
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "mandatory"
ACCOUNT_EMAIL_VERIFICATION_BY_CODE_ENABLED = True
ACCOUNT_EMAIL_VERIFICATION_SUPPORTS_RESEND = True
ACCOUNT_CHANGE_EMAIL = True
ACCOUNT_EMAIL_NOTIFICATIONS = True
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_LOGIN_ON_PASSWORD_RESET = True
ACCOUNT_PASSWORD_RESET_TOKEN_GENERATOR = "accounts.sessions.credential_changes.ResetTokenGenerator"
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_EMAIL_SUBJECT_PREFIX = ""

SIGN_UP = env.choice("SIGN_UP", "closed", allowed="closed, invitation, open")  # who may make an account
STAFF_SECOND_FACTOR = env.boolean("STAFF_SECOND_FACTOR", "on" if IS_HTTPS else "off")
MFA_ADAPTER = "accounts.factors.authenticators.FactorAdapter"
MFA_FORMS = {
    "authenticate": "accounts.factors.forms.AuthenticateForm",
    "reauthenticate": "accounts.factors.forms.ReauthenticateForm",
    "activate_totp": "accounts.factors.forms.ActivateTOTPForm",
    "add_webauthn": "accounts.factors.forms.AddPasskeyForm",
    "signup_webauthn": "accounts.factors.forms.AddPasskeyForm",
    "edit_webauthn": "accounts.factors.forms.RenamePasskeyForm",
    "login_webauthn": "accounts.factors.forms.PasskeySignInForm",
    "authenticate_webauthn": "accounts.factors.forms.PasskeyAuthenticateForm",
    "reauthenticate_webauthn": "accounts.factors.forms.PasskeyReauthenticateForm",
}
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_PASSKEY_LOGIN_ENABLED = MFA_PASSKEY_SIGNUP_ENABLED = True
MFA_WEBAUTHN_USER_VERIFICATION = "required"
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = SERVICE_NAME

# OAuth (django-oauth-toolkit) ----------------------------------------------------------------------------------------

OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth_bridge.Application"
OAUTH2_PROVIDER_GRANT_MODEL = "oauth_bridge.AuthorizationCode"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "oauth_bridge.AccessToken"
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "oauth_bridge.RefreshToken"
OAUTH2_PROVIDER_ID_TOKEN_MODEL = "oauth_bridge.IDToken"
OAUTH2_PROVIDER = {
    "OAUTH2_BACKEND_CLASS": "oauth_bridge.backend.Backend",
    "AUTHORIZATION_CODE_EXPIRE_SECONDS": AUTHORIZATION_CODE_EXPIRE_SECONDS,
    "ACCESS_TOKEN_EXPIRE_SECONDS": ACCESS_TOKEN_EXPIRE_SECONDS,
}

env.refuse_unknown()
