"""Makes small pictures of uploads: one at a time on a machine, in a separate process with bounded memory.

Specification 2.4; D16. The program of that process is accounts.pictures.reencoder.
"""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import IO, Any

from django.conf import settings
from django.core.files.base import File

from accounts.errors import AccountFault, FormError
from accounts.pictures import reencoder
from accounts.pictures.uploads import UPLOAD_MAX_BYTES, LostUpload, temporary_file

SIZE_PIXELS = 256
MAX_MEGAPIXELS = 50
HEIC_IS_ACCEPTED = importlib.util.find_spec("pillow_heif") is not None
ACCEPTED_TYPES = ["image/jpeg", "image/png", "image/gif", "image/webp"]
if HEIC_IS_ACCEPTED:
    ACCEPTED_TYPES += ["image/heic", "image/heif"]

# The longest wait while another worker reads a picture. Waiting and running take less time than the documented nginx
# allows.
WAIT_SECONDS = 10.0
RUN_SECONDS = 20.0
POLL_SECONDS = 0.05
RETRY_AFTER_SECONDS = 10
# The variables with which Python finds itself and its packages. The program gets no others, such as SECRET_KEY.
PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")

logger = logging.getLogger(__name__)
# The lock keeps the other threads of this process free for other requests.
_one_here = threading.Lock()


class Busy(Exception):
    """The picture was not read, because other pictures are being read."""


@dataclass(frozen=True)
class Crop:
    """The square part of a picture that is kept.

    Its side is the shorter side of the picture divided by `zoom` (1 or more). `x` and `y` are 0 at the left or top, 1
    at the right or bottom.
    """

    zoom: float = 1
    x: float = 0.5
    y: float = 0.5


MIDDLE = Crop()


def reencode(
    upload: File[Any],
    size: int = SIZE_PIXELS,
    crop: Crop = MIDDLE,
    count: Callable[[int], None] = lambda _seconds: None,
) -> bytes:
    """A square PNG, `size` pixels wide, of a part of an uploaded picture: upright, in sRGB and without metadata.

    `count` is called with the CPU time in seconds (at least 1), also for a refused picture.

    Raises FormError: more than 25 MB, too many pixels, not a picture, too much CPU time, a LostUpload. With the code
    `busy` and the parameter `seconds`: other pictures are being read.
    """
    if isinstance(upload, LostUpload):
        raise FormError(AccountFault.PICTURE_LOST, "lost")
    if upload.size > UPLOAD_MAX_BYTES:
        raise FormError(AccountFault.PICTURE_TOO_LARGE, "too_large", count=UPLOAD_MAX_BYTES // 1024**2)
    try:
        with _turn() as lock, _on_disk(upload) as source, temporary_file() as result:
            before = _cpu_seconds()
            status = _run(source, result, lock, size, crop)
            count(max(1, ceil(_cpu_seconds() - before)))
            result.seek(0)
            picture = result.read(reencoder.MAX_RESULT_BYTES)
    except Busy:
        raise busy() from None
    except OSError as error:
        status, picture = error.errno or -1, b""
    if status != reencoder.DONE:
        raise _refusal(status)
    return picture


def busy() -> FormError:
    return FormError(AccountFault.PICTURES_BUSY, "busy", seconds=RETRY_AFTER_SECONDS)


def _cpu_seconds() -> float:
    """CPU time of the programs that this process has run. Only the thread with the lock of `_turn` runs a program."""
    times = os.times()
    return times.children_user + times.children_system


def _run(source: IO[bytes], result: IO[bytes], lock: IO[bytes], size: int, crop: Crop) -> int:
    """The exit status of the program; -SIGXCPU for a program that was killed after RUN_SECONDS."""
    command = [sys.executable, "-m", "accounts.pictures.reencoder", *map(str, (size, crop.zoom, crop.x, crop.y))]
    try:
        return subprocess.run(  # noqa: S603  (numbers of ours)
            command,
            stdin=source,
            stdout=result,
            stderr=subprocess.DEVNULL,
            cwd=settings.BASE_DIR,
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            # The program holds the lock, so no other one starts while it runs, even if this worker is killed.
            pass_fds=(lock.fileno(),),
            timeout=RUN_SECONDS,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return -signal.SIGXCPU


@contextmanager
def _turn() -> Iterator[IO[bytes]]:
    """The lock of this machine, on a read-only file of this package, so that no file is created. Raises Busy.

    One thread of a process waits for the lock, at most WAIT_SECONDS. The other threads get Busy at once.
    """
    if not _one_here.acquire(blocking=False):
        raise Busy
    try:
        with open(reencoder.__file__, "rb") as lock:
            until = time.monotonic() + WAIT_SECONDS
            while not _locked(lock):
                if time.monotonic() > until:
                    raise Busy
                time.sleep(POLL_SECONDS)
            yield lock
    finally:
        _one_here.release()


def _locked(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _on_disk(upload: File[Any]) -> Iterator[IO[bytes]]:
    """The upload as an open file, at its beginning. An upload in memory is copied to a file first."""
    upload.seek(0)
    try:
        descriptor = upload.fileno()
    except OSError:
        with temporary_file() as copy:
            shutil.copyfileobj(upload, copy)
            copy.seek(0)
            yield copy
    else:
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield upload


def _refusal(status: int) -> FormError:
    if status == reencoder.TOO_MANY_PIXELS:
        return FormError(AccountFault.PICTURE_TOO_MANY_PIXELS, "too_many_pixels", count=MAX_MEGAPIXELS)
    if status in (reencoder.TOO_COSTLY, -signal.SIGXCPU):
        return FormError(AccountFault.PICTURE_TOO_COSTLY, "too_costly")
    if status == reencoder.NOT_A_PICTURE:
        return FormError(AccountFault.NOT_A_PICTURE, "not_a_picture")
    # Causes: a decoder that crashed, the system's out-of-memory killer, a full disk.
    logger.error("a picture could not be read", extra={"code": status})
    return FormError(AccountFault.PICTURE_FAILED, "failed")
