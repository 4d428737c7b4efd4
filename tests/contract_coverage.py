"""Which tests verify which sentence of the contract."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.sentences import SENTENCES

TESTS = Path(__file__).resolve().parent


def contract(*sentences: str) -> pytest.MarkDecorator:
    """Marks the test as one that verifies these sentences of `tests.contract.sentences`."""
    return pytest.mark.contract(*sentences)


def marked() -> Iterator[tuple[str, str]]:
    """Pairs of a sentence's id and a test that is marked with it, read from the source."""
    for path in sorted(TESTS.rglob("test_*.py")):
        place = path.relative_to(TESTS.parent).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for sentence in _named(node):
                    yield sentence, f"{place}::{node.name}"


def _named(function: ast.FunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name) and decorator.func.id == "contract":
            yield from (each.value for each in decorator.args if isinstance(each, ast.Constant))


def holders() -> dict[str, list[str]]:
    """All sentences, each with the tests that verify it, in the order of the contract."""
    found: dict[str, list[str]] = {sentence: [] for sentence in SENTENCES}
    for sentence, test in marked():
        found.setdefault(sentence, []).append(test)
    return found
