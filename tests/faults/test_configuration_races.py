"""Files of applications are applied at once, secrets or keys are replaced at once, or somebody else changes them."""

from __future__ import annotations

import io
import json
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import time_machine
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.utils import timezone

from oauth_bridge.credentials import secret_rotation
from oauth_bridge.models import Application, ApplicationSecret, SigningKey
from oauth_bridge.openid import signing_keys
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.driver import OAuthDriver
from tests.factories import ApplicationFactory, CodeFactory, digest_of
from tests.faults.races import at_once

# Files of applications ------------------------------------------------------------------------------------------------

COPIES = 4


def applied(path: Path) -> str:
    out = io.StringIO()
    try:
        call_command("application", "apply", str(path), stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return str(error)
    return out.getvalue()


def entries(names: list[str], **more: Any) -> list[dict[str, Any]]:
    return [{"client_id": name, "name": name, "redirect_uris": ["https://a.example/"], **more} for name in names]


def apply_at_once(folder: Path, files: list[list[dict[str, Any]]]) -> list[str]:
    paths = [folder / f"{number}.json" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_text(json.dumps(content))
    return at_once(*(partial(applied, path) for path in paths))


def test_the_same_new_applications_are_registered_once_and_files_in_another_order_wait(
    postgresql: None, tmp_path: Path
) -> None:
    names, group = [uuid.uuid4().hex for _ in range(20)], uuid.uuid4().hex
    files = [entries(names if each % 2 else names[::-1], groups=[group]) for each in range(COPIES)]
    said = apply_at_once(tmp_path, files)
    assert sum("20 new" in each for each in said) == 1
    for each in said:
        assert "20 new" in each or each == "no changes\n" or "Another program registered one" in each
    rows = Application.objects.filter(client_id__in=names)
    assert {row.groups.get().name for row in rows} == {group}
    assert rows.count() == 20

    operators = [f"Operator {number}" for number in range(COPIES)]
    files = [entries(names if number % 2 else names[::-1], operator=each) for number, each in enumerate(operators)]
    assert all("20 changed" in each for each in apply_at_once(tmp_path, files))
    assert len({row.operator for row in rows.all()}) == 1


# Secrets and keys -----------------------------------------------------------------------------------------------------


@contract("O.application.rotate-now")
def test_of_two_rotations_at_the_same_moment_one_secret_is_left(committed: None) -> None:
    """A rotation that missed the secret of a concurrent one would leave that secret valid for ever."""
    application, both = ApplicationFactory(), threading.Barrier(2)

    def held(execute: Callable[..., Any], sql: str, *more: Any) -> Any:
        result = execute(sql, *more)
        if sql.startswith("SELECT") and ApplicationSecret._meta.db_table in sql:
            with suppress(threading.BrokenBarrierError):  # rotations that wait for each other never meet
                both.wait(1)
        return result

    def rotate() -> str:
        with connection.execute_wrapper(held):
            return secret_rotation.rotate(application.row, secret_rotation.REVOKE_NOW).secret

    made = at_once(rotate, rotate)
    working = [bytes(row.digest) for row in application.row.secrets.all() if row.works]
    assert len(working) == 1
    assert working[0] in [digest_of(secret) for secret in made]
    assert application.row.secrets.count() == 3


@contract("O.application.secrets")
def test_a_rotation_that_is_stuck_in_the_middle_keeps_no_exchange_waiting(postgresql: None, launch: Launch) -> None:
    """As when its machine died: the row of the old secret stays locked, and its last use is due to be stored."""
    application = ApplicationFactory()
    driver = OAuthDriver(launch().base_url)
    codes = [CodeFactory(application=application).raw for _ in range(2)]
    with transaction.atomic():
        secret_rotation.rotate(application.row)
        assert driver.exchange(application, codes[0]).status_code == 200
        transaction.set_rollback(True)
    assert application.row.secrets.get().last_used_at is None
    assert driver.exchange(application, codes[1]).status_code == 200
    assert application.row.secrets.get().last_used_at is not None


def test_rotations_of_keys_at_once_leave_one_signer_after_another(postgresql: None) -> None:
    """Ten rotations wait for each other; none deadlocks, and from now on some key always signs."""
    signing_keys.signer("ES256")
    made = at_once(*[partial(signing_keys.rotate, "ES256")] * 10)
    assert len({row.kid for row in made}) == 10
    open_ended = SigningKey.objects.filter(algorithm="ES256", revoked_at=None, signs_until=None)
    assert open_ended.count() == 1
    with time_machine.travel(timezone.now() + signing_keys.PUBLISHED_BEFORE + timedelta(seconds=1), tick=False):
        assert signing_keys.signer("ES256").kid == open_ended.get().kid
