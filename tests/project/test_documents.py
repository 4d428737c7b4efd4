"""What is written about the code is true of it."""

import re

import pytest

from tests.documents import DOCS, documented
from tests.matrix import TESTS

pytestmark = pytest.mark.once


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
    settings = (TESTS.parent / "config" / "settings.py").read_text(encoding="utf-8")
    variables = re.findall(r'^    (RATE_[A-Z_]+)="(\S+)",$', settings, re.MULTILINE)
    assert len(variables) == 9
    assert [name for name, default in variables if f"`{name}` {default}" not in limits()] == []


@pytest.mark.parametrize("document", ["operations.md", "high-availability.md"])
def test_systemd_and_the_shell_read_the_documented_variables_alike(document):
    variables = documented("/etc/sign-in.env", document)
    assert [line for line in variables.splitlines() if not re.fullmatch(r"#.*|[A-Z_]+='[^']*'", line)] == []


def test_a_unit_that_waits_for_the_network_asks_for_it():
    for unit in ("sign-in.service", "sign-in-purge.service"):
        text = documented(f"/etc/systemd/system/{unit}")
        assert re.search("^After=network-online.target", text, re.MULTILINE)
        assert re.search("^Wants=network-online.target$", text, re.MULTILINE)


def test_the_line_for_cron_needs_no_more_than_its_path():
    line = documented("/etc/cron.d/sign-in-purge")
    assert "&& /usr/sbin/runuser " in line
    assert "%" not in line, "cron takes it for the end of the line"
