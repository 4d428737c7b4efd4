"""Files of applications are applied at once, or somebody else is stuck while an application is used."""

from __future__ import annotations

import io
import json
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command
from django.db import transaction

from oauth_bridge.models import Application
from oauth_bridge.storage import secret_rotation
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, CodeFactory
from tests.faults.races import at_once

COPIES = 4


def applied(path: Path) -> str:
    out = io.StringIO()
    try:
        call_command("application", "apply", str(path), stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return str(error)
    return out.getvalue()


def apply_at_once(folder: Path, names: list[str], fields: list[dict[str, Any]]) -> list[str]:
    """Each file has all names, every second one from the last to the first."""
    paths = [folder / f"{number}.json" for number in range(len(fields))]
    for number, (path, more) in enumerate(zip(paths, fields, strict=True)):
        ordered = names if number % 2 else names[::-1]
        entry = {"redirect_uris": ["https://a.example/"], **more}
        path.write_text(json.dumps([{"client_id": name, "name": name, **entry} for name in ordered]))
    return at_once(*(partial(applied, path) for path in paths))


def test_the_same_new_applications_are_registered_once_and_files_in_another_order_wait(
    postgresql: None, tmp_path: Path
) -> None:
    names, group = [uuid.uuid4().hex for _ in range(20)], uuid.uuid4().hex
    said = apply_at_once(tmp_path, names, [{"groups": [group]}] * COPIES)
    assert sum("20 new" in each for each in said) == 1
    for each in said:
        assert "20 new" in each or each == "no changes\n" or "Another program registered one" in each
    rows = Application.objects.filter(client_id__in=names)
    assert {row.groups.get().name for row in rows} == {group}
    assert rows.count() == 20

    said = apply_at_once(tmp_path, names, [{"operator": f"Operator {number}"} for number in range(COPIES)])
    assert all("20 changed" in each for each in said)
    assert len({row.operator for row in rows.all()}) == 1


@contract("O.application.secrets")
def test_a_rotation_that_is_stuck_in_the_middle_keeps_no_exchange_waiting(
    postgresql: None, driver: OAuthDriver
) -> None:
    """As when its machine died: the row of the old secret stays locked, and its last use is due to be stored."""
    application = ApplicationFactory()
    codes = [CodeFactory(application=application).raw for _ in range(2)]
    with transaction.atomic():
        secret_rotation.rotate(application.row)
        assert driver.exchange(application, codes[0]).status_code == 200
        transaction.set_rollback(True)
    assert application.row.secrets.get().last_used_at is None
    assert driver.exchange(application, codes[1]).status_code == 200
    assert application.row.secrets.get().last_used_at is not None
