"""Which pictures a person may upload, and why another file is refused. Specification 2.4; D16.

The maximum size of a file is PICTURE_MAX_BYTES of config.limits_and_lifetimes. accounts.pictures.reencoder, a program
without Django, checks the formats and the number of pixels (FORMATS, MAX_PIXELS), and this module names them to people.
"""

from __future__ import annotations

import logging
import signal
from typing import Any

from django.conf import settings
from django.core.files.base import File

from accounts.errors import AccountFault, FormError
from accounts.pictures import reencoder
from accounts.pictures.upload_handler import LostUpload

MAX_MEGAPIXELS = 50
ACCEPTED_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"]

logger = logging.getLogger(__name__)


def check(upload: File[Any]) -> None:
    """Check an upload before it is read. Raises FormError: it is too large, or could not be written to the disk."""
    if isinstance(upload, LostUpload):
        raise FormError(AccountFault.PICTURE_LOST, "lost")
    if upload.size > settings.PICTURE_MAX_BYTES:
        raise FormError(AccountFault.PICTURE_TOO_LARGE, "too_large", count=settings.PICTURE_MAX_BYTES // 1024**2)


def refusal(status: int) -> FormError:
    """Return the error for an exit status of accounts.pictures.reencoder."""
    if status == reencoder.TOO_MANY_PIXELS:
        return FormError(AccountFault.PICTURE_TOO_MANY_PIXELS, "too_many_pixels", count=MAX_MEGAPIXELS)
    if status in (reencoder.TOO_COSTLY, -signal.SIGXCPU):
        return FormError(AccountFault.PICTURE_TOO_COSTLY, "too_costly")
    if status == reencoder.NOT_A_PICTURE:
        return FormError(AccountFault.NOT_A_PICTURE, "not_a_picture")
    # A decoder crashed, the system killed the program for lack of memory, or the disk is full.
    logger.error("a picture could not be read", extra={"code": status})
    return FormError(AccountFault.PICTURE_FAILED, "failed")
