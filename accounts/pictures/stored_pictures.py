"""Read and write pictures of people and logos of applications, which are rows of the database.

All servers share the rows, and each backup contains them.
"""

from __future__ import annotations

import functools
import logging

from accounts.models import StoredPicture

logger = logging.getLogger(__name__)


def store(name: str, content: bytes) -> None:
    """Store the picture, or replace the picture of the same name."""
    StoredPicture.objects.update_or_create(name=name, defaults={"content": content})


def read(name: str) -> bytes | None:
    """Return the content of the picture, or None if no row has the name."""
    content = StoredPicture.objects.filter(name=name).values_list("content", flat=True).first()
    return None if content is None else bytes(content)


def delete(name: str) -> None:
    """Delete the picture if it exists."""
    StoredPicture.objects.filter(name=name).delete()


@functools.lru_cache(maxsize=4096)
def warn_missing(name: str) -> None:
    """Log a warning about the picture, once in each process."""
    logger.warning("a picture can't be read", extra={"file": name})
