"""The ratio table: what each operation costs as a multiple of the floor of the same round."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

from tests.bench.phases import Measured

PHASES = ("authorize", "token", "userinfo", "flow")
MUST = {"authorize": 4.0, "token": 3.5, "userinfo": 2.0, "flow": 9.5}
GOAL = {"authorize": 3.0, "token": 2.4, "userinfo": 1.6, "flow": 7.0}
HEAD = (
    "|ratio to the floor|must|goal||CPU ms||||ms|ms|",
    "operation|min / median / max|≤|≤||sum|server|PostgreSQL|Redis|p50|p99|a second",
)
# If other processes use more of the machine than this, the ratios are unreliable.
CALM = 0.06


def ratios(measured: list[Measured], target: str, phase: str) -> list[float]:
    """Cost of the phase divided by the cost of the floor, round by round."""
    floor = {each.round: each.cost or math.nan for each in measured if each.target == "floor"}
    return [each.cost / floor[each.round] for each in measured if (each.target, each.phase) == (target, phase)]


def ratio_table(measured: list[Measured]) -> str:
    rows = [tuple(line.split("|")) for line in HEAD]
    for phase in ("select", *PHASES):
        if rounds := [each for each in measured if each.phase == phase]:
            rows.append(_row(rounds, ratios(measured, rounds[0].target, phase)))
    return aligned(rows)


def aligned(rows: list[tuple[str, ...]]) -> str:
    """Columns of minimal width; the first is aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return "\n".join(lines)


def _row(rounds: list[Measured], found: list[float]) -> tuple[str, ...]:
    phase = rounds[0].phase
    must, goal = MUST.get(phase), GOAL.get(phase)
    verdict = ""
    if must and goal:
        verdict = "goal" if median(found) <= goal else "must" if median(found) <= must else "OVER"
    return (
        "floor" if phase == "select" else phase,
        f"{min(found):.2f} / {median(found):.2f} / {max(found):.2f}",
        f"{must:.1f}" if must else "",
        f"{goal:.1f}" if goal else "",
        verdict,
        f"{median(each.cost for each in rounds):.2f}",
        *(f"{median(each.cpu[name] for each in rounds):.2f}" for name in ("server", "postgresql", "redis")),
        f"{median(each.p50_ms for each in rounds):.1f}",
        f"{median(each.p99_ms for each in rounds):.1f}",
        f"{median(each.per_second for each in rounds):.0f}",
    )


def remarks(measured: list[Measured], winners: Counter[int]) -> str:
    """Remarks on the reliability of the figures, and failures."""
    failures = sum((Counter(each.failures) for each in measured), Counter[str]())
    done = sum(each.done for each in measured)
    lines = [f"{done} operations, {failures.total()} failed."]
    lines += [f"  {number} × {kind}" for kind, number in failures.most_common(5)]
    if left := sum(each.asked - each.done - sum(each.failures.values()) for each in measured):
        lines.append(f"{left} were left when the time of their phase was over.")
    if winners:
        told = ", ".join(f"{codes} had {count}" for count, codes in sorted(winners.items()))
        lines.append(f"Codes that ten calls redeemed at once, by how many got a token: {told}. It must be 1.")
    others = [each.other for each in measured]
    calm = "the ratios hold" if max(others) <= CALM else "repeat this when the machine is calmer"
    lines.append(
        f"Other programs took {median(others):.0%} of the machine, at most {max(others):.0%} during a phase: {calm}."
    )
    return "\n".join(lines)


def has_failed(measured: list[Measured], winners: Counter[int]) -> bool:
    return any(each.failures for each in measured) or set(winners) - {1} != set()
