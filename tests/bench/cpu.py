"""CPU time of process trees, from /proc. Milliseconds; the kernel counts in steps of 10 for each process."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count() or 1


@dataclass(frozen=True)
class Snapshot:
    trees: dict[str, float]  # by name: a process with all its descendants, including those that have ended
    driver: float  # this process and its children that have ended
    machine: float
    at: float

    @classmethod
    def of(cls, roots: dict[str, int]) -> Snapshot:
        own, children = _processes()
        trees = {name: _tree(pid, own, children) for name, pid in roots.items()}
        return cls(trees, sum(os.times()[:4]) * 1000, _machine(), time.monotonic())

    def since(self, before: Snapshot) -> tuple[dict[str, float], float]:
        """The CPU time of each tree since then, and the share of the machine that other processes used."""
        used = {name: value - before.trees[name] for name, value in self.trees.items()}
        known = sum(used.values()) + self.driver - before.driver
        others = self.machine - before.machine - known
        return used, max(0.0, others / ((self.at - before.at) * 1000 * CORES))


def _processes() -> tuple[dict[int, float], dict[int, list[int]]]:
    own: dict[int, float] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        # User and system time, its own and that of children it has waited for: proc(5), fields 14 to 17.
        own[int(folder.name)] = sum(map(int, fields[11:15])) * TICK_MS
        children[int(fields[1])].append(int(folder.name))
    return own, children


def _tree(pid: int, own: dict[int, float], children: dict[int, list[int]]) -> float:
    return own.get(pid, 0.0) + sum(_tree(child, own, children) for child in children[pid])


def _machine() -> float:
    """The CPU time of the machine, without idle time, waiting for disks, and guests, which the kernel counts twice."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_MS
