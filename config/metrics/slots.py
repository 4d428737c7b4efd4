"""Each worker counts in files of its own, and takes over those of a worker that has ended.

So the counts outlive a worker, and there are never more files than there were workers at once. A slot is a number; the
kernel releases its lock when the worker ends, however it ends.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from io import TextIOWrapper
from pathlib import Path

# The kernel kills a process that writes to a mapped file when the disk is full, so the space is taken at the start.
# prometheus_client's names: the kind, for gauges the mode, the process. A test counts what all routes need.
BYTES = {"counter": 1 << 20, "histogram": 4 << 20, "gauge_livesum": 1 << 16}

_held: list[TextIOWrapper] = []


def claim(folder: Path) -> int:
    """The lowest number that no living worker has. It is this process's until the process ends.

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
    """Remove the present state of workers that have ended, and return how many live. Their counts stay."""
    living = 0
    for path in folder.glob("*.lock"):
        if lock := _lock(path):
            _forget_present(folder, int(path.stem))
            lock.close()
        else:
            living += 1
    return living


def _lock(path: Path) -> TextIOWrapper | None:
    """The open file, locked; None while another process has it."""
    file = path.open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _forget_present(folder: Path, slot: int) -> None:
    (folder / f"gauge_livesum_{slot}.db").unlink(missing_ok=True)
