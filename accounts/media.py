"""The files of MEDIA_ROOT: stored whole or not at all, and reported when they can't be read."""

from __future__ import annotations

import errno
import functools
import logging
import os
import uuid
from contextlib import suppress

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

logger = logging.getLogger(__name__)


class NotStored(Exception):
    """MEDIA_ROOT takes no file: it is full, may only be read or is no folder. The log says which."""


def store(name: str, content: bytes) -> None:
    """Write the file, over an older one of this name. Raises NotStored: nothing was changed."""
    unfinished = f"{name}.{uuid.uuid4().hex}"
    try:
        default_storage.save(unfinished, ContentFile(content))
        os.replace(default_storage.path(unfinished), default_storage.path(name))
    except OSError as error:
        logger.error("a file could not be stored", extra=reason(error))
        with suppress(OSError):
            default_storage.delete(unfinished)
        raise NotStored from error


def read(name: str) -> bytes:
    """Raises OSError: the file is not there or can't be read."""
    with default_storage.open(name) as file:
        return bytes(file.read())


def delete(name: str) -> None:
    """Delete the file if it is there. What can't be deleted stays, which harms nobody but takes room."""
    try:
        default_storage.delete(name)
    except OSError as error:
        logger.warning("a file could not be deleted", extra={"file": name, **reason(error)})


@functools.lru_cache(maxsize=4096)
def warn_unreadable(name: str) -> None:
    """One warning for each file and process, not for each request."""
    logger.warning("a picture can't be read", extra={"file": name})


def reason(error: OSError) -> dict[str, str | None]:
    """Members of a log line that name the error without the path it was about."""
    return {"kind": type(error).__name__, "code": errno.errorcode.get(error.errno or 0)}
