"""The rules and the dashboard of docs/monitoring name metrics and labels that exist, and the rules do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from prometheus_client import Counter, Gauge, Histogram

from config.infrastructure import events
from config.infrastructure.events import Event
from tests.project.test_architecture import ROOT

FOLDER = ROOT / "docs" / "monitoring"
RULES = (FOLDER / "alerts.yml").read_text(encoding="utf-8")


def metrics() -> set[str]:
    """The names that Prometheus stores."""
    events.BUILD_INFO.labels("1.0", "3.11")
    found = [each for each in vars(events).values() if isinstance(each, Counter | Gauge | Histogram)]
    return {
        f"{family.name}_total" if family.type == "counter" else family.name
        for each in found
        for family in each.collect()
    }


def expressions() -> Iterator[str]:
    yield from re.findall(r"expr: (?:>-\n)?(.+(?:\n {10}\S.*)*)", RULES)
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"] for each in dashboard["templating"]["list"])


def test_each_expression_names_metrics_and_events_that_exist() -> None:
    text = "\n".join(expressions())
    named = {re.sub("_(bucket|count)$", "", name) for name in re.findall(r"\bdelegated_\w+", text)}
    assert sorted(named - metrics()) == []
    known = {part for value in re.findall(r'event=~?"([^"]*)"', text) for part in value.split("|")}
    assert len(known) > 3
    assert sorted(known - {event.name.lower() for event in Event}) == []


def test_each_metric_is_in_the_manual_and_the_other_way_round() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = manual.partition("\n## Metrics")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(delegated_\w+)`", table.replace("`…_retried`", "`delegated_queue_retried`"))) == metrics()


def test_each_rule_fires_when_it_should_and_only_then() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    tests = FOLDER / "alerts_test.yml"
    names = re.findall(r"\n      - alert: (\w+)", RULES)
    assert len(names) > 10
    assert [name for name in names if f'alertname="{name}"' not in tests.read_text(encoding="utf-8")] == []
    ended = subprocess.run([promtool, "test", "rules", tests], cwd=FOLDER, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
