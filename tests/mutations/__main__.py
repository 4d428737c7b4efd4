"""Runs the mutations of the sentences that are named, or all of them, against the tests marked with these sentences.

`python -m tests.mutations [id …] [--unproved] [--under tests/contract …] [--processes 2]`
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.matrix import holders
from tests.mutations import ROOT, Mutation, mutations, results

LONGEST_SECONDS = 400
# Plugins that no marked test needs, and that take longer to load than most of the tests take.
WITHOUT = [f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "hypothesispytest", "faker", "anyio")]
# A server that does not start shows that the mutation breaks everything, not that a test looks at the sentence.
NO_START = "The server did not start"


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    options.add_argument("ids", nargs="*", metavar="id", help="sentences of tests.contract.sentences")
    options.add_argument("--under", nargs="+", default=["tests/"], help="run the marked tests below these paths only")
    options.add_argument("--new", action="store_true", help="leave out what the table says was caught")
    options.add_argument("--unproved", action="store_true", help="only the rows of the table that name no test")
    options.add_argument("--processes", type=int, default=1)
    asked = options.parse_args()
    marked, caught = holders(), results.read()

    def tests_of(mutation: Mutation) -> list[str]:
        """Asked at the start of each run: with --new, what an earlier one has caught is left out."""
        tests = set()
        for sentence in (each for each in mutation.sentences if not asked.ids or each in asked.ids):
            if asked.unproved and caught.get((sentence, mutation.words)):
                continue
            known = {test for (other, _), found in list(caught.items()) if other == sentence for test in found}
            tests |= set(marked[sentence]) - (known if asked.new else set())
        return sorted(test for test in tests if test.startswith(tuple(asked.under)))

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(asked.processes) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(asked.processes):
            trees.put(copied(Path(folder) / str(number)))
        chosen = [each for each in mutations() if tests_of(each)]
        futures = {pool.submit(tried, trees, mutation, tests_of): mutation for mutation in chosen}
        for done in as_completed(futures):
            tests, outcomes = done.result()
            if tests:
                results.record(caught, futures[done], marked, outcomes)
                results.write(caught)
                tell(futures[done], tests, outcomes)


def copied(tree: Path) -> Path:
    """A copy of the tracked and new files of the checkout, with the checkout's virtual environment."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file() and not name.startswith(".venv"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
    return tree


def tried(
    trees: SimpleQueue[Path], mutation: Mutation, tests_of: Callable[[Mutation], list[str]]
) -> tuple[list[str], dict[str, bool]]:
    """The tests that were asked for, and whether those that ran failed: what was skipped or not set up is left out."""
    tests, outcomes = tests_of(mutation), {}
    tree = trees.get()
    try:
        if tests:
            (tree / mutation.path).write_text(mutation.mutated(), encoding="utf-8")
            report = tree / "report.xml"
            report.unlink(missing_ok=True)
            run_tests(tree, [*WITHOUT, "-ptests.mutations.plugin", f"--junitxml={report}", *tests])
            outcomes = outcomes_of(report) if report.exists() else {}
    finally:
        shutil.copy(ROOT / mutation.path, tree / mutation.path)
        trees.put(tree)
    return tests, outcomes


def run_tests(tree: Path, arguments: list[str]) -> None:
    # An editable installation would otherwise be found before the copy.
    variables = {**os.environ, "PYTHONPATH": str(tree)}
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=tree,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # so that the tests end their servers
        process.wait()


def outcomes_of(report: Path) -> dict[str, bool]:
    """A test with parameters has failed when one of them did. One that was interrupted is not named in the report."""
    outcomes: dict[str, bool] = {}
    for case in ElementTree.parse(report).iterfind(".//testcase[@classname]"):
        name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name'].partition('[')[0]}"
        failure = case.find("failure")
        if failure is not None and NO_START not in f"{failure.attrib.get('message')}{failure.text}":
            outcomes[name] = True
        elif failure is None and case.find("error") is None and case.find("skipped") is None:
            outcomes.setdefault(name, False)
    return outcomes


def tell(mutation: Mutation, tests: list[str], outcomes: dict[str, bool]) -> None:
    caught = [test for test, has_failed in outcomes.items() if has_failed]
    print(f"{' '.join(mutation.sentences)}: {mutation.words} {len(caught)} of {len(tests)} tests", flush=True)  # noqa: T201
    for test in tests:
        if not outcomes.get(test):
            print(f"    {'passed' if test in outcomes else 'did not run'}: {test}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
