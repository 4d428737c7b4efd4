"""Instructions of each operation, as ratios to the floor's: figures that other programs of the machine do not change.

valgrind counts what one worker executes, the libraries in C included. The kernel, PostgreSQL and Redis are left out, so
these ratios differ from those of CPU time. Two runs of one version agree within half a percent.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.bench.report import PHASES, aligned
from tests.bench.targets import Floor, Service
from tests.server import children_of

# Python replaces bytecode that has run a few times by faster one, and psycopg prepares a statement at its sixth use.
WARM = 25
# With the scope `openid`, what is signed as the application chose.
CHOOSE = "UPDATE oauth_bridge_application SET id_token_alg = '{}'"
SIGNATURES = ("RS256", "ES256")
OF_OPENID = ("authorize openid", *(f"token {signature}" for signature in SIGNATURES))
# 5 % above what was measured in one run: 3.04, 2.57, 2.10, 7.74, 3.73, 9.11, 3.26. The version before the activity log
# (f097c9d) has 3.06, 2.52, 2.09, 7.69 beside the same floor.
MOST = {
    "authorize": 3.2,
    "token": 2.7,
    "userinfo": 2.2,
    "flow": 8.1,
    "authorize openid": 3.9,
    "token RS256": 9.6,
    "token ES256": 3.4,
}
# Everything takes fifty times as long under valgrind.
PATIENCE = {"GUNICORN_CMD_ARGS": "--timeout=600"}


def measure(operations: int, say: Callable[[str], None]) -> dict[str, float]:
    """The instructions of the floor and of each operation. Raises Missing: valgrind is not installed."""
    if not shutil.which("valgrind"):
        raise stack.Missing("valgrind is not installed.")
    with stack.stack() as given:
        under = ("valgrind", "-q", "--tool=callgrind", "--trace-children=yes")
        under += (f"--callgrind-out-file={given.folder}/counted.%p",)
        say("The floor …")
        with stack.floor(given, under=under, workers=1, **PATIENCE) as floor:
            counted = {"floor": _of_floor(floor, given.folder, operations)}
        say("The service …")
        with stack.service(given, under=under, wsgi="tests.bench.patient", WEB_CONCURRENCY="1", **PATIENCE) as service:
            return counted | _of_service(service, given.folder, operations) | _of_openid(given, service, operations)


def table(counted: dict[str, float]) -> str:
    rows: list[tuple[str, ...]] = [("operation", "ratio to the floor", "must ≤", "1,000 instructions")]
    rows.append(("floor", "1.00", "", f"{counted['floor'] / 1000:.0f}"))
    for phase in (*PHASES, *OF_OPENID):
        ratio = f"{counted[phase] / counted['floor']:.2f}"
        rows.append((phase, ratio, f"{MOST[phase]:.1f}", f"{counted[phase] / 1000:.0f}"))
    return aligned(rows)


def is_over(counted: dict[str, float]) -> bool:
    return any(counted[phase] > most * counted["floor"] for phase, most in MOST.items())


def _of_floor(floor: Floor, folder: Path, operations: int) -> float:
    line = floor.line()
    for number in range(WARM):
        floor.select(line, number)
    return _counted(floor, folder, [(floor.select, line, number) for number in range(operations)])[0]


def _of_service(service: Service, folder: Path, operations: int) -> dict[str, float]:
    line, numbers = service.line(), range(operations)
    for number in range(WARM):
        service.flow(line, number)
    authorize, codes = _counted(service, folder, [(service.authorize, line, number) for number in numbers])
    token, tokens = _counted(service, folder, [(service.token, line, code) for code in codes])
    userinfo, _ = _counted(service, folder, [(service.userinfo, line, token) for token in tokens])
    flow, _ = _counted(service, folder, [(service.flow, line, number) for number in numbers])
    return {"authorize": authorize, "token": token, "userinfo": userinfo, "flow": flow}


def _of_openid(given: stack.Stack, service: Service, operations: int) -> dict[str, float]:
    line, counted = service.line(), {}
    ask = functools.partial(service.authorize, scope="openid")
    for signature in SIGNATURES:
        given.postgresql.administer(CHOOSE.format(signature), "service")
        for number in range(WARM):
            service.token(line, ask(line, number))
        numbers = range(operations)
        counted["authorize openid"], codes = _counted(
            service, given.folder, [(ask, line, number) for number in numbers]
        )
        counted[f"token {signature}"], _ = _counted(
            service, given.folder, [(service.token, line, code) for code in codes]
        )
    return counted


def _counted(target: Floor | Service, folder: Path, calls: Sequence[tuple[Any, ...]]) -> tuple[float, list[Any]]:
    """The instructions of one call, and the results of all."""
    (worker,) = children_of(target.roots["server"])
    _command(worker, "zero")
    results = [operation(*values) for operation, *values in calls]
    time.sleep(0.5)  # a response is sent before the request is logged
    earlier = set(folder.glob(f"counted.{worker}.*"))
    _command(worker, "dump")
    (dumped,) = set(folder.glob(f"counted.{worker}.*")) - earlier
    total = re.search(r"^(?:totals|summary): (\d+)", dumped.read_text(encoding="utf-8"), re.MULTILINE)
    assert total, "valgrind has written no sum"
    return int(total[1]) / len(calls), results


def _command(worker: int, command: str) -> None:
    subprocess.run(["vgdb", f"--pid={worker}", command], check=True, capture_output=True, timeout=60)
