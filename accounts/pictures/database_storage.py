"""Store pictures in the database, which all servers share and each backup contains (`PICTURES=database`)."""

from __future__ import annotations

from typing import Any

from django.core.files.base import ContentFile, File
from django.core.files.storage import Storage
from django.utils.deconstruct import deconstructible

from accounts.models import StoredPicture


@deconstructible
class DatabaseStorage(Storage):
    """Stores files as rows of StoredPicture. A new file replaces the file of the same name.

    Raises FileNotFoundError: no file has this name. Like every statement, can raise DatabaseError.
    """

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def exists(self, name: str) -> bool:
        return StoredPicture.objects.filter(name=name).exists()

    def delete(self, name: str) -> None:
        StoredPicture.objects.filter(name=name).delete()

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        """Return an empty list of folders, and the names of the files in the folder `path`."""
        begin = f"{path}/"
        names = StoredPicture.objects.filter(name__startswith=begin).values_list("name", flat=True)
        return [], [name.removeprefix(begin) for name in names]

    def _open(self, name: str, mode: str = "rb") -> File[Any]:
        content = StoredPicture.objects.filter(name=name).values_list("content", flat=True).first()
        if content is None:
            raise FileNotFoundError(name)
        return ContentFile(bytes(content), name=name)

    def _save(self, name: str, content: File[Any]) -> str:
        StoredPicture.objects.update_or_create(name=name, defaults={"content": content.read()})
        return name
