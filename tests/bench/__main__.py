"""`python -m tests.bench`: ratios of CPU time; `… instructions`: ratios of instructions; `… attack`: during attacks.

Exits with 1 when an operation failed or executes too many instructions, never because one was slow.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections import Counter

from tests.bench import attack, measuring
from tests.bench.stack import Missing


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="all that is compared, in turn (default 3)")
    counted = "codes and tokens a round; twice as many user infos, half as many whole flows (default 2000)"
    parser.add_argument("--operations", type=int, default=2000, help=counted)
    commands = parser.add_subparsers(dest="command")
    counting = commands.add_parser("instructions", help="counted by valgrind, which must be installed; takes minutes")
    counting.add_argument("--operations", type=int, default=50, help="of each kind (default 50)")
    attacking = commands.add_parser("attack", help="normal requests beside attacks, directly and behind nginx")
    attacking.add_argument("--only", default="", metavar="TEXT", help="the attacks whose names contain it")
    attacking.add_argument("--way", default="", choices=["", *attack.WAYS], help="default all")
    attacking.add_argument("--seconds", type=int, default=attack.SECONDS, help="of each measurement (default 8)")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell script ignores it by default
    try:
        return int({None: cpu_time, "instructions": instructions, "attack": attacked}[arguments.command](arguments))
    except Missing as reason:
        sys.exit(str(reason))
    except KeyboardInterrupt:
        return 130


def cpu_time(arguments: argparse.Namespace) -> bool:
    measured = measuring.cpu_time(arguments.rounds, arguments.operations, say)
    sys.stdout.write(f"{measuring.cpu_table(measured)}\n")
    return any(each.failures for each in measured)


def instructions(arguments: argparse.Namespace) -> bool:
    counted = measuring.instructions(arguments.operations, say)
    sys.stdout.write(f"{measuring.instructions_table(counted)}\n")
    return measuring.is_over(counted)


def attacked(arguments: argparse.Namespace) -> bool:
    rows = attack.measure(say, arguments.only, arguments.seconds, arguments.way)
    sys.stdout.write("\n".join([attack.HEAD, *(row.cells for row in rows), ""]))
    for row in rows:
        for failure, count in Counter(row.beside.failures).items():
            say(f"{row.way}, {row.attack}: {count} × {failure}")
        if row.is_slowed:
            say(f"Measure it again, p99 of {row.ratios}: {row.attack}")
    return any(row.has_failed for row in rows)


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
