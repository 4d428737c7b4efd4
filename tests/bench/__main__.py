"""`python -m tests.bench`: ratios of CPU time; `… instructions`: ratios of instructions; `… attack`: during attacks;
`… load`: fill tables.

Exits with 1 when an operation failed or executes too many instructions, never because one was slow.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import django

from tests.bench import attack, instructions, phases, report, rows, stack


def compare(rounds: int, operations: int, racing: int) -> tuple[list[phases.Measured], Counter[int]]:
    """Measure service and floor in turn, so that other load in a round affects both."""
    measured: list[phases.Measured] = []
    with stack.stack() as given, stack.floor(given) as floor, stack.service(given) as service:
        say("Warming up …")
        list(phases.of_service(service, 0, max(8, operations // 5)))
        phases.of_floor(floor, 0, max(8, operations // 5))
        for number in range(1, rounds + 1):
            say(f"Round {number} of {rounds} …")
            measured += phases.of_service(service, number, operations)
            measured.append(phases.of_floor(floor, number, operations))
        return measured, phases.race(service, racing)


def load(people: int, tokens: int, codes: int, *, dead: bool) -> None:
    """Raises NotHere: the database may not be filled."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    rows.fill(people, tokens, codes, dead=dead, say=say)
    rows.settle()


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell script ignores it by default
    try:
        if arguments.command == "load":
            load(arguments.people, arguments.tokens, arguments.codes, dead=arguments.dead)
            return 0
        if arguments.command == "instructions":
            return count_instructions(arguments.operations)
        return attacked(arguments) if arguments.command == "attack" else measure(arguments)
    except (stack.Missing, rows.NotHere) as reason:
        sys.exit(str(reason))
    except KeyboardInterrupt:
        return 130


def count_instructions(operations: int) -> int:
    counted = instructions.measure(operations, say)
    sys.stdout.write(f"{instructions.table(counted)}\n")
    return int(instructions.is_over(counted))


def attacked(arguments: argparse.Namespace) -> int:
    rows = attack.measure(say, arguments.only, arguments.seconds, arguments.way)
    sys.stdout.write(f"{attack.table(rows)}\n")
    for row in rows:
        for failure, count in Counter(row.beside.failures).items():
            say(f"{row.way}, {row.attack}: {count} × {failure}")
    for row in attack.slowed(rows):
        say(f"Measure it again, p99 of {row.ratios}: {row.attack}")
    return int(attack.has_failed(rows))


def measure(arguments: argparse.Namespace) -> int:
    measured, winners = compare(arguments.rounds, arguments.operations, arguments.race)
    sys.stdout.write(f"{report.ratio_table(measured)}\n\n{report.remarks(measured, winners)}\n")
    if arguments.json:
        found = {"measured": [asdict(each) for each in measured], "race": winners}
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return int(report.has_failed(measured, winners))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=number(1, 100), default=3, help="all that is compared, in turn (default 3)")
    parser.add_argument(
        "--operations",
        type=number(1, 100_000),
        default=2000,
        help="codes and tokens a round; twice as many user infos, half as many whole flows (default 2000)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    parser.add_argument("--race", type=number(0, 1000), default=20, help="codes that ten calls redeem at once")
    commands = parser.add_subparsers(dest="command")
    counting = commands.add_parser("instructions", help="counted by valgrind, which must be installed; takes minutes")
    counting.add_argument("--operations", type=number(1, 10_000), default=50, help="of each kind (default 50)")
    attacking = commands.add_parser(
        "attack", help="normal requests beside attacks, directly and behind nginx, with one unit and two"
    )
    attacking.add_argument("--only", default="", metavar="TEXT", help="the attacks whose names contain it")
    attacking.add_argument("--way", default="", choices=["", *attack.WAYS], help="default all")
    attacking.add_argument("--seconds", type=number(1, 600), default=8, help="of each measurement (default 8)")
    filling = commands.add_parser("load", help="fill the database of DATABASE_URL, in which nobody may live")
    for name, default in (("people", 1_000_000), ("tokens", 10_000_000), ("codes", 10_000_000)):
        filling.add_argument(f"--{name}", type=number(1, 100_000_000), default=default, help=f"default {default:,}")
    filling.add_argument("--dead", action="store_true", help="tokens and codes past use, for `manage.py purge`")
    return parser.parse_args()


def number(smallest: int, largest: int) -> Any:
    def read(text: str) -> int:
        value = int(text)
        if not smallest <= value <= largest:
            raise argparse.ArgumentTypeError(f"{smallest} to {largest}")
        return value

    return read


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
