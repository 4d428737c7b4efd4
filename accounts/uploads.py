"""Receiving uploaded files: bounded, and without a failure of the whole form."""

from __future__ import annotations

import io
import logging
from contextlib import suppress
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import TemporaryFileUploadHandler

from accounts.media import reason

UPLOAD_MAX_BYTES = 25 * 1024 * 1024  # photos of telephones

logger = logging.getLogger(__name__)


class LostUpload(UploadedFile):
    """A received file that could not be written to the disk."""


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Writes at most UPLOAD_MAX_BYTES of a file to disk, and reports its true size.

    The other fields of the form are received, so the page can name the error and keep what was typed. When the disk
    can't store a temporary file, the form gets a LostUpload.
    """

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        self._is_lost = False
        try:
            super().new_file(*args, **kwargs)
        except OSError as error:
            self._lose(error)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start < UPLOAD_MAX_BYTES and not self._is_lost:
            try:
                return super().receive_data_chunk(raw_data[: UPLOAD_MAX_BYTES - start], start)
            except OSError as error:
                self._lose(error, self.file)
        return None

    def file_complete(self, file_size: int) -> UploadedFile | None:
        if not self._is_lost:
            try:
                return super().file_complete(file_size)
            except OSError as error:
                self._lose(error, self.file)
        return LostUpload(io.BytesIO(), name=self.file_name, size=file_size)

    def _lose(self, error: OSError, unfinished: UploadedFile | None = None) -> None:
        self._is_lost = True
        logger.error("an upload could not be received", extra=reason(error))
        if unfinished is not None:
            with suppress(OSError):  # closing writes what is left, which fails again
                unfinished.close()
