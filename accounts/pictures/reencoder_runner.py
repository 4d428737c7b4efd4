"""Make small pictures from uploads, one at a time on each machine, in a separate process with limited memory.

Specification 2.4; D16. The process runs accounts.pictures.reencoder.
"""

from __future__ import annotations

import fcntl
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
from accounts.pictures import accepted_pictures, reencoder
from accounts.pictures.upload_handler import temporary_file

SIZE_PIXELS = 256

# A thread waits at most WAIT_SECONDS while another worker reads a picture. WAIT_SECONDS and RUN_SECONDS together are
# shorter than the timeout in the documented configuration of nginx.
WAIT_SECONDS = 10.0
RUN_SECONDS = 20.0
POLL_SECONDS = 0.05
RETRY_AFTER_SECONDS = 10
# The program gets only the environment variables in PASSED_ON, which Python needs to find its libraries. For example,
# the program does not get SECRET_KEY.
PASSED_ON = ("LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")

# Only the thread that holds `_one_here` waits for the lock of the machine. Other threads stay free for other requests.
_one_here = threading.Lock()


class Busy(Exception):
    """The picture was not read, because other pictures are being read."""


@dataclass(frozen=True)
class Crop:
    """The square part of a picture that becomes the new picture.

    The side of the part is the shorter side of the picture divided by `zoom` (1 or more). `x` and `y` give the position
    of the part: 0 at the left or top, 1 at the right or bottom.
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
    """Return a part of an upload as a square PNG, `size` pixels wide: upright, in sRGB and without metadata.

    Call `count` with the CPU time in seconds (at least 1), even if the picture is refused.

    Raises FormError: the upload has more than 25 MB or too many pixels, is not a picture, takes too much CPU time, or
    is a LostUpload. Raises FormError with the code `busy` and the parameter `seconds`: other pictures are being read.
    """
    accepted_pictures.check(upload)
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
        raise accepted_pictures.refusal(status)
    return picture


def busy() -> FormError:
    return FormError(AccountFault.PICTURES_BUSY, "busy", seconds=RETRY_AFTER_SECONDS)


def _cpu_seconds() -> float:
    """Return the CPU time of all programs that this process has run. Only one thread at a time runs a program."""
    times = os.times()
    return times.children_user + times.children_system


def _run(source: IO[bytes], result: IO[bytes], lock: IO[bytes], size: int, crop: Crop) -> int:
    """Run the program and return its exit status, or -SIGXCPU if it was killed after RUN_SECONDS."""
    command = [sys.executable, "-m", "accounts.pictures.reencoder", *map(str, (size, crop.zoom, crop.x, crop.y))]
    try:
        return subprocess.run(  # noqa: S603  (numbers of ours)
            command,
            stdin=source,
            stdout=result,
            stderr=subprocess.DEVNULL,
            cwd=settings.BASE_DIR,
            env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
            # The program inherits the lock, so no second program starts before the first ends, even if this worker is
            # killed.
            pass_fds=(lock.fileno(),),
            timeout=RUN_SECONDS,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        return -signal.SIGXCPU


@contextmanager
def _turn() -> Iterator[IO[bytes]]:
    """Hold the lock of this machine. The locked file is a module of this package, so no lock file is needed.

    One thread of each process waits for the lock, for at most WAIT_SECONDS. Raises Busy: the wait was too long, or
    another thread of the process waits for the lock or holds it.
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
    """Yield the upload as an open file, positioned at its beginning. If the upload is in memory, copy it to a file."""
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
