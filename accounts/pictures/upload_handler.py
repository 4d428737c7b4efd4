"""Receive forms with files, and limit the size of a file and the parameters of a part."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

# Limits for the headers of one part of a multipart form. Django itself refuses headers of more than
# PART_HEADERS_MAX_BYTES. The time of Python's email parser grows with the square of the number of semicolons: 0.02 ms
# for 64 semicolons, 2 ms for 900. Browsers send three semicolons.
PART_HEADERS_MAX_BYTES, PART_MAX_SEMICOLONS = 1024, 64


class CheckedParts:
    """The body of a multipart form. `read` raises BadRequest before Django parses an expensive part.

    Django parses the bytes between two separators as a part, and also the bytes before the first separator.
    """

    def __init__(self, source: Callable[[int | None], bytes], boundary: bytes) -> None:
        self.source = source
        self.separator = b"--" + boundary
        self.kept = self.separator  # headers or a separator may continue in the next bytes

    def read(self, size: int | None = None) -> bytes:
        data = self.source(size)
        checked_before, *parts = (self.kept + data).split(self.separator)
        for part in parts:
            if part[:PART_HEADERS_MAX_BYTES].partition(b"\r\n\r\n")[0].count(b";") > PART_MAX_SEMICOLONS:
                raise BadRequest("the headers of a part have too many parameters")
        last = parts[-1] if parts else checked_before
        is_unfinished = bool(parts) and len(last) < PART_HEADERS_MAX_BYTES
        self.kept = self.separator + last if is_unfinished else last[1 - len(self.separator) :]
        return data


class BoundedUploadHandler(FileUploadHandler):
    """Writes the beginning of a file to disk, up to PICTURE_MAX_BYTES, but reports the size of the whole file.

    The form refuses the file by its size, and still receives its other fields. The temporary file has no name, so the
    system deletes it when the process ends, even if a signal ends it.
    """

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, boundary: Any, *rest: Any) -> None:
        """Let Django parse the form, but read the request through CheckedParts."""
        input_data.read = CheckedParts(input_data.read, boundary).read

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        super().new_file(*args, **kwargs)
        file = tempfile.TemporaryFile(dir=settings.FILE_UPLOAD_TEMP_DIR)  # noqa: SIM115 - the request closes it
        self.file = UploadedFile(file, self.file_name)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start < settings.PICTURE_MAX_BYTES:
            self.file.write(raw_data)
        return None

    def file_complete(self, file_size: int) -> UploadedFile:
        self.file.seek(0)
        self.file.size = file_size
        return self.file
