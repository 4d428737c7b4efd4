"""Read and write pictures of people and logos of applications, which are rows of the database.

All servers share the rows, and each backup contains them.
"""

from __future__ import annotations

from accounts.models import StoredPicture


def store(name: str, content: bytes) -> None:
    """Store the picture under a new name, such as `avatars/….png`."""
    StoredPicture.objects.create(name=name, content=content)


def read(name: str) -> bytes | None:
    """Return the content of the picture, or None if no row has the name."""
    content = StoredPicture.objects.filter(name=name).values_list("content", flat=True).first()
    return None if content is None else bytes(content)


def delete(name: str) -> None:
    """Delete the picture if it exists."""
    StoredPicture.objects.filter(name=name).delete()
