"""Read and write the files of pictures and logos, in the store that `PICTURES` names.

Releases up to 0.1 kept the files in the folder MEDIA_ROOT. Files that were not moved are still read from MEDIA_ROOT.
"""

from __future__ import annotations

import errno
import functools
import logging
from collections.abc import Iterator

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage, Storage, default_storage

FOLDERS = ("avatars", "logos")

logger = logging.getLogger(__name__)


class NotStored(Exception):
    """The store did not accept the file. The log contains the reason."""


def store(name: str, content: bytes) -> None:
    """Write the file, or replace the file of the same name. Raises NotStored: nothing was changed."""
    try:
        default_storage.save(name, ContentFile(content))
    except OSError as error:
        logger.error("a file could not be stored", extra=reason(error))
        raise NotStored from error


def read(name: str) -> bytes:
    """Return the content of the file. Raises OSError: the file does not exist or cannot be read."""
    try:
        return _content(default_storage, name)
    except FileNotFoundError:
        return _content(media_folder(), name)


def delete(name: str) -> None:
    """Delete the file if it exists. A failed deletion is only logged, because the file does no harm."""
    for storage in (default_storage, media_folder()):
        try:
            storage.delete(name)
        except OSError as error:
            logger.warning("a file could not be deleted", extra={"file": name, **reason(error)})


def copy(source: Storage) -> Iterator[str]:
    """Copy the files of `source` that the current store lacks. Yield the name of each file of `source`.

    Raises OSError: a store does not answer.
    """
    for folder in FOLDERS:
        present = set(_names(default_storage, folder))
        for name in _names(source, folder):
            if name not in present:
                default_storage.save(name, ContentFile(_content(source, name)))
            yield name


def media_folder() -> FileSystemStorage:
    """Return the folder MEDIA_ROOT, where earlier releases kept the files."""
    return FileSystemStorage(settings.MEDIA_ROOT)


def _names(storage: Storage, folder: str) -> list[str]:
    try:
        return sorted(f"{folder}/{name}" for name in storage.listdir(folder)[1] if name.endswith(".png"))
    except FileNotFoundError:
        return []


def _content(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return bytes(file.read())


@functools.lru_cache(maxsize=4096)
def warn_unreadable(name: str) -> None:
    """Log a warning about the file, once in each process."""
    logger.warning("a picture can't be read", extra={"file": name})


def reason(error: OSError) -> dict[str, str | None]:
    """Return log fields that describe the error without the path of the file."""
    return {"kind": type(error).__name__, "code": errno.errorcode.get(error.errno or 0)}
