"""docs/mutations.md: which test caught which mutation. Written by `python -m tests.mutations`, read by its next run."""

from __future__ import annotations

from tests.contract.sentences import SENTENCES
from tests.mutations import ROOT, Mutation, mutations

DOCUMENT = ROOT / "docs" / "mutations.md"
HEAD = """# Mutations

A test that is marked with a sentence of the contract claims to fail when that sentence is broken. This table proves it:
what was broken in the source for each sentence, and which of the marked tests failed. Every row names at least one.

`python -m tests.mutations [id …]` makes the changes of `tests/mutations/*.txt`, one at a time, in a copy of the
checkout, runs the tests that are marked with their sentences, and writes the table. With `--unproved` it makes those
whose row names no test yet.

| sentence | what was broken | caught by |
|---|---|---|
"""

Caught = dict[tuple[str, str], set[str]]  # (sentence, words of the mutation) → tests


def read() -> Caught:
    """The table as it stands; empty before the first run."""
    caught: Caught = {}
    lines = DOCUMENT.read_text(encoding="utf-8").splitlines() if DOCUMENT.exists() else []
    for line in lines:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] in SENTENCES:
            tests = {f"tests/{test.strip('`')}" for test in cells[2].split("<br>") if test}
            caught[cells[0], cells[1]] = tests
    return caught


def write(caught: Caught) -> None:
    """Rows of mutations that do not exist any more are left out."""
    rows = []
    every = mutations()
    for sentence in SENTENCES:
        for mutation in every:
            if sentence in mutation.sentences:
                tests = sorted(caught.get((sentence, mutation.words), ()))
                shown = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests)
                rows.append(f"| {sentence} | {mutation.words} | {shown} |")
    DOCUMENT.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")


def record(caught: Caught, mutation: Mutation, holders: dict[str, list[str]], outcomes: dict[str, bool]) -> None:
    """Note the outcomes of one run, test → whether it failed; what was not run keeps its place in the table."""
    for sentence in mutation.sentences:
        tests = caught.setdefault((sentence, mutation.words), set())
        for test in outcomes.keys() & set(holders[sentence]):
            (tests.add if outcomes[test] else tests.discard)(test)
