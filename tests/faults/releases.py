"""The files of the last release, which are in the history of the checkout, and those of the checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.server import ROOT

LAST = "45078e3e8414f8061935a1e747b3dae29c54e3d7"  # 0.2.0


def unpack(folder: Path) -> None:
    """Write the files of the release into the folder. Raises AssertionError: the clone does not reach back to it."""
    archive = _git("archive", "--format=tar", LAST)
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
