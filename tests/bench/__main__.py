"""`python -m tests.bench`: ratios of CPU time; `… instructions`: ratios of instructions; `… attack`: during attacks.

Exits with 1 when an operation failed or executes too many instructions, never because one was slow.
"""

from __future__ import annotations

import argparse
import signal
import sys

from tests.bench import attack, measuring


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("instructions", help="counted by valgrind, which must be installed; takes minutes")
    attacking = commands.add_parser("attack", help="normal requests beside attacks, behind nginx")
    attacking.add_argument("--only", default="", metavar="TEXT", help="the attacks whose names contain it")
    attacking.add_argument("--way", default="", choices=["", *attack.WAYS], help="default all")
    attacking.add_argument("--seconds", type=int, default=attack.SECONDS, help="of each measurement (default 8)")
    parser.add_argument("--rounds", type=int, default=3, help="all that is compared, in turn (default 3)")
    counted = "codes and tokens a round; twice as many user infos, half as many whole flows (default 2000)"
    parser.add_argument("--operations", type=int, default=2000, help=counted)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.command == "attack":
        return int(attack.measure(arguments.only, arguments.way, arguments.seconds))
    if arguments.command == "instructions":
        return int(measuring.instructions())
    return int(measuring.cpu_time(arguments.rounds, arguments.operations))


if __name__ == "__main__":
    sys.exit(main())
