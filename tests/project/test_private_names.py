"""Each private name of a library stands in docs/architecture.md, with a test and a cap of the library's version."""

from __future__ import annotations

import re
import tomllib

from tests.project.test_architecture import ROOT

HEADING = "## Private names of libraries"


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows() -> list[list[str]]:
    """The cells of each: name, library and cap, where, test, price."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| .*", text.partition(HEADING)[2].partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_row_names_what_is_used_a_test_and_the_cap_of_the_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    required = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    wrong = []
    for name, cap_of_library, where, test, _price in rows():
        sources = "".join((ROOT / file).read_text(encoding="utf-8") for file in quoted(where))
        for each in quoted(name):
            last = re.split(r"[. ]", each)[-1] if re.fullmatch(r"[\w.]+", each) else each
            if last not in sources:
                wrong.append(f"{each}: is not used")
        if not quoted(test):  # which exists: tests/project/test_documents.py
            wrong.append(f"{name}: no test")
        library, _, cap = cap_of_library.lower().partition(" < ")
        if not cap or not any(re.fullmatch(rf"{library}(\[\w+\])?[^,]*,<{re.escape(cap)}", each) for each in required):
            wrong.append(f"{name}: {cap_of_library}")
    assert wrong == []
