"""`manage.py purge` as a process: concurrent, during requests."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from oauth_bridge.management import purging
from oauth_bridge.models import AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory
from tests.faults.load import Redemptions, codes_for
from tests.server import ROOT, environment

pytestmark = pytest.mark.usefixtures("postgresql")

MANY = 10_000  # more than a batch
LONG_AGO = timezone.now() - timedelta(days=2)


def start(folder: Path) -> subprocess.Popen[str]:
    command, pipes = [sys.executable, "manage.py", "purge"], {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment(folder), text=True, **pipes)  # type: ignore[call-overload]


def deleted(process: subprocess.Popen[str]) -> int:
    output, log = process.communicate(timeout=600)
    assert (output, process.returncode) == ("", 0)
    lines = list(map(json.loads, log.splitlines()))
    assert lines[-1]["message"] == "The purge is finished."
    assert lines[-1]["total"] == sum(line["rows"] for line in lines if line["message"] == "A batch was deleted.")
    return int(lines[-1]["total"])


@contract("O.purge")
def test_two_purges_at_once_delete_each_row_once_and_disturb_nobody(launch: Launch, tmp_path: Path) -> None:
    list(purging.batches(timezone.now()))  # what other tests left
    finished_before = purging.last_finished()
    old, server = ApplicationFactory(), launch()
    codes_for(old, MANY, issued_at=LONG_AGO, expires_at=LONG_AGO)
    redemptions = Redemptions(server, ApplicationFactory())

    def purge() -> None:
        both = [start(tmp_path), start(tmp_path)]
        assert sum(map(deleted, both)) == MANY

    redemptions.run_during(purge)
    redemptions.check_that_none_failed()
    assert not AuthorizationCode.objects.filter(application=old.row).exists()
    assert purging.last_finished() != finished_before
