"""The files in which each worker stores its metrics. A new worker takes over the files of a worker that has ended.

So the counts survive the end of a worker, and there are at most as many sets of files as simultaneous workers. The
number of a set is its slot. A worker locks its slot. The kernel releases the lock when the worker ends, even if a
signal kills the worker.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from io import TextIOWrapper
from pathlib import Path

# The kernel kills a process that writes to a mapped file on a full disk, so the space is reserved at the start.
# prometheus_client names each file after the kind of metric, the mode (of gauges) and the process. A test checks that
# the space suffices for all routes.
BYTES = {"counter": 1 << 20, "histogram": 4 << 20, "gauge_livesum": 1 << 16}

_held: list[TextIOWrapper] = []


def claim(folder: Path) -> int:
    """Take the lowest slot that no running worker has. This process keeps the slot until it ends.

    Raises OSError: there is no space for the files.
    """
    for slot in itertools.count():
        if lock := _lock(folder / f"{slot}.lock"):
            _held.append(lock)
            _forget_present(folder, slot)
            for kind, size in BYTES.items():
                with (folder / f"{kind}_{slot}.db").open("ab") as file:
                    os.posix_fallocate(file.fileno(), 0, size)
            return slot
    raise AssertionError


def forget_ended(folder: Path) -> int:
    """Remove the gauges of workers that have ended, but not their counts. Return the number of running workers."""
    living = 0
    for path in folder.glob("*.lock"):
        if lock := _lock(path):
            _forget_present(folder, int(path.stem))
            lock.close()
        else:
            living += 1
    return living


def _lock(path: Path) -> TextIOWrapper | None:
    """Open and lock the file. Return None if another process has locked it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _forget_present(folder: Path, slot: int) -> None:
    (folder / f"gauge_livesum_{slot}.db").unlink(missing_ok=True)
