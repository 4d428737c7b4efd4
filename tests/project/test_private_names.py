"""Each private name of a library stands in docs/decisions.md, with a test and a cap of the library's version."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from typing import NamedTuple

from tests.project.test_architecture import ROOT, SOURCES, place, tree

# Private in spelling only: Django and Python document them.
DOCUMENTED = {"_meta", "_default_manager", "_base_manager", "_replace", "_asdict"}
HEADING = "## Private names of libraries"


class Row(NamedTuple):
    """A row of the table. `name` and the others are its cells."""

    name: str
    library: str
    where: str
    breaks: str
    test: str
    price: str


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows() -> list[Row]:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    part = text.partition(HEADING)[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [Row(*(cell.strip() for cell in line.strip("|").split(" | "))) for line in lines[1:]]


def is_private(name: object) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(r"_[A-Za-z]\w*", name)) and name not in DOCUMENTED


def own_names(tree: ast.Module) -> Iterator[str]:
    """The names that a file defines: functions, classes, variables, and attributes that an `__init__` sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            yield from (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute))


def foreign_names(tree: ast.Module, own: set[str]) -> Iterator[str]:
    """The private names that a file takes from elsewhere: attributes, also by `getattr` or `super()`, and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            is_of_base = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
            if is_of_base or node.attr not in own:
                yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if is_private(alias.name) and alias.name not in own)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr", "delattr"):
            name = getattr(node.args[1], "value", None)
            if is_private(name) and name not in own:
                yield name


def test_each_private_name_that_is_used_is_listed() -> None:
    own = {name for path in SOURCES for name in own_names(tree(path))}
    used = {(place(path), name) for path in SOURCES for name in foreign_names(tree(path), own)}
    listed = {(file, part) for row in rows() for file in quoted(row.where) for part in re.findall(r"\w+", row.name)}
    assert len(used) >= 4  # so that a test that finds nothing fails
    assert used <= listed


def test_each_row_names_what_is_used_a_test_and_the_cap_of_the_library() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    required = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    wrong = []
    for row in rows():
        sources = "".join((ROOT / file).read_text(encoding="utf-8") for file in quoted(row.where))
        for name in quoted(row.name):
            last = re.split(r"[. ]", name)[-1] if re.fullmatch(r"[\w.]+", name) else name
            if last not in sources:
                wrong.append(f"{name}: is not used")
        if not quoted(row.test) or not all(is_test(*test.partition("::")[::2]) for test in quoted(row.test)):
            wrong.append(f"{row.name}: {row.test}")
        library, _, cap = row.library.lower().partition(" < ")
        if not cap or not any(re.fullmatch(rf"{library}(\[\w+\])?[^,]*,<{re.escape(cap)}", each) for each in required):
            wrong.append(f"{row.name}: {row.library}")
    assert wrong == []


def is_test(file: str, function: str) -> bool:
    path = ROOT / "tests" / file
    return path.is_file() and (not function or f"def {function}(" in path.read_text(encoding="utf-8"))
