"""Keep pictures in a store with the API of Amazon S3.

PICTURES must be an `s3:` URL, and the extra `s3` must be installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files.base import ContentFile, File
from storages.backends.s3 import S3Storage

# Timeouts in seconds. A store that does not answer occupies a thread of a worker for at most six seconds.
TIMES = Config(connect_timeout=2, read_timeout=4, retries={"total_max_attempts": 1})


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Raise errors of the store as OSError, as a file system does. A missing file already raises FileNotFoundError."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise OSError(type(error).__name__) from error


class PictureStorage(S3Storage):
    """django-storages' backend with the timeouts above. Files are read whole, because they have at most a megabyte."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(client_config=TIMES, file_overwrite=True, default_acl=None, **settings)

    def exists(self, name: str) -> bool:
        with _as_os_error():
            return bool(super().exists(name))

    def delete(self, name: str) -> None:
        with _as_os_error():
            super().delete(name)

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        with _as_os_error():
            folders, files = super().listdir(path)
            return folders, files

    def open(self, name: str, mode: str = "rb") -> File[Any]:
        with _as_os_error(), super().open(name, mode) as file:
            return ContentFile(file.read(), name=name)

    def save(self, name: str | None, content: Any, max_length: int | None = None) -> str:
        with _as_os_error():
            return str(super().save(name, content, max_length))
