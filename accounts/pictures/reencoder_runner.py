"""Receive uploads, and make small pictures from them in a separate process: accounts.pictures.reencoder."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.core.cache import cache
from django.core.exceptions import BadRequest
from django.core.files.base import File
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from accounts.errors import AccountFault, FormError
from accounts.models import User
from accounts.pictures import reencoder
from config.infrastructure import rate_limits
from config.infrastructure.rate_limits import Counter

SIZE_PIXELS = 256
MAX_MEGAPIXELS = 50
ACCEPTED_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"]

RUN_SECONDS = 20.0  # shorter than the timeout in the documented configuration of nginx
RETRY_AFTER_SECONDS = 10
COSTLY_COUNTS_AS = 6  # pictures
# Of one part of a multipart form. Django itself refuses headers of more than PART_HEADERS_MAX_BYTES. The time of
# Python's email parser grows with the square of the number of semicolons: 2 ms for 900. Browsers send three.
PART_HEADERS_MAX_BYTES, PART_MAX_SEMICOLONS = 1024, 64
# The program gets only these variables, which Python needs to find its libraries, and not SECRET_KEY.
PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")

logger = logging.getLogger(__name__)
# One thread of a process reads a picture and two wait. Other threads stay free for other requests.
_one_here, _places = threading.Lock(), threading.BoundedSemaphore(3)


# By exit status. After any other, a decoder has crashed, or memory or disk was full.
FAULTS = {
    reencoder.TOO_MANY_PIXELS: AccountFault.PICTURE_TOO_MANY_PIXELS,
    reencoder.TOO_COSTLY: AccountFault.PICTURE_TOO_COSTLY,
    -signal.SIGXCPU: AccountFault.PICTURE_TOO_COSTLY,
    reencoder.NOT_A_PICTURE: AccountFault.NOT_A_PICTURE,
}

Part = tuple[float, float, float]  # zoom, x and y of `reencoder.square`
MIDDLE: Part = (1, 0.5, 0.5)


def reencode(upload: File[Any], person: User, part: Part = MIDDLE) -> bytes:
    """Return a part of an upload as an upright, square PNG in sRGB, without metadata. Raises FormError."""
    if upload.size > settings.PICTURE_MAX_BYTES:
        raise FormError(AccountFault.PICTURE_TOO_LARGE, count=settings.PICTURE_MAX_BYTES // 1024**2)
    counters = [Counter(name, str(person.pk)) for name in ("picture", "picture_hour")]
    with _turn(person):
        if seconds := rate_limits.attempt(*counters):
            raise FormError(AccountFault.PICTURES_LIMITED, seconds=seconds)
        status, picture = _run(upload, part)
    if status == reencoder.DONE:
        return picture
    fault = FAULTS.get(status, AccountFault.PICTURE_FAILED)
    if fault is AccountFault.PICTURE_TOO_COSTLY:
        rate_limits.count(*counters * (COSTLY_COUNTS_AS - 1))
    elif fault is AccountFault.PICTURE_FAILED:
        logger.error("a picture could not be read", extra={"code": status})
    raise FormError(fault, count=MAX_MEGAPIXELS)


@contextmanager
def _turn(person: User) -> Iterator[None]:
    """Read one upload at a time. Raises FormError if two wait, or if the person has another unfinished upload."""
    mark = f"picture:{person.pk}"
    is_only_one = cache.add(mark, True, 3 * RUN_SECONDS)
    is_free = is_only_one and _places.acquire(blocking=False)
    try:
        if not is_free:
            raise FormError(AccountFault.PICTURES_BUSY, seconds=RETRY_AFTER_SECONDS)
        with _one_here:
            yield
    finally:
        if is_free:
            _places.release()
        if is_only_one:
            cache.delete(mark)


def _run(upload: File[Any], part: Part) -> tuple[int, bytes]:
    command = [sys.executable, "-m", "accounts.pictures.reencoder", *map(str, (SIZE_PIXELS, *part))]
    folder = settings.FILE_UPLOAD_TEMP_DIR
    try:
        with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as result:
            upload.seek(0)
            shutil.copyfileobj(upload, source)
            source.seek(0)
            status = subprocess.run(  # noqa: S603  (numbers of ours)
                command,
                stdin=source,
                stdout=result,
                stderr=subprocess.DEVNULL,
                cwd=settings.BASE_DIR,
                env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                timeout=RUN_SECONDS,
                check=False,
            ).returncode
            result.seek(0)
            return status, result.read(reencoder.MAX_RESULT_BYTES)
    except subprocess.TimeoutExpired:
        return -signal.SIGXCPU, b""
    except OSError as error:
        return 1000 + (error.errno or 0), b""


class CheckedParts:
    """The body of a multipart form. `read` raises BadRequest for headers that Django would take long to parse."""

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
    """Stores at most one chunk more than PICTURE_MAX_BYTES. Reports the full size, so the form can refuse the file."""

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, boundary: Any, *rest: Any) -> None:
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
