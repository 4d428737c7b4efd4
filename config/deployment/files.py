"""The checks of pictures, security events and SECRET_KEY for `manage.py check-deployment`."""

from __future__ import annotations

import os
import tempfile
import uuid
from pathlib import Path

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage, storages
from django.utils.module_loading import import_string
from zxcvbn import zxcvbn

from accounts.pictures.database_storage import DatabaseStorage
from config.deployment.findings import Finding, failed, ok, skipped, warning

MB = 1024 * 1024
LEAST_MB, FEW_MB = 64, 512
# A key must need at least 10**LEAST_GUESSES_LOG10 guesses. 50 random characters need more than 1e45 guesses, even if
# they are hexadecimal; words, names and repetitions need far fewer.
LEAST_GUESSES_LOG10 = 38
COMPARED_CHARACTERS = 72  # the length of the longest text that zxcvbn accepts


def pictures() -> list[Finding]:
    name = "pictures"
    if isinstance(storages["default"], DatabaseStorage):
        return [ok(name, "Pictures are in the database.")]
    try:
        probe = default_storage.save(f"logos/check-{uuid.uuid4().hex}.png", ContentFile(b"x"))
        default_storage.delete(probe)
    except OSError as error:
        fix = "Check bucket, endpoint and region of PICTURES, and that the credentials may write and delete."
        return [failed(name, f"The store of PICTURES can't be used ({error}): no picture or logo can be stored.", fix)]
    return [ok(name, "Pictures can be stored in, and deleted from, the store of PICTURES.")]


def media_root() -> list[Finding]:
    """Check MEDIA_ROOT, the folder of earlier releases. Skip the check if the setting and the folder are missing."""
    name, folder = "media_root", Path(settings.MEDIA_ROOT).resolve()
    if not settings.IS_MEDIA_ROOT_SET and not folder.exists():
        return [skipped(name, "No release has kept pictures in MEDIA_ROOT.")]
    fix = "Let the user of the service own the folder, and leave it out of ProtectSystem with StateDirectory."
    if not folder.is_dir():
        message = f"MEDIA_ROOT, {folder}, is no folder: pictures of earlier releases are not shown."
        return [failed(name, message, f"Make it: install -d -o USER {folder}. USER is that of the service.")]
    served = [Path(each).resolve() for each in settings.STATICFILES_DIRS]
    if any(folder.is_relative_to(each) or each.is_relative_to(folder) for each in served):
        message = "MEDIA_ROOT and the folder of static files contain one another."
        return [failed(name, message, "Choose a folder elsewhere, such as /var/lib/sign-in/media.")]
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as draft:
            draft.write(b"x")
    except OSError as error:
        return [failed(name, f"MEDIA_ROOT, {folder}, can't be written ({error.strerror}).", fix)]
    return [_space(name, folder)]


def _space(name: str, folder: Path) -> Finding:
    state = os.statvfs(folder)
    free = state.f_bavail * state.f_frsize // MB
    message = f"MEDIA_ROOT can be written and has {free:,} MB left."
    if free >= FEW_MB:
        return ok(name, message)
    status = failed if free < LEAST_MB else warning
    return status(name, message, "Make room, or give pictures a larger file system.")


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
