"""The files of an earlier version, which are in the history of the checkout, and those of the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.server import ROOT

INITIAL_MIGRATIONS = ("accounts/migrations/0001_initial.py", "oauth_bridge/migrations/0001_initial.py")


def unpack(folder: Path) -> None:
    """Write the files of the first version with the present initial migrations into the folder.

    Raises AssertionError: the clone does not reach back to it.
    """
    first = _git("log", "-1", "--format=%H", "--", *INITIAL_MIGRATIONS).stdout.decode().strip()
    archive = _git("archive", "--format=tar", first)
    assert archive.returncode == 0, f"git fetch --unshallow: {archive.stderr.decode()}"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--extract"], input=archive.stdout, cwd=folder, check=True)


def copy_checkout(folder: Path) -> None:
    """Write the files of this checkout into the folder, also those that are not committed."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard").stdout.decode().split("\0")
    for name in listed:
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Runs git in the checkout, whoever owns its files."""
    command = ["git", "-c", f"safe.directory={ROOT}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
