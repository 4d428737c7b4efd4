"""The files of pictures and logos, in the store that `PICTURES` names. A file that cannot be read is logged.

Releases up to 0.1 kept the files in the folder MEDIA_ROOT. A file that was not moved is still read there.
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
    """The store does not accept the file. The log says why."""


def store(name: str, content: bytes) -> None:
    """Write the file, or replace one of the same name. Raises NotStored: nothing was changed."""
    try:
        default_storage.save(name, ContentFile(content))
    except OSError as error:
        logger.error("a file could not be stored", extra=reason(error))
        raise NotStored from error


def read(name: str) -> bytes:
    """The file's bytes. Raises OSError: it does not exist or can't be read."""
    try:
        return _content(default_storage, name)
    except FileNotFoundError:
        return _content(media_folder(), name)


def delete(name: str) -> None:
    """Delete the file if it exists. A file that cannot be deleted is logged; it only occupies space."""
    for storage in (default_storage, media_folder()):
        try:
            storage.delete(name)
        except OSError as error:
            logger.warning("a file could not be deleted", extra={"file": name, **reason(error)})


def copy(source: Storage) -> Iterator[str]:
    """Copy the files that only the other store has, and yield the name of each file of the present store.

    Raises OSError: one of the stores does not answer.
    """
    for folder in FOLDERS:
        present = set(_names(default_storage, folder))
        for name in _names(source, folder):
            if name not in present:
                default_storage.save(name, ContentFile(_content(source, name)))
            yield name


def media_folder() -> FileSystemStorage:
    """The folder MEDIA_ROOT, where earlier releases kept the files."""
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
    """Log a warning, once for each file and process."""
    logger.warning("a picture can't be read", extra={"file": name})


def reason(error: OSError) -> dict[str, str | None]:
    """Fields of a log line that name the error without the file's path."""
    return {"kind": type(error).__name__, "code": errno.errorcode.get(error.errno or 0)}
