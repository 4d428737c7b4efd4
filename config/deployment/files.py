"""The checks of security events and SECRET_KEY for `manage.py check-deployment`."""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string
from zxcvbn import zxcvbn

from config.deployment.findings import Finding, failed, ok, warning

# A key must need at least 10**LEAST_GUESSES_LOG10 guesses. 50 random characters need more than 1e45 guesses, even if
# they are hexadecimal; words, names and repetitions need far fewer.
LEAST_GUESSES_LOG10 = 38
COMPARED_CHARACTERS = 72  # the length of the longest text that zxcvbn accepts


def audit_log() -> list[Finding]:
    given = {**settings.AUDIT_LOG}
    if not given:
        return [ok("audit_log", "Security events are in the log of the service.")]
    handler = import_string(given.pop("class"))(**given)
    try:
        handler.open()
    except OSError as error:
        message = f"AUDIT_LOG can't be written ({error.strerror}): events are in the log of the service instead."
        fix = "Let the user of the service own the file and its folder, or let syslog listen there."
        return [failed("audit_log", message, fix)]
    finally:
        handler.close()
    return [ok("audit_log", "Security events can be written to AUDIT_LOG.")]


def secret_key() -> list[Finding]:
    if settings.IS_SECRET_KEY_GENERATED:
        message = "SECRET_KEY is not set: a generated one is kept in the checkout, and is not on other machines."
        return [failed("secret_key", message, "Set it to at least 50 random characters.")]
    if _can_be_guessed(settings.SECRET_KEY):
        fix = "Choose at least 50 random characters, and change it as in docs/operations.md, A new SECRET_KEY."
        return [failed("secret_key", "SECRET_KEY can be guessed.", fix)]
    if any(_can_be_guessed(each) for each in settings.SECRET_KEY_FALLBACKS):
        message = "A key of SECRET_KEY_FALLBACKS can be guessed, and what it signed is accepted."
        return [warning("secret_key", message, "Run manage.py reseal, then leave it out.")]
    return [ok("secret_key", "SECRET_KEY is long and looks random.")]


def _can_be_guessed(key: str) -> bool:
    return float(zxcvbn(key[:COMPARED_CHARACTERS])["guesses_log10"]) < LEAST_GUESSES_LOG10
