"""`manage.py move-pictures SOURCE`: move pictures and logos into the store that `PICTURES` names."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.files.storage import FileSystemStorage, Storage, storages
from django.core.management.base import BaseCommand, CommandError

from accounts.pictures import stored_files
from config import object_store


class Command(BaseCommand):
    help = (
        "Move pictures and logos from another store into the one that PICTURES names, while the service runs. Can be "
        "stopped and run again at any time."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", help="a folder such as that of MEDIA_ROOT, database, or s3://…, as in PICTURES")

    def handle(self, *args: Any, source: str, **options: Any) -> None:
        """Copy each file into the store, then delete the file from the source.

        Raises CommandError: the source is malformed, or is the present store, or one of the stores does not answer.
        """
        count, storage = 0, _storage(source)
        try:
            for name in stored_files.copy(storage):
                storage.delete(name)
                count += 1
        except OSError as error:
            raise CommandError(f"{count:,} pictures are moved, and the next could not be ({error}).") from None
        self.stdout.write(f"{count:,} pictures are moved.")


def _storage(source: str) -> Storage:
    if source.startswith("/"):
        if not Path(source).is_dir():
            raise CommandError(f"{source} is not a folder.")
        return FileSystemStorage(source)
    try:
        entry = object_store.storage(source)
    except ValueError:
        raise CommandError(f"The source must be the full path of a folder, {object_store.FORM}.") from None
    except ImproperlyConfigured as error:
        raise CommandError(str(error)) from None
    if entry == settings.STORAGES["default"]:
        raise CommandError("This is the store that PICTURES names. Name the one to move pictures from.")
    return storages.create_storage(entry)
