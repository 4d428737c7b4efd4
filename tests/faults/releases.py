"""The last release, which tests/faults/releases.toml names, and its files. They are in the history of the checkout.

A release is the commit that writes its heading, with a date, into CHANGELOG.md.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.server import ROOT


@dataclass(frozen=True)
class Release:
    version: str
    fails: dict[str, str]  # what an upgrade from it breaks today: the check, and the reason


def last() -> Release:
    return Release(**tomllib.loads((ROOT / "tests" / "faults" / "releases.toml").read_text(encoding="utf-8")))


def commit_of(release: Release) -> str:
    """The commit of the release. Raises AssertionError: the clone does not reach back to it, or there is none."""
    shallow = _git("rev-parse", "--is-shallow-repository").stdout.strip() == b"true"
    heading = f"^## {re.escape(release.version)} — [0-9]"
    log = _git("log", "--reverse", "--format=%H", "--pickaxe-regex", f"-S{heading}", "--", "CHANGELOG.md")
    found = log.stdout.decode().split()
    commit = "" if shallow else next(iter(found), "")
    assert commit, f"This clone has no release {release.version}: git fetch --unshallow"
    return commit


def unpack(release: Release, folder: Path) -> None:
    """Write the files of the release into the folder. Raises AssertionError: as `commit_of`."""
    archive = _git("archive", "--format=tar", commit_of(release))
    assert archive.returncode == 0, archive.stderr.decode()
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
