"""The table of a drill."""

from __future__ import annotations

import sys
from collections import Counter

from tests.drill.load import OPERATIONS
from tests.drill.running import Result


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} × {what}" for what, count in found.most_common()) or "none"


def line(result: Result) -> str:
    gaps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in result.gaps.items())
    verdict = "BAD" if result.is_bad else "survived"
    return (
        f"{result.failure.name}: {verdict}. {result.requests} requests, failed: {counted(result.failed)}; "
        f"longest gaps in seconds: {gaps}; slowest answer {result.slowest_seconds:.1f}; "
        f"{result.acknowledged} acknowledged, broken: {counted(result.broken)}"
    )


def table(results: list[Result]) -> str:
    """In Markdown, as docs/high-availability.md has it."""
    head = ["failure", "requests", "failed", *OPERATIONS, "must", "slowest", "acknowledged", "lost"]
    rows = [
        [
            each.failure.name,
            f"{each.requests:,}",
            counted(each.failed),
            *(f"{each.gaps[name]:.1f}" for name in OPERATIONS),
            f"≤ {each.failure.seconds:g}",
            f"{each.slowest_seconds:.1f}",
            f"{each.acknowledged:,}",
            counted(each.broken),
        ]
        for each in results
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
