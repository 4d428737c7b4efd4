"""System checks of the configuration. `docs/operations.md` explains the ids of their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.checks.security.base import SECRET_KEY_MIN_LENGTH
from django.db import DatabaseError, connection

from accounts.factors import authenticators
from config import branding, environment, health

Apps = Sequence[AppConfig] | None


@register(Tags.security)
def service_can_be_used(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Check REDIS_URL (for several workers), SERVICE_COLOR (enough contrast) and AUTH_URL (passkeys are possible)."""
    found = []
    if settings.WEB_CONCURRENCY > 1 and not settings.REDIS_URL:
        found.append(_message("E006", "WEB_CONCURRENCY is above 1 without REDIS_URL.", "Set REDIS_URL."))
    color = settings.SERVICE_COLOR
    if color and (ratio := branding.contrast(color, branding.WHITE)) < branding.TEXT_CONTRAST:
        text = f"SERVICE_COLOR {color} has a contrast of {ratio:.2f}:1 to white; text needs {branding.TEXT_CONTRAST}:1."
        found.append(_message("E008", text, "Use a darker colour."))
    if not authenticators.passkeys_are_possible():
        text = "AUTH_URL is an IP address, for which browsers create no passkey."
        found.append(_message("W002", text, "Use a name; on this machine, localhost."))
    return found


@register(Tags.security, deploy=True)
def deployment_is_safe(app_configs: Apps, **kwargs: Any) -> list[CheckMessage]:
    """Check the settings that matter for a deployment, such as https, SECRET_KEY and DEBUG."""
    found = [
        _message(number, f"{name} is http on a host that is not this machine.", "Use an https address.")
        for name, number in (("AUTH_URL", "E001"), ("BASE_URL", "E002"))
        if getattr(settings, name).startswith("http://") and not environment.is_loopback(getattr(settings, name))
    ]
    is_generated, least = settings.IS_SECRET_KEY_GENERATED, SECRET_KEY_MIN_LENGTH
    if is_generated or len(settings.SECRET_KEY) < least:
        fault = "is not set" if is_generated else f"has less than {least} characters"
        found.append(_message("E003", f"SECRET_KEY {fault}.", f"Set it to at least {least} random characters."))
    if settings.DEBUG:  # Django's own check only warns, but debug pages show codes and tokens
        found.append(_message("E004", "DEBUG is on.", "Unset it."))
    if not settings.IS_EMAIL_SET:  # nobody could reset a password
        found.append(_message("E005", "EMAIL_URL is not set: e-mails are written to files.", "Name a mail server."))
    if settings.WEB_CONCURRENCY > 1 and settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        text = "Several workers share one SQLite file, which takes one writer at a time."
        found.append(_message("W001", text, "Use PostgreSQL, or one worker."))
    if not settings.IS_DATABASE_SET:  # in a shell script, an unquoted `&` leaves it unset without an error
        text = "DATABASE_URL is not set: SQLite in the checkout is used."
        found.append(_message("W003", text, "Set it, also where SQLite is meant."))
    return found


@register(Tags.database, deploy=True)
def database_is_migrated(
    app_configs: Apps, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """Check that all migrations are applied. Without `databases`, check nothing. If the database is away, only warn."""
    try:
        missing = health.missing_migrations() if databases else []
    except DatabaseError:
        # Only a warning: the service starts without its database, and answers 503 until it is there.
        text = "The database does not answer, so its migrations are not checked."
        return [_message("W004", text, "Is DATABASE_URL right?")]
    if not missing:
        return []
    return [_message("E007", f"Migrations are missing: {', '.join(missing)}.", "Run manage.py migrate.")]


@register(Tags.database)
def database_is_utf8(app_configs: Apps, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Check that a PostgreSQL database uses UTF-8. Check nothing without `databases` or while the database is away."""
    if not databases or connection.vendor != "postgresql":
        return []
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_encoding")
            [encoding] = cursor.fetchone()
    except DatabaseError:  # others report it
        return []
    if encoding == "UTF8":
        return []
    text = f"The database is in {encoding}, which can't store every name."
    return [_message("E009", text, "Make another one with `createdb --encoding UTF8 --template template0`.")]


def _message(number: str, text: str, hint: str) -> CheckMessage:
    kind = Error if number.startswith("E") else Warning
    return kind(text, hint=hint, id=f"config.{number}")
