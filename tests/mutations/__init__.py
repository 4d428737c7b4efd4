"""Mutations: changes that break the sentences of the contract, each made by an operator at a node of the syntax tree.

They stand in the text files of this folder: the dotted name of a function, method or constant, or of a module, and
below it a line for each mutation: what it breaks, and how. What it breaks are ids of sentences, whose marked tests must
fail, or one test, as pytest names it.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutations.operators import OPERATORS, Stale

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent.parent


@dataclass(frozen=True, slots=True)
class Mutation:
    """`changes` are operators with their words, separated by " && "."""

    broken: tuple[str, ...]
    target: str
    changes: str

    def __str__(self) -> str:
        return f"{self.target}: {self.changes}"

    @property
    def path(self) -> str:
        """The file of the target, relative to the root. Raises Stale."""
        return self._found()[0]

    def mutated(self) -> str:
        """The text of the file with the mutation in it. Raises Stale."""
        path, names = self._found()
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        before = ast.dump(tree)
        definition = defined(tree, names)
        for change in self.changes.split(" && "):
            operator, _, rest = change.partition(" ")
            OPERATORS[operator](definition, rest)
        if ast.dump(tree) == before:
            raise Stale(f"{self} changes nothing")
        return ast.unparse(ast.fix_missing_locations(tree))

    def diff(self) -> str:
        before = ast.unparse(ast.parse((ROOT / self.path).read_text(encoding="utf-8")))
        lines = difflib.unified_diff(before.splitlines(), self.mutated().splitlines(), n=2, lineterm="")
        return "\n".join([str(self), *lines])

    def _found(self) -> tuple[str, list[str]]:
        names = self.target.split(".")
        for number in range(len(names), 0, -1):
            path = f"{'/'.join(names[:number])}.py"
            if (ROOT / path).is_file():
                return path, names[number:]
        raise Stale(f"there is no module for {self.target}")


def defined(node: Any, names: list[str]) -> Any:
    """The function, method, class or constant with these names, one inside the other. Raises Stale."""
    for name in names:
        inner = [each for each in ast.walk(node) if each is not node and name in _names(each)]
        if not inner:
            raise Stale(f"{name} is not defined")
        node = inner[0]
    return node


def _names(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [ast.unparse(target) for target in targets]
        case ast.AnnAssign(target=target):
            return [ast.unparse(target)]
    return []


def parse(text: str) -> list[Mutation]:
    """The mutations of one file of this folder."""
    found, target = [], ""
    for line in text.splitlines():
        if line.startswith("    "):
            broken, _, changes = line.strip().partition(": ")
            found.append(Mutation(tuple(broken.split()), target, changes))
        elif line and not line.startswith("#"):
            target = line
    return found


def mutations() -> list[Mutation]:
    """Every mutation, in the order of the files."""
    return [each for path in sorted(FOLDER.glob("*.txt")) for each in parse(path.read_text(encoding="utf-8"))]
