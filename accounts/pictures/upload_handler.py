"""Receive forms with files, and enforce limits. If a file is refused, the other fields are still received."""

from __future__ import annotations

import errno
import io
import logging
import tempfile
from contextlib import suppress
from typing import IO, Any

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http.multipartparser import MultiPartParser, MultiPartParserError

# Limits for the headers of one part of a multipart form. Django itself refuses headers of more than
# PART_HEADERS_MAX_BYTES. The time of Python's email parser grows with the square of the number of semicolons: 0.02 ms
# for 64 semicolons, 2 ms for 900. Browsers send three semicolons.
PART_HEADERS_MAX_BYTES, PART_MAX_SEMICOLONS = 1024, 64

logger = logging.getLogger(__name__)


def temporary_file() -> IO[bytes]:
    """Open a file without a name. The system deletes the file when the process ends, even if a signal ends it."""
    return tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)


class LostUpload(UploadedFile):
    """An upload that could not be written to the disk."""


class CheckedParts:
    """The body of a multipart form. `read` raises MultiPartParserError before Django parses an expensive part.

    Django parses the bytes between two separators as a part, and also the bytes before the first separator.
    """

    def __init__(self, stream: Any, boundary: bytes) -> None:
        self.stream = stream
        self.separator = b"--" + boundary
        self.kept = self.separator  # headers or a separator may continue in the next bytes

    def read(self, size: int | None = None) -> bytes:
        data: bytes = self.stream.read(size)
        checked_before, *parts = (self.kept + data).split(self.separator)
        for part in parts:
            if part[:PART_HEADERS_MAX_BYTES].partition(b"\r\n\r\n")[0].count(b";") > PART_MAX_SEMICOLONS:
                raise MultiPartParserError("the headers of a part have too many parameters")
        last = parts[-1] if parts else checked_before
        is_unfinished = bool(parts) and len(last) < PART_HEADERS_MAX_BYTES
        self.kept = self.separator + last if is_unfinished else last[1 - len(self.separator) :]
        return data


class BoundedUploadHandler(FileUploadHandler):
    """Writes at most PICTURE_MAX_BYTES of a file to disk, but reports the size of the whole file.

    The form still receives its other fields, so the page can name the error and keep the typed values. If the disk
    cannot store a temporary file, the form gets a LostUpload.

    The temporary file has no name. In Django's handler, a long file extension causes an error, because the name of the
    temporary file contains it.
    """

    _is_lost = False

    def handle_raw_input(
        self, input_data: Any, META: Any, content_length: int, boundary: Any, encoding: str | None = None
    ) -> tuple[Any, Any] | None:
        """Parse the form as Django does, but read the body through CheckedParts."""
        if isinstance(input_data, CheckedParts):
            return None  # the parser below calls this method again
        checked: Any = CheckedParts(input_data, boundary)
        return MultiPartParser(META, checked, [self], encoding).parse()

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        self._is_lost = False
        about = self.file_name, self.content_type, 0, self.charset, self.content_type_extra
        try:
            self.file = UploadedFile(temporary_file(), *about)
        except OSError as error:
            self._lose(error)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start < settings.PICTURE_MAX_BYTES and not self._is_lost:
            try:
                self.file.write(raw_data[: settings.PICTURE_MAX_BYTES - start])
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
        logger.error("an upload could not be received", extra=_reason(error))
        if unfinished is not None:
            with suppress(OSError):  # `close` writes the remaining bytes; this write fails again
                unfinished.close()


def _reason(error: OSError) -> dict[str, str | None]:
    """Return log fields that describe the error without the path of the file."""
    return {"kind": type(error).__name__, "code": errno.errorcode.get(error.errno or 0)}
