"""A pytest plugin: the runs of one copy of the checkout migrate an SQLite database once, and copy it from then on."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import django.test.utils

TEMPLATE = Path(__file__).resolve().parent.parent.parent / "migrated.sqlite3"
setup_databases = django.test.utils.setup_databases


def setup_from_template(**options: Any) -> list[Any]:
    from django.db import connection

    if connection.vendor != "sqlite":
        return setup_databases(**options)
    name = connection.settings_dict["TEST"]["NAME"]
    if TEMPLATE.exists():
        shutil.copy(TEMPLATE, name)
        return setup_databases(**{**options, "keepdb": True})
    configured = setup_databases(**options)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(TEMPLATE)])
    return configured


django.test.utils.setup_databases = setup_from_template
