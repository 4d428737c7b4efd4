"""The tests that must not run beside others are found by name, so the names must exist."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests import workers
from tests.server import ROOT

FILES = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]


@pytest.mark.parametrize("beginning", [*workers.GROUPS, *workers.ALONE])
def test_each_entry_names_tests(beginning: str) -> None:
    path, _, name = beginning.partition("::")
    found = [file for file in FILES if file.startswith(path)]
    assert found
    assert not name or f"def {name}" in (ROOT / found[0]).read_text(encoding="utf-8")


def test_a_group_has_one_scope_and_every_other_test_its_own() -> None:
    assert "_split_scope" in vars(LoadScopeScheduling)  # documented by pytest-xdist, in spite of its name
    scheduler = workers.Scheduler.__new__(workers.Scheduler)
    together = [f"tests/faults/{test}" for test in ("test_purge.py::test_a", "test_killed.py::test_b")]
    assert {scheduler._split_scope(each) for each in together} == {"load"}
    assert {scheduler._split_scope(f"{file}::test_a") for file in workers.ALONE} == {"alone"}
    assert scheduler._split_scope("tests/unit/test_a.py::test_a") == "tests/unit/test_a.py::test_a"
