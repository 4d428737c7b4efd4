"""The rules and the dashboard of docs/monitoring name metrics and labels that exist, and the rules do what they say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from config.metrics import meter, state
from tests.project.test_architecture import ROOT

pytestmark = pytest.mark.once

FOLDER = ROOT / "docs" / "monitoring"
RULES = (FOLDER / "alerts.yml").read_text(encoding="utf-8")
OF_PROMETHEUS = {"instance", "job", "le"}
STATE = state.State({"mails": state.Queue(0, 0, 0)}, {(): 0.0}, {("ES256",): 0.0})


@pytest.fixture
def labels(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The labels of each metric, by the name that Prometheus stores."""
    monkeypatch.setattr(state, "read", lambda: STATE)
    counted = meter.PrometheusMeter(2)
    counted.request_answered("GET", "/", 200, 0.1)
    counted.request_refused("/", "invalid_request", "bad_request")
    families = [*meter.registry.collect(), *state.StateCollector().collect()]
    found: dict[str, set[str]] = {}
    for family in families:
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


def test_each_expression_names_metrics_and_labels_that_exist(labels: dict[str, set[str]]) -> None:
    every = list(expressions())
    assert len(every) > 30
    used = {name for text in every for name in re.findall(r"\bdelegated_\w+", text)}
    assert used <= labels.keys()
    for text in every:
        for name, selector in re.findall(r"(delegated_\w+)\{([^}]*)\}", text):
            assert (
                set(re.findall(r"(\w+)\s*[=!]~?", re.sub(r'"[^"]*"', '""', selector))) <= labels[name] | OF_PROMETHEUS
            )
        known = OF_PROMETHEUS.union(*(labels[name] for name in re.findall(r"\bdelegated_\w+", text)))
        for grouped in re.findall(r"\b(?:by|on) \(([^)]*)\)", text):
            assert set(re.split(r",\s*", grouped)) <= known


def test_each_route_and_event_of_an_expression_exists(labels: dict[str, set[str]]) -> None:
    from config.infrastructure import paths
    from config.infrastructure.events import Event

    texts = "\n".join(expressions())
    events = {part for value in re.findall(r'event=~?"([^"]*)"', texts) for part in value.split("|")}
    assert len(events) > 3
    assert events <= {event.name.lower() for event in Event}
    assert "/oauth/(token|userinfo)" in texts
    assert {paths.TOKEN, paths.USERINFO} == {"/oauth/token", "/oauth/userinfo"}


def test_each_metric_is_in_the_manual_and_the_other_way_round(labels: dict[str, set[str]]) -> None:
    manual = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    table = manual.partition("\n## Metrics")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(delegated_\w+)`", table.replace("`…_retried`", "`delegated_queue_retried`")))
    assert named == {re.sub(r"_(bucket|sum|count)$", "", name) for name in labels}


def test_each_rule_says_what_is_wrong_and_what_to_do_and_is_tested() -> None:
    rules = re.split(r"\n      - alert: ", RULES)[1:]
    tests = (FOLDER / "alerts_test.yml").read_text(encoding="utf-8")
    assert len(rules) > 10
    for rule in rules:
        name = rule.partition("\n")[0]
        assert re.search(r"^          summary: .+\.'?$", rule, re.MULTILINE), name
        assert re.search(r"^          do: .+\.$", rule, re.MULTILINE), name
        assert re.search(r"severity: (page|ticket) ", rule), name
        assert f'alertname="{name}"' in tests


def test_the_rules_fire_when_they_should_and_only_then() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of Debian's package prometheus")
    ended = subprocess.run(
        [promtool, "test", "rules", str(FOLDER / "alerts_test.yml")],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
