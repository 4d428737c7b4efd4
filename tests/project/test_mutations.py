"""Each sentence has mutations, and each mutation can be made. `python -m tests.mutations` proves that a test fails."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

from tests.contract.sentences import SENTENCES
from tests.contract_coverage import TESTS
from tests.mutations import ROOT, Mutation, defined, mutations, parse
from tests.mutations.__main__ import outcomes_of
from tests.mutations.operators import OPERATORS, Stale

pytestmark = pytest.mark.once

SOURCE = '''
RULE = f"""UPDATE {table} SET a = 1 WHERE a < 2 AND b IN (%s, '') AND c = 3"""
def rule(a, b):
    """About b."""
    if a < 1 and not b:
        log(b, {"age": a}, name=b)
        return f"{a} {b}"
    return 0
'''


def test_every_sentence_has_a_mutation_and_every_mutation_a_sentence_or_a_test() -> None:
    broken = {each for mutation in mutations() for each in mutation.broken}
    tests = {each for each in broken if "::" in each}
    assert broken - tests == set(SENTENCES)
    assert [each for each in sorted(tests) if not is_test(*each.split("::"))] == []


def is_test(path: str, name: str) -> bool:
    return f"\ndef {name}(" in (TESTS.parent / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("mutation", mutations(), ids=str)
def test_a_mutation_can_be_made_and_uses_names_that_exist(mutation: Mutation) -> None:
    compile(changed := mutation.mutated(), mutation.path, "exec")
    read, known = names(changed)
    assert read <= names((ROOT / mutation.path).read_text(encoding="utf-8"))[0] | known | set(dir(builtins))


def names(source: str) -> tuple[set[str], set[str]]:
    """The names that are read, and those that are defined."""
    read, defined = set(), set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif not isinstance(node, ast.keyword):
            defined |= {str(getattr(node, field, "")) for field in ("arg", "asname", "name")}
    return read, defined


def test_no_mutation_stands_twice() -> None:
    assert len({str(each) for each in mutations()}) == len(mutations())


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        ("rule", "drop log", "pass"),
        ("rule", "drop b #1", "if a < 1:"),
        ("rule", "drop age", "log(b, {}, name=b)"),
        ("rule", "drop name", "log(b, {'age': a})"),
        ("rule", "put _ + 1 for age", "{'age': a + 1}"),
        ("rule", "put False for a b 1", "if False:"),
        ("rule", "become None", "return None"),
        ("rule", "add more=1 for name", "name=b, more=1)"),
        ("rule", "add more=1 for age", "{'age': a, 'more': 1}"),
        ("rule", "insert b = 2 before name", "b = 2\n        log("),
        ("rule", "edge a", "a <= 1"),
        ("rule", "rename age years", "{'years': a}"),
        ("rule", "rename b a #1", "not a"),
        ("RULE", "sql a", "WHERE (a < 2 OR TRUE) AND"),
        ("RULE", "sql b", "(b IN (%s, '') OR TRUE) AND"),
        ("RULE", "text 'SET a' 'SET b'", "SET b = 1"),
        ("RULE", "become 'SELECT'", "RULE = 'SELECT'"),
    ],
)
def test_an_operator_changes_one_node(target: str, change: str, expected: str) -> None:
    tree = ast.parse(SOURCE)
    operator, _, rest = change.partition(" ")
    OPERATORS[operator](defined(tree, [target]), rest)
    assert expected in ast.unparse(ast.fix_missing_locations(tree))


@pytest.mark.parametrize("change", ["drop nothing", "drop a", "put 1 for b #9"])
def test_a_node_that_does_not_exist_or_is_one_of_several_is_named(change: str) -> None:
    operator, _, rest = change.partition(" ")
    with pytest.raises(Stale, match="nodes have"):
        OPERATORS[operator](defined(ast.parse(SOURCE), ["rule"]), rest)


def test_mutations_are_read_from_the_lines_below_their_target() -> None:
    text = "# A comment.\na.b\n    1.1 D3.exact: drop c\n    D5.state: put d: e for f\n"
    assert parse(text) == [
        Mutation(("1.1", "D3.exact"), "a.b", "drop c"),
        Mutation(("D5.state",), "a.b", "put d: e for f"),
    ]


def test_what_a_run_that_was_interrupted_found_is_kept(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    case = '<testcase classname="tests.test_a" name="test_b[%s]">%s</testcase>'
    cases = [case % (1, '<failure message="no"/>'), case % (2, ""), '<testcase time="0.1"/>']
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert outcomes_of(report) == {"tests/test_a.py::test_b": True}
