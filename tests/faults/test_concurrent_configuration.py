"""Two files of applications are applied at once, or a file while somebody changes one of its applications."""

from __future__ import annotations

import io
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from oauth_bridge.models import Application
from oauth_bridge.storage import applications
from tests.faults.test_concurrent_disconnect import wait_until_somebody_waits

COPIES = 4


def applied(path: Path) -> str:
    out = io.StringIO()
    try:
        call_command("application", "apply", str(path), stdout=out, stderr=io.StringIO())
        return out.getvalue()
    except CommandError as error:
        return str(error)
    finally:
        connection.close()


def entries(names: list[str], **more: Any) -> list[dict[str, Any]]:
    return [{"client_id": name, "name": name, "redirect_uris": ["https://a.example/"], **more} for name in names]


def at_once(tmp_path: Path, files: list[list[dict[str, Any]]]) -> list[str]:
    paths = [tmp_path / f"{number}.json" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_text(json.dumps(content))
    with ThreadPoolExecutor(len(files)) as pool:
        return list(pool.map(applied, paths))


def test_the_same_new_applications_are_registered_once(postgresql: None, tmp_path: Path) -> None:
    names = [uuid.uuid4().hex for _ in range(20)]
    group = uuid.uuid4().hex
    said = at_once(tmp_path, [entries(names if each % 2 else names[::-1], groups=[group]) for each in range(COPIES)])
    assert sum("20 new" in each for each in said) == 1
    for each in said:
        assert "20 new" in each or each == "no changes\n" or "Another program registered one" in each
    rows = Application.objects.filter(client_id__in=names)
    assert {row.groups.get().name for row in rows} == {group}
    assert rows.count() == 20
    assert Group.objects.filter(name=group).count() == 1


def test_files_in_another_order_wait_for_each_other(postgresql: None, tmp_path: Path) -> None:
    names = [uuid.uuid4().hex for _ in range(20)]
    at_once(tmp_path, [entries(names)])
    operators = [f"Operator {number}" for number in range(COPIES)]
    files = [entries(names if number % 2 else names[::-1], operator=each) for number, each in enumerate(operators)]
    said = at_once(tmp_path, files)
    assert all("20 changed" in each for each in said)
    assert len({row.operator for row in Application.objects.filter(client_id__in=names)}) == 1


def test_a_file_is_compared_with_what_is_stored_meanwhile(postgresql: None, tmp_path: Path) -> None:
    """It waits for the other change, which stores the same."""
    (name,) = names = [uuid.uuid4().hex]
    at_once(tmp_path, [entries(names)])
    path = tmp_path / "later.json"
    path.write_text(json.dumps([{"client_id": name, "operator": "Somebody"}]))
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            applications.change(Application.objects.get(client_id=name), {"operator": "Somebody"})
            later = pool.submit(applied, path)
            wait_until_somebody_waits(later)
        assert later.result(timeout=60) == "no changes\n"
