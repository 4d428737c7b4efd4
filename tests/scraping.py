"""Reads the metrics of a server over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

import requests
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(port: int) -> Samples:
    """Each sample by name and labels."""
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=30)
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(port: int, name: str, **labels: str) -> float:
    """The sample with these labels; 0 when there is none."""
    return scrape(port).get((name, frozenset(labels.items())), 0.0)


def eventually(expected: object, read: Callable[[], object], seconds: float = 60) -> None:
    """The server gives the same answer for a second, and workers take time to start."""
    end = time.monotonic() + seconds
    while (seen := read()) != expected and time.monotonic() < end:
        time.sleep(0.2)
    assert seen == expected
