"""Which tests verify which sentence of the contract."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.contract.sentences import SENTENCES

TESTS = Path(__file__).resolve().parent


# Marks a test as one that verifies sentences of `tests.contract.sentences`, which are named by their ids.
contract = pytest.mark.contract


def holders() -> dict[str, list[str]]:
    """All sentences, each with the tests that are marked with it, in the order of the contract."""
    found: dict[str, list[str]] = {sentence: [] for sentence in SENTENCES}
    for path in sorted(TESTS.rglob("test_*.py")):
        functions = [
            node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)
        ]
        for function in functions:
            for mark in function.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "contract":
                    for sentence in map(ast.literal_eval, mark.args):
                        found.setdefault(sentence, []).append(f"{path.relative_to(TESTS.parent)}::{function.name}")
    return found
