"""Receiving uploaded files: bounded, and without a failure of the whole form."""

from __future__ import annotations

import io
import logging
import tempfile
from contextlib import suppress
from typing import IO, Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from accounts.media import reason

UPLOAD_MAX_BYTES = 25 * 1024 * 1024  # photos of telephones

logger = logging.getLogger(__name__)


def temporary_file() -> IO[bytes]:
    """A file without a name. It ends with the process, even if that is killed."""
    return tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)


class LostUpload(UploadedFile):
    """A received file that could not be written to the disk."""


class BoundedUploadHandler(FileUploadHandler):
    """Writes at most UPLOAD_MAX_BYTES of a file to disk, and reports its true size.

    The other fields of the form are received, so the page can name the error and keep what was typed. When the disk
    can't store a temporary file, the form gets a LostUpload.

    Unlike that of Django's handler, the temporary file has no name, so a long ending of the sent one does no harm.
    """

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._is_lost = False
        about = self.file_name, self.content_type, 0, self.charset, self.content_type_extra
        try:
            self.file = UploadedFile(temporary_file(), *about)
        except OSError as error:
            self._lose(error)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start < UPLOAD_MAX_BYTES and not self._is_lost:
            try:
                self.file.write(raw_data[: UPLOAD_MAX_BYTES - start])
            except OSError as error:
                self._lose(error, self.file)
        return None

    def file_complete(self, file_size: int) -> UploadedFile | None:
        if not self._is_lost:
            try:
                self.file.seek(0)
            except OSError as error:
                self._lose(error, self.file)
            else:
                self.file.size = file_size
                return self.file
        return LostUpload(io.BytesIO(), name=self.file_name, size=file_size)

    def upload_interrupted(self) -> None:
        if not self._is_lost:
            with suppress(OSError):
                self.file.close()

    def _lose(self, error: OSError, unfinished: UploadedFile | None = None) -> None:
        self._is_lost = True
        logger.error("an upload could not be received", extra=reason(error))
        if unfinished is not None:
            with suppress(OSError):  # closing writes what is left, which fails again
                unfinished.close()
