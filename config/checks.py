"""System checks of a deployment. `docs/operations.md` explains each id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.checks.security.base import SECRET_KEY_MIN_LENGTH
from django.db import DatabaseError

from accounts.factors import authenticators
from config import branding, environment, health
from config.infrastructure import colors

Apps = Sequence[AppConfig] | None


@register(Tags.security, deploy=True)
def addresses_are_https(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Require https except on the loopback interface, because https encrypts cookies, passwords and tokens."""
    return [
        Error(f"{name} is http on a host that is not this machine.", hint="Use an https address.", id=number)
        for name, number in (("AUTH_URL", "config.E001"), ("BASE_URL", "config.E002"))
        if getattr(settings, name).startswith("http://") and not environment.is_loopback(getattr(settings, name))
    ]


@register(Tags.security, deploy=True)
def secret_key_is_chosen(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Require a long SECRET_KEY: a short key can be guessed, and a generated key differs on each machine."""
    if settings.IS_SECRET_KEY_GENERATED:
        fault = "is not set"
    elif len(settings.SECRET_KEY) < SECRET_KEY_MIN_LENGTH:
        fault = f"has less than {SECRET_KEY_MIN_LENGTH} characters"
    else:
        return []
    hint = f"Set it to at least {SECRET_KEY_MIN_LENGTH} random characters."
    return [Error(f"SECRET_KEY {fault}.", hint=hint, id="config.E003")]


@register(Tags.security, deploy=True)
def debug_is_off(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Report DEBUG as an error, because debug pages show codes and tokens. Django's own check only warns."""
    return [Error("DEBUG is on.", hint="Unset it.", id="config.E004")] if settings.DEBUG else []


@register(Tags.security, deploy=True)
def email_is_configured(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Require a mail server, because without e-mails nobody can reset a password."""
    if settings.IS_EMAIL_SET:
        return []
    return [Error("EMAIL_URL is not set: e-mails are written to files.", hint="Name a mail server.", id="config.E005")]


@register(Tags.security, deploy=True)
def database_suits_the_workers(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn if several workers use SQLite, which takes only one writer at a time."""
    if settings.WEB_CONCURRENCY == 1 or not settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        return []
    return [
        Warning(
            "Several workers share one SQLite file, which takes one writer at a time.",
            hint="Use PostgreSQL, or one worker.",
            id="config.W001",
        )
    ]


@register(Tags.security, deploy=True)
def database_is_chosen(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn if DATABASE_URL is not set. In a shell script, an unquoted `&` leaves it unset without an error."""
    if settings.IS_DATABASE_SET:
        return []
    return [
        Warning(
            "DATABASE_URL is not set: SQLite in the checkout is used.",
            hint="Set it, also where SQLite is meant.",
            id="config.W003",
        )
    ]


@register(Tags.database, deploy=True)
def database_is_migrated(
    app_configs: Apps, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that all migrations are applied. The check reads the database, so it needs `--database default`."""
    if not databases:
        return []
    try:
        missing = health.missing_migrations()
    except DatabaseError:
        # This is only a warning, because the service starts without its database and answers 503 until the database
        # answers.
        text, hint = "The database does not answer, so its migrations are not checked.", "Is DATABASE_URL right?"
        return [Warning(text, hint=hint, id="config.W004")]
    if not missing:
        return []
    return [Error(f"Migrations are missing: {', '.join(missing)}.", hint="Run manage.py migrate.", id="config.E007")]


@register(Tags.security)
def workers_share_limits(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Require Redis for several workers, so that they count limits together. config.gunicorn checks this too. D21."""
    if settings.WEB_CONCURRENCY == 1 or settings.REDIS_URL:
        return []
    return [Error("WEB_CONCURRENCY is above 1 without REDIS_URL.", hint="Set REDIS_URL.", id="config.E006")]


@register(Tags.compatibility)
def color_can_be_read(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Require that SERVICE_COLOR on white, and white on SERVICE_COLOR, can be read. WCAG 2.2, 1.4.3."""
    color = settings.SERVICE_COLOR
    if not color or (found := colors.contrast(color, colors.WHITE)) >= colors.TEXT_CONTRAST:
        return []
    return [
        Error(
            f"SERVICE_COLOR {color} has a contrast of {found:.2f}:1 to white; text needs {colors.TEXT_CONTRAST}:1.",
            hint=f"Use a darker colour, such as {branding.legible(color)}.",
            id="config.E008",
        )
    ]


@register(Tags.security)
def sign_in_host_is_a_name(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Warn if AUTH_URL is an IP address: browsers create passkeys for host names only."""
    if authenticators.passkeys_are_possible():
        return []
    return [
        Warning(
            "AUTH_URL is an IP address, for which browsers create no passkey.",
            hint="Use a name; on this machine, localhost.",
            id="config.W002",
        )
    ]
