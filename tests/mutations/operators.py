"""Operators that change the syntax tree of a function or of a module's constant.

    drop WORDS                  leave out a statement, an operand, an argument, an element or an entry
    put VALUE for WORDS         replace an expression; `_` in VALUE is what stood there
    become VALUE                the function returns VALUE at once, or the constant is VALUE
    add NAME=VALUE for WORDS    a call has one argument more, or a dictionary one entry
    insert CODE before WORDS    execute CODE before a statement
    edge WORDS                  < becomes <=, >= becomes >, and so on
    sql WORDS                   a condition of an SQL statement is always true
    text "OLD" "NEW"            replace a part of a string
    rename OLD NEW              replace a keyword, the key of a dictionary, an attribute or a name

WORDS are names and words of strings, of the keyword and of the key too: the smallest node with all of them is meant,
with `#2` the second such node.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

EDGES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
LISTS = ("keywords", "elts", "args", "values", "ifs", "handlers")
CONDITION = re.compile(r"\b(?:AND|WHERE) (?P<it>(?:[^()\n]|\((?:[^()]|\([^()]*\))*\))+?)(?= AND |\s*\n|\s*$|\))")


class Stale(Exception):
    """The function, constant or node of a mutation does not exist, or there are several."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands: in a field of its parent, or at an index of the list in this field."""

    parent: Any
    field: str
    index: int | None

    @property
    def node(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    @property
    def words(self) -> set[str]:
        found = words_of(self.node)
        if isinstance(self.parent, ast.Dict) and (key := self.parent.keys[self.index or 0]):
            found |= words_of(key)
        if isinstance(self.parent, ast.keyword):
            found.add(str(self.parent.arg))
        return found

    def replace(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node

    def remove(self) -> None:
        if isinstance(self.node, ast.stmt):
            self.replace(ast.Pass())
            return
        if isinstance(self.parent, ast.Dict):
            del self.parent.keys[self.index]
        del getattr(self.parent, self.field)[self.index]


def words_of(root: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(root):
        for name in ("id", "attr", "arg", "name", "value"):
            value = getattr(node, name, "")
            if not isinstance(value, ast.AST):
                found |= {str(value), *re.findall(r"\w+", str(value))}
    return found


def places(root: ast.AST) -> Iterator[Place]:
    """Every node below the root but docstrings, in the order of the source."""
    for field, value in ast.iter_fields(root):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            is_docstring = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            if isinstance(child, ast.AST) and not is_docstring:
                yield Place(root, field, index if isinstance(value, list) else None)
                yield from places(child)


def chosen(root: ast.AST, is_meant: Callable[[Place], bool], words: list[str]) -> Place:
    """The smallest node with these words. Raises Stale."""
    number = int(words.pop()[1:]) if words and words[-1].startswith("#") else 0
    having = [place for place in places(root) if is_meant(place) and set(words) <= place.words]
    ids = {id(place.node) for place in having}
    smallest = [place for place in having if not any(id(inner.node) in ids for inner in places(place.node))]
    if not (0 < number <= len(smallest) or len(smallest) == 1 > number):
        raise Stale(f"{len(smallest)} nodes have {' '.join(words)}")
    return smallest[number - 1 if number else 0]


def drop(root: ast.AST, words: str) -> None:
    def can_be_dropped(place: Place) -> bool:
        if isinstance(place.node, ast.stmt):
            return not isinstance(place.node, ast.Pass | ast.FunctionDef | ast.ClassDef)
        is_read = isinstance(getattr(place.node, "ctx", ast.Load()), ast.Load) and not isinstance(place.node, ast.arg)
        return place.field in LISTS and place.index is not None and is_read

    chosen(root, can_be_dropped, shlex.split(words)).remove()


def put(root: ast.AST, rest: str) -> None:
    def is_expression(place: Place) -> bool:
        is_read = isinstance(getattr(place.node, "ctx", ast.Load()), ast.Load)
        is_part = isinstance(place.parent, ast.JoinedStr) or place.field in ("func", "keys", "returns", "annotation")
        return isinstance(place.node, ast.expr) and is_read and not is_part

    value, _, words = rest.rpartition(" for ")
    place = chosen(root, is_expression, shlex.split(words))
    place.replace(_expression(value, place.node))


def become(root: Any, value: str) -> None:
    if isinstance(root, ast.FunctionDef):
        root.body = [ast.Return(_expression(value))]
    else:
        root.value = _expression(value, root.value)


def _expression(source: str, old: Any = None) -> ast.expr:
    class Old(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> Any:
            return old if node.id == "_" and old else node

    return Old().visit(ast.parse(source, mode="eval")).body  # type: ignore[no-any-return]


def add(root: ast.AST, rest: str) -> None:
    entry, _, words = rest.rpartition(" for ")
    name, _, value = entry.partition("=")
    node = chosen(root, lambda place: isinstance(place.node, ast.Call | ast.Dict), shlex.split(words)).node
    if isinstance(node, ast.Dict):
        node.keys.append(ast.Constant(name))
        node.values.append(_expression(value))
    else:
        node.keywords.append(ast.keyword(name, _expression(value)))


def insert(root: ast.AST, rest: str) -> None:
    code, _, words = rest.rpartition(" before ")
    place = chosen(root, lambda place: isinstance(place.node, ast.stmt), shlex.split(words))
    assert place.index is not None
    getattr(place.parent, place.field)[place.index : place.index] = ast.parse(code).body


def edge(root: ast.AST, words: str) -> None:
    def has_edge(place: Place) -> bool:
        return isinstance(place.node, ast.Compare) and any(type(each) in EDGES for each in place.node.ops)

    node = chosen(root, has_edge, shlex.split(words)).node
    node.ops = [EDGES.get(type(each), type(each))() for each in node.ops]


def sql(root: ast.AST, rest: str) -> None:
    words = set(rest.split())
    found = [
        (node, match)
        for node in strings(root)
        for match in CONDITION.finditer(node.value)
        if words <= set(re.findall(r"\w+", match["it"]))
    ]
    if len(found) != 1:
        raise Stale(f"{len(found)} conditions have {rest}")
    node, match = found[0]
    start, end = match.span("it")
    node.value = f"{node.value[:start]}({match['it']} OR TRUE){node.value[end:]}"


def text(root: ast.AST, rest: str) -> None:
    old, new = shlex.split(rest)
    found = [node for node in strings(root) if old in node.value]
    if len(found) != 1:
        raise Stale(f"{len(found)} strings have {old}")
    found[0].value = found[0].value.replace(old, new)


def strings(root: ast.AST) -> list[Any]:
    return [node for node in ast.walk(root) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def rename(root: ast.AST, rest: str) -> None:
    old, new, *number = rest.split()
    named = {ast.keyword: "arg", ast.Attribute: "attr", ast.Name: "id", ast.Constant: "value"}

    def has_name(place: Place) -> bool:
        is_key = place.field == "keys" or not isinstance(place.node, ast.Constant)
        return is_key and getattr(place.node, named.get(type(place.node), ""), None) == old

    node = chosen(root, has_name, [old, *number]).node
    setattr(node, named[type(node)], new)


OPERATORS: dict[str, Callable[[Any, str], None]] = {
    each.__name__: each for each in (drop, put, become, add, insert, edge, sql, text, rename)
}
