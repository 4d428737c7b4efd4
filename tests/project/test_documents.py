"""What is written about the code is true of it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import documented
from tests.contract_coverage import TESTS

pytestmark = pytest.mark.once

DOCS = TESTS.parent / "docs"
UNITS = ("sign-in.service", "sign-in-purge.service")


def test_every_test_that_the_table_of_faults_names_exists():
    table = (DOCS / "operations.md").read_text(encoding="utf-8")
    named = re.findall(r"`(test_\w+\.py)::(\w+)`", table)
    folder = TESTS / "faults"
    missing = [test for file, test in named if f"\ndef {test}(" not in (folder / file).read_text(encoding="utf-8")]
    assert len(named) > 10
    assert missing == []


@pytest.mark.parametrize(("document", "points"), [("pages.md", 57), ("administration.md", 30)])
def test_every_test_that_the_points_of_the_pages_name_exists(document, points):
    table = (DOCS / document).read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", table)
    missing = [test for file, test in named if f"\ndef {test}(" not in (TESTS / file).read_text(encoding="utf-8")]
    assert len(re.findall(r"^\| \d+ \|", table, re.MULTILINE)) == points
    assert missing == []


def test_the_comparison_names_tests_that_exist_and_the_source_of_each_fact():
    text = (DOCS / "comparison.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in re.findall(r"^\| .*\|$", text, re.MULTILINE)]
    named = {path for row in rows for path in re.findall(r"`(tests/[\w/]+\.py)`", row[2])}
    assert {path for path in named if not (DOCS.parent / path).exists()} == set()
    assert len(rows) > 15
    others = [cell for row in rows[1:] for cell in row[3:]]
    assert [cell for cell in others if not re.search(r"\[[A-Z]\d+\]|not found", cell)] == []
    used = set(re.findall(r"\[([A-Z]\d+)\](?!:)", text))
    sources = re.findall(r"^\[([A-Z]\d+)\]: https://", text, re.MULTILINE)
    assert sorted(used) == sorted(sources)


def limits() -> str:
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    return text.partition("<!-- limits -->")[2].partition("<!-- /limits")[0]


def test_each_limit_of_the_table_is_tested_from_both_sides():
    rows = re.findall(r"^\| `(\w+)` \|", limits(), re.MULTILINE)
    files = (TESTS / "security").glob("test_limits_of_*.py")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in files)
    asked = {f"test_{row}_{side}" for row in rows for side in ("stops_the_attacker", "lets_the_victim_go_on")}
    found = set(re.findall(r"^def (test_\w+_(?:stops_the_attacker|lets_the_victim_go_on))\(", tests, re.MULTILINE))
    assert len(rows) > 10
    assert found == asked


def test_each_variable_of_a_limit_is_in_the_table():
    rates = (TESTS.parent / "config" / "limits_and_lifetimes.py").read_text(encoding="utf-8")
    variables = re.findall(r'^    (RATE_[A-Z_]+)="(\S+)",$', rates, re.MULTILINE)
    assert len(variables) == 9
    assert [name for name, default in variables if f"`{name}` {default}" not in limits()] == []


@pytest.mark.parametrize("document", ["operations.md", "high-availability.md"])
def test_systemd_and_the_shell_read_the_documented_variables_alike(document):
    variables = documented.file("/etc/sign-in.env", document)
    assert [line for line in variables.splitlines() if not re.fullmatch(r"#.*|[A-Z_]+='[^']*'", line)] == []


def test_a_unit_that_waits_for_the_network_asks_for_it():
    for unit in UNITS:
        text = documented.file(f"/etc/systemd/system/{unit}")
        assert re.search("^After=network-online.target", text, re.MULTILINE)
        assert re.search("^Wants=network-online.target$", text, re.MULTILINE)


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_exposes_little_of_the_machine(unit: str, tmp_path: Path) -> None:
    """At most 2.0 of 10 by systemd's own measure, by which a service with its own user alone has 9.2."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("needs systemd-analyze")
    (tmp_path / unit).write_text(documented.file(f"/etc/systemd/system/{unit}"), encoding="utf-8")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", tmp_path / unit]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-200:]
    assert done.stderr == ""  # unknown directives


def test_the_purge_may_do_as_little_as_the_service() -> None:
    service, purge = (documented.file(f"/etc/systemd/system/{unit}").partition("StateDirectory=")[2] for unit in UNITS)
    assert service.partition("\n\n")[0] == purge.partition("\n\n")[0].strip()


def test_the_line_for_cron_needs_no_more_than_its_path():
    line = documented.file("/etc/cron.d/sign-in-purge")
    assert "&& /usr/sbin/runuser " in line
    assert "%" not in line, "cron takes it for the end of the line"
