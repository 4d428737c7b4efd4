"""`manage.py purge` as a process: stopped, concurrent, during requests."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from oauth_bridge.management import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import Redemptions, codes_for
from tests.server import ROOT, environment

pytestmark = pytest.mark.usefixtures("postgresql")

MANY = 5_000  # more than a batch
TOKENS = AccessToken._meta.db_table
LONG_AGO = timezone.now() - timedelta(days=2)
OF_OTHER_TESTS = "Mails about client secrets that end soon were written."


def start(folder: Path) -> subprocess.Popen[str]:
    """A purge as a process, with its log in a pipe."""
    command, pipes = [sys.executable, "manage.py", "purge"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment(folder), text=True, **pipes)  # type: ignore[call-overload]


def application_with(expired: int) -> Registered:
    """An application with so many expired tokens and a valid one. No other row in the database has expired."""
    list(purging.batches(timezone.now()))
    application: Registered = ApplicationFactory()
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {TOKENS} (digest, scope, application_id, user_id, issued_at, expires_at)"
            " SELECT sha256(gen_random_uuid()::text::bytea), 'profile', %s, %s, %s, %s FROM generate_series(1, %s)",
            [application.row.pk, PersonFactory().pk, LONG_AGO, LONG_AGO, expired],
        )
    TokenFactory(application=application)
    return application


def left(application: Registered) -> int:
    return AccessToken.objects.filter(application=application.row).count()


def ended(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The lines of the log when the purge has ended."""
    output, log = process.communicate(timeout=600)
    assert (output, process.returncode) == ("", 0)
    return [line for line in map(json.loads, log.splitlines()) if line["message"] != OF_OTHER_TESTS]


def deleted(lines: list[dict[str, Any]]) -> int:
    """The number of deleted rows, as each batch and the end say."""
    *batches, last = lines
    assert {line["message"] for line in batches} <= {"A batch was deleted."}
    assert (last["message"], last["total"]) == ("The purge is finished.", sum(line["rows"] for line in batches))
    return int(last["total"])


@contract("O.purge")
def test_two_purges_at_once_beside_live_redemptions_delete_each_row_once_and_disturb_nobody(
    launch: Launch, tmp_path: Path
) -> None:
    old, server = application_with(MANY), launch()
    codes_for(old, MANY, issued_at=LONG_AGO, expires_at=LONG_AGO)
    redemptions = Redemptions(server, ApplicationFactory())

    def purge() -> None:
        both = [start(tmp_path), start(tmp_path)]
        assert sum(deleted(ended(process)) for process in both) == 2 * MANY

    finished_before = purging.last_finished()
    redemptions.run_during(purge)
    assert purging.last_finished() != finished_before
    redemptions.check_that_none_failed()
    assert not AuthorizationCode.objects.filter(application=old.row).exists()
    assert left(old) == 1
