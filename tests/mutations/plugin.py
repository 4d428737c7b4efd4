"""A pytest plugin: the runs of one copy of the checkout migrate an SQLite database once, and copy it from then on."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests import databases

MIGRATED = Path(__file__).resolve().parent.parent.parent / "migrated.sqlite3"
migrate = databases.migrate


def migrate_once(url: str) -> None:
    path = url.removeprefix("sqlite:///")
    if not MIGRATED.exists():
        migrate(url)
        shutil.copy(path, MIGRATED)
    shutil.copy(MIGRATED, path)


databases.migrate = migrate_once
