"""How files are received."""

from __future__ import annotations

from django.core.files.uploadhandler import TemporaryFileUploadHandler

UPLOAD_MAX_BYTES = 5 * 1024 * 1024


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Writes at most `UPLOAD_MAX_BYTES` of a file to disk, and still knows its true size.

    The rest of the form arrives whole, so the page can say what was wrong without losing what was typed.
    """

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes | None:
        if start < UPLOAD_MAX_BYTES:
            return super().receive_data_chunk(raw_data[: UPLOAD_MAX_BYTES - start], start)
        return None
