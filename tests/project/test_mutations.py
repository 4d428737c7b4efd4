"""Each mark is proved by a mutation, and each mutation can be made. `python -m tests.mutations` makes the proofs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.sentences import SENTENCES
from tests.matrix import marked
from tests.mutations import FOLDER, Mutation, mutations, parse, results
from tests.mutations.__main__ import outcomes_of

pytestmark = pytest.mark.once

# Sentences without a mutation, and pairs of a sentence and a marked test that was not yet seen to fail. Only fewer.
NOT_YET_MUTATED: set[str] = set()
NOT_YET_CAUGHT = FOLDER / "not-yet-caught"


def test_every_sentence_has_a_mutation_and_every_mutation_a_sentence() -> None:
    mutated = {sentence for mutation in mutations() for sentence in mutation.sentences}
    assert mutated == set(SENTENCES) - NOT_YET_MUTATED


@pytest.mark.parametrize("mutation", mutations(), ids=lambda mutation: mutation.words)
def test_the_old_text_occurs_exactly_once_and_the_new_one_differs(mutation: Mutation) -> None:
    assert mutation.old != mutation.new
    changed = mutation.mutated()
    if mutation.path.endswith(".py"):
        compile(changed, mutation.path, "exec")


def test_no_two_mutations_of_a_sentence_have_the_same_words() -> None:
    named = [(sentence, each.words) for each in mutations() for sentence in each.sentences]
    assert len(named) == len(set(named))


def test_every_mark_has_caught_a_mutation_of_its_sentence() -> None:
    proved = {(sentence, test) for (sentence, _), tests in results.read().items() for test in tests}
    not_yet = {tuple(line.split()) for line in NOT_YET_CAUGHT.read_text(encoding="utf-8").splitlines()}
    assert set(marked()) - proved == not_yet, "run python -m tests.mutations for the sentences of these marks"


def test_the_table_has_a_row_for_each_mutation_of_each_sentence() -> None:
    assert set(results.read()) == {(sentence, each.words) for each in mutations() for sentence in each.sentences}


def test_a_marked_test_has_caught_each_mutation_of_each_sentence() -> None:
    not_caught = [row for row, tests in results.read().items() if not tests]
    assert not_caught == [], "run python -m tests.mutations --unproved, or write what is missing"


def test_a_mutation_is_read_from_its_paragraph() -> None:
    text = "# A comment.\n\n1.1 D3.exact\nnothing is checked\nconfig/urls.py\n- one\n-     two\n+ three\n"
    assert parse(text) == [
        Mutation(("1.1", "D3.exact"), "nothing is checked", "config/urls.py", "one\n    two", "three")
    ]


def test_what_a_run_that_was_interrupted_found_is_kept(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    case = '<testcase classname="tests.test_a" name="test_b[%s]">%s</testcase>'
    cases = [case % (1, '<failure message="no"/>'), case % (2, ""), '<testcase time="0.1"/>']
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
    assert outcomes_of(report) == {"tests/test_a.py::test_b": True}
