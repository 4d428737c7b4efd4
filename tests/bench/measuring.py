"""Two tables of ratios to the floor: CPU time while four clients repeat an operation, and instructions of one worker.

valgrind counts the instructions, the libraries in C included; the kernel, PostgreSQL and Redis are left out. Other
programs of the machine do not change them: two runs of one version agree within half a percent.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from urllib3.exceptions import HTTPError

from tests.bench.stack import Failed, Stack, Target, say, stack
from tests.faults.load import Caller
from tests.server import children_of

CLIENTS = 4
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
PHASES = ("authorize", "token", "userinfo", "flow")
ROW = "{:<16} {:>25} {:>8} {:>8} {:>12} {:>8}"

# CPU time -------------------------------------------------------------------------------------------------------------


def cpu_ms(roots: dict[str, int]) -> dict[str, float]:
    """CPU milliseconds of each process with all its descendants, including those that have ended."""
    own: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            # User and system time, its own and that of children it has waited for: proc(5), fields 14 to 17.
            own[int(folder.name)] = sum(map(int, fields[11:15])) * TICK_MS
            children[int(fields[1])].append(int(folder.name))

    def tree(pid: int) -> float:
        return own.get(pid, 0.0) + sum(map(tree, children[pid]))

    return {name: tree(pid) for name, pid in roots.items()}


def cost(cpu: dict[str, float]) -> float:
    return cpu["server"] + cpu["postgresql"]


def drive(
    target: Target, failures: Counter[str], operation: Callable[[Caller, Any], Any], given: Iterable[Any]
) -> tuple[dict[str, float], list[Any]]:
    """CPU milliseconds of one operation by process, and the results. Counts the failures."""
    caller = Caller(target)

    def call(value: Any) -> Any:
        try:
            return operation(caller, value) or True
        except (Failed, HTTPError) as error:
            failures[str(error) if isinstance(error, Failed) else type(error).__name__] += 1
            return None

    before = cpu_ms(target.roots)
    with ThreadPoolExecutor(CLIENTS) as pool:
        results = [result for result in pool.map(call, given) if result]
    return {
        name: (value - before[name]) / max(1, len(results)) for name, value in cpu_ms(target.roots).items()
    }, results


def cpu_time(rounds: int, operations: int) -> bool:
    """Measure service and floor in turn, so that other load in a round affects both. Returns whether something failed.

    Each code is redeemed, and each token is used twice. Prints a table.
    """
    found: dict[str, list[dict[str, float]]] = {phase: [] for phase in ("floor", *PHASES)}
    failures = Counter[str]()
    with stack() as given, given.floor() as floor, given.service() as service:
        for number in range(rounds + 1):
            say(f"Round {number} of {rounds} …" if number else "Warming up …")
            count = operations if number else max(8, operations // 5)
            authorize, codes = drive(service, failures, service.authorize, range(count))
            token, tokens = drive(service, failures, service.token, codes)
            userinfo, _ = drive(service, failures, service.userinfo, tokens * 2)
            flow, _ = drive(service, failures, service.flow, range(math.ceil(count / 2)))
            least, _ = drive(floor, failures, floor.select, range(2 * count))
            for cpus, cpu in zip(found.values(), (least, authorize, token, userinfo, flow), strict=True):
                cpus += [cpu] if number else []
    print(ROW.format("operation", "ratio: min / median / max", "CPU ms", "server", "PostgreSQL", "Redis"))  # noqa: T201
    for phase, cpus in found.items():
        ratios = [cost(cpu) / (cost(least) or math.nan) for cpu, least in zip(cpus, found["floor"], strict=True)]
        spread = f"{min(ratios):.2f} / {median(ratios):.2f} / {max(ratios):.2f}"
        cells = [[cost(cpu) for cpu in cpus], *([cpu[name] for cpu in cpus] for name in cpus[0])]
        print(ROW.format(phase, spread, *(f"{median(each):.2f}" for each in cells)))  # noqa: T201
    print("\nFailed:", dict(failures) or "none")  # noqa: T201
    return bool(failures)


# Instructions ---------------------------------------------------------------------------------------------------------

# Python replaces bytecode that has run a few times by faster one, and psycopg prepares a statement at its sixth use.
WARM, COUNTED = 25, 50
# 5 % above what was measured in one run: 3.04, 2.57, 2.10, 7.74, 3.73, 9.11, 3.26. With the scope `openid`, a token is
# signed.
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


def instructions() -> bool:
    """Print those of the floor and of each operation. Returns whether they are too many."""
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed.")
    counted: dict[str, float] = {}
    with stack() as given:
        under = ("valgrind", "-q", "--tool=callgrind", "--trace-children=yes")
        under += (f"--callgrind-out-file={given.folder}/counted.%p",)
        say("The floor …")
        with given.floor(under, workers=1, **PATIENCE) as floor:
            counted["floor"], _ = _counted(floor, given, floor.select, range(COUNTED))
        say("The service …")
        with given.service(under, wsgi="tests.wsgi.patient", WEB_CONCURRENCY="1", **PATIENCE) as service:
            count, caller, numbers = partial(_counted, service, given), Caller(service), range(COUNTED)
            counted["flow"], _ = count(service.flow, numbers)
            counted["authorize"], codes = count(service.authorize, numbers, warm=0)
            counted["token"], tokens = count(service.token, codes, warm=0)
            counted["userinfo"], _ = count(service.userinfo, tokens, warm=0)
            ask = partial(service.authorize, scope="openid")
            for algorithm in ("RS256", "ES256"):
                change = f"UPDATE oauth_bridge_application SET id_token_alg = '{algorithm}'"
                given.postgresql.administer(change, "service")
                for number in range(WARM):
                    service.token(caller, ask(caller, number))
                counted["authorize openid"], codes = count(ask, numbers, warm=0)
                counted[f"token {algorithm}"], _ = count(service.token, codes, warm=0)
    print("operation         ratio  must ≤  1,000 instructions")  # noqa: T201
    ratios = {phase: total / counted["floor"] for phase, total in counted.items()}
    for phase, most in {"floor": 1.0, **MOST}.items():
        print(f"{phase:<16} {ratios[phase]:>6.2f} {most:>7.1f} {counted[phase] / 1000:>19.0f}")  # noqa: T201
    return any(ratios[phase] > most for phase, most in MOST.items())


def _counted(
    target: Target, given: Stack, operation: Callable[[Caller, Any], Any], values: Sequence[Any], warm: int = WARM
) -> tuple[float, list[Any]]:
    caller = Caller(target)
    for number in range(warm):
        operation(caller, number)
    (worker,) = children_of(target.roots["server"])

    def command(text: str) -> None:
        subprocess.run(["vgdb", f"--pid={worker}", text], check=True, capture_output=True, timeout=60)

    command("zero")
    results = [operation(caller, value) for value in values]
    time.sleep(0.5)  # a response is sent before the request is logged
    earlier = set(given.folder.glob(f"counted.{worker}.*"))
    command("dump")
    [dumped] = set(given.folder.glob(f"counted.{worker}.*")) - earlier
    total = re.search(r"^(?:totals|summary): (\d+)", dumped.read_text(encoding="utf-8"), re.MULTILINE)
    assert total, "valgrind has written no sum"
    return int(total[1]) / len(values), results
