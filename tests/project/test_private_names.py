"""Each private name of a library stands in docs/architecture.md, with a test and a cap of the library's version."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator

from tests.project.test_architecture import ROOT, SOURCES, place, tree

# Private in spelling only: Django and Python document them.
DOCUMENTED = {"_meta", "_default_manager", "_base_manager", "_replace", "_asdict"}
HEADING = "## Private names of libraries"


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def rows() -> list[list[str]]:
    """The cells of each: name, library and cap, where, test, price."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| .*", text.partition(HEADING)[2].partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def is_private(name: object) -> bool:
    return isinstance(name, str) and bool(re.fullmatch(r"_[A-Za-z]\w*", name)) and name not in DOCUMENTED


def own_names(tree: ast.Module) -> Iterator[str]:
    """The names that a file defines: functions, classes, variables, and attributes that it sets."""
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
        names: list[object] = []
        if isinstance(node, ast.Attribute):
            is_of_base = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
            names = [node.attr] if is_of_base or node.attr not in own else []
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names if alias.name not in own]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr", "hasattr", "delattr"):
            names = [name] if (name := getattr(node.args[1], "value", None)) not in own else []
        yield from (str(name) for name in names if is_private(name))


def test_each_private_name_that_is_used_is_listed() -> None:
    own = {name for path in SOURCES for name in own_names(tree(path))}
    used = {(place(path), name) for path in SOURCES for name in foreign_names(tree(path), own)}
    listed = {
        (file, part) for name, _, where, *_ in rows() for file in quoted(where) for part in re.findall(r"\w+", name)
    }
    assert used  # so that a test that finds nothing fails
    assert used <= listed


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
