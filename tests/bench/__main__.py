"""`python -m tests.bench`: the ratio table; `… load`: rows. Exits with 1 when an operation failed, not for slowness."""

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

from tests.bench import phases, report, rows, stack


def compare(rounds: int, operations: int, racing: int) -> tuple[list[phases.Measured], Counter[int]]:
    """Service, floor, service, floor, …: what disturbs one of a round disturbs the other."""
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
    """Raises NotHere: the database is not one to fill."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    rows.fill(people, tokens, codes, dead=dead, say=say)
    rows.settle()


def main() -> int:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if arguments.command == "load":
            load(arguments.people, arguments.tokens, arguments.codes, dead=arguments.dead)
            return 0
        measured, winners = compare(arguments.rounds, arguments.operations, arguments.race)
    except (stack.Missing, rows.NotHere) as reason:
        sys.exit(str(reason))
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{report.ratio_table(measured)}\n\n{report.remarks(measured, winners)}\n")
    if arguments.json:
        found: dict[str, Any] = {"measured": [asdict(each) for each in measured], "race": winners}
        arguments.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    return int(report.has_failed(measured, winners))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rounds", type=number(1, 100), default=3, help="service and floor in turn (default 3)")
    parser.add_argument(
        "--operations",
        type=number(1, 100_000),
        default=2000,
        help="codes and tokens a round; twice as many user infos, half as many whole flows (default 2000)",
    )
    parser.add_argument("--race", type=number(0, 1000), default=20, help="codes that ten calls redeem at once")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round there")
    commands = parser.add_subparsers(dest="command")
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
