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
OF_PROMETHEUS = {"instance", "job", "le"}


@pytest.fixture
def labels() -> dict[str, set[str]]:
    """The labels of each metric, by the name that Prometheus stores."""
    events.ANSWERS.labels("GET", "/", "2xx")
    events.REFUSALS.labels("/", "invalid_request", "bad_request")
    events.EVENTS.labels("signed_in")
    events.BUILD_INFO.labels("1.0", "3.11")
    events.SIGNING_KEY_AGE.labels("ES256")
    for each in (events.QUEUE_WAITING, events.QUEUE_RETRIED, events.QUEUE_OVERDUE):
        each.labels("mails")
    found: dict[str, set[str]] = {}
    for metric in vars(events).values():
        for family in metric.collect() if isinstance(metric, Counter | Gauge | Histogram) else ():
            for sample in family.samples:
                if not sample.name.endswith("_created"):  # not kept in the files of workers
                    found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> Iterator[str]:
    yield from re.findall(r"expr: (?:>-\n)?(.+(?:\n {10}\S.*)*)", RULES)
    dashboard = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"] for each in dashboard["templating"]["list"])


def test_each_expression_names_metrics_labels_and_events_that_exist(labels: dict[str, set[str]]) -> None:
    every, wrong = list(expressions()), []
    assert len(every) > 30
    for text in every:
        wrong += [name for name in re.findall(r"\bdelegated_\w+", text) if name not in labels]
        for name, selector in re.findall(r"(delegated_\w+)\{([^}]*)\}", text):
            named = set(re.findall(r"(\w+)\s*[=!]~?", re.sub(r'"[^"]*"', '""', selector)))
            wrong += sorted(named - labels[name] - OF_PROMETHEUS)
        known = OF_PROMETHEUS.union(*(labels.get(name, ()) for name in re.findall(r"\bdelegated_\w+", text)))
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            wrong += sorted(set(re.split(r",\s*", grouped)) - known)
    events = {part for text in every for value in re.findall(r'event=~?"([^"]*)"', text) for part in value.split("|")}
    assert len(events) > 3
    assert wrong + sorted(events - {event.name.lower() for event in Event}) == []


def test_each_metric_is_in_the_manual_and_the_other_way_round(labels: dict[str, set[str]]) -> None:
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = manual.partition("\n## Metrics")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(delegated_\w+)`", table.replace("`…_retried`", "`delegated_queue_retried`")))
    assert named == {re.sub(r"_(bucket|sum|count)$", "", name) for name in labels}


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
