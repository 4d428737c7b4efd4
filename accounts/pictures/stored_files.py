"""The files of MEDIA_ROOT. A file is stored completely or not at all; one that can't be read is logged."""

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
    """MEDIA_ROOT can't store a file: it is full, read-only or not a folder. The log says which."""


def store(name: str, content: bytes) -> None:
    """Write the file, in place of one with the same name. Raises NotStored: nothing was changed."""
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
    """The file's bytes. Raises OSError: it does not exist or can't be read."""
    with default_storage.open(name) as file:
        return bytes(file.read())


def delete(name: str) -> None:
    """Delete the file if it exists. A file that can't be deleted only occupies space, and is logged."""
    try:
        default_storage.delete(name)
    except OSError as error:
        logger.warning("a file could not be deleted", extra={"file": name, **reason(error)})


@functools.lru_cache(maxsize=4096)
def warn_unreadable(name: str) -> None:
    """Log a warning, once for each file and process."""
    logger.warning("a picture can't be read", extra={"file": name})


def reason(error: OSError) -> dict[str, str | None]:
    """Fields of a log line that name the error without the file's path."""
    return {"kind": type(error).__name__, "code": errno.errorcode.get(error.errno or 0)}
