"""`python -m tests.drill [TEXT]`: an upgrade, and the failures of machines; with a text those whose names contain it.

Exits with 1 when one was not survived.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.drill import failures, upgrade
from tests.drill.load import Load
from tests.drill.machines import Missing, require_programs
from tests.drill.running import HEAD, judge, running


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="run only what contains it in its name")
    parser.add_argument("--folder", type=Path, help="a new folder, in which logs are kept")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell script ignores it by default
    try:
        require_programs()
    except Missing as reason:
        sys.exit(str(reason))
    chosen = [failure for failure in failures.FAILURES if arguments.text in failure.name]
    has_failed = False
    with ExitStack() as opened:
        folder = arguments.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="drill-")))
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        if arguments.text in upgrade.TEST and not upgrade.has_passed(folder / "upgrade"):
            return 1
        if chosen:
            site, application, url, certificate = opened.enter_context(running(folder))
            print_row(HEAD)
            print_row(["---"] * len(HEAD))
        for failure in chosen:
            result = judge(failure, site, Load(url, str(certificate), application))
            print_row(result.cells)
            has_failed |= result.is_bad
    return int(has_failed)


def print_row(cells: list[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
