"""Makes the mutations, or those of some sentences or below some dotted names, and prints which tests caught them.

`python -m tests.mutations [id or name …] [--under tests/contract …] [--processes 2] [--diff]`

Each mutation is made alone, in a copy of the checkout, and the tests that are marked with its sentences run there. The
exit status is 1 when a mutation was caught by none of them, or a marked test has failed for no mutation of its
sentence.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import urlsplit

from tests.contract_coverage import holders
from tests.mutations import ROOT, Mutation, mutations

LONGEST_SECONDS = 400
# Plugins that no marked test needs, and that take longer to load than most of the tests take.
WITHOUT = [f"-pno:{plugin}" for plugin in ("cacheprovider", "schemathesis", "hypothesispytest", "faker", "anyio")]
# A server that does not start shows that the mutation breaks everything, not that a test looks at the sentence.
NO_START = "The server did not start"

Outcomes = dict[str, bool]  # test → whether it failed; what was skipped or not set up is left out
Caught = dict[tuple[str, Mutation], list[str]]  # what a mutation breaks, and the mutation → the tests that failed


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m tests.mutations", description=__doc__)
    options.add_argument("names", nargs="*", metavar="name", help="sentences of tests.contract.sentences, dotted names")
    options.add_argument("--under", nargs="+", default=["tests/"], help="run the tests below these paths only")
    options.add_argument("--processes", type=int, default=1)
    options.add_argument("--diff", action="store_true", help="only print what each changes")
    asked = options.parse_args()
    marked = holders()

    def broken(mutation: Mutation) -> list[str]:
        is_named = not asked.names or mutation.target.startswith(tuple(asked.names))
        return [each for each in mutation.broken if is_named or each in asked.names]

    def tests_of(mutation: Mutation) -> list[str]:
        tests = {test for each in broken(mutation) for test in marked.get(each, [each])}
        return sorted(test for test in tests if test.startswith(tuple(asked.under)))

    wanted = [each for each in mutations() if tests_of(each)]
    if asked.diff:
        return print(*(each.diff() for each in wanted), sep="\n\n")  # noqa: T201
    caught: Caught = {}
    for mutation, outcomes in run_all(wanted, tests_of, asked.processes):
        for each in broken(mutation):
            caught[each, mutation] = [test for test in marked.get(each, [each]) if outcomes.get(test)]
    print(table(caught))  # noqa: T201
    problems = [f"survived: {each} | {mutation}" for (each, mutation), tests in caught.items() if not tests]
    if asked.under == ["tests/"]:
        problems += unproved(caught, {each: marked.get(each, []) for each in asked.names or marked})
    print(f"{len(wanted)} mutations", *problems, sep="\n")  # noqa: T201
    sys.exit(bool(problems))


def unproved(caught: Caught, marked: dict[str, list[str]]) -> list[str]:
    """Marks of tests that failed for no mutation of their sentence."""
    proved = {(each, test) for (each, _), tests in caught.items() for test in tests}
    pairs = [(each, test) for each, tests in marked.items() for test in tests]
    return [f"never failed: {each} | {test}" for each, test in pairs if (each, test) not in proved]


def table(caught: Caught) -> str:
    """A row for each sentence and mutation, with the tests that failed, in Markdown."""
    rows = ["| sentence | mutation | caught by |", "|---|---|---|"]
    rows += [
        f"| {each} | {mutation} | {'<br>'.join(tests)} |" for (each, mutation), tests in sorted(caught.items(), key=str)
    ]
    return "\n".join(rows)


def run_all(
    wanted: list[Mutation], tests_of: Callable[[Mutation], list[str]], processes: int
) -> Iterator[tuple[Mutation, Outcomes]]:
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            trees.put(copied(Path(folder) / str(number)))
        futures = {pool.submit(run, trees, mutation, tests_of(mutation)): mutation for mutation in wanted}
        for done in as_completed(futures):
            yield futures[done], done.result()


def copied(tree: Path) -> Path:
    """A copy of the tracked and new files of the checkout."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listed, cwd=ROOT, text=True).splitlines():
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


def run(trees: SimpleQueue[Path], mutation: Mutation, tests: list[str]) -> Outcomes:
    tree = trees.get()
    report = tree / "report.xml"
    report.unlink(missing_ok=True)
    try:
        (tree / mutation.path).write_text(mutation.mutated(), encoding="utf-8")
        run_tests(tree, [*WITHOUT, "-ptests.mutations.plugin", "-m", "", f"--junitxml={report}", *tests])
    finally:
        shutil.copy(ROOT / mutation.path, tree / mutation.path)
        trees.put(tree)
    outcomes = outcomes_of(report) if report.exists() else {}
    print(f"{mutation}: {sum(outcomes.values())} of {len(tests)} tests failed", file=sys.stderr, flush=True)  # noqa: T201
    for test in sorted(set(tests) - outcomes.keys()):
        print(f"    did not run: {test}", file=sys.stderr, flush=True)  # noqa: T201
    return outcomes


def run_tests(tree: Path, arguments: list[str]) -> None:
    # An editable installation would otherwise be found before the copy.
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), **own_servers(int(tree.name))},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(LONGEST_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)  # so that the tests end their servers
        process.wait()


def own_servers(number: int) -> dict[str, str]:
    """DATABASE_URL and REDIS_URL of one of several runs at once: the test database takes its name from the first."""
    changed = {}
    for name in ("DATABASE_URL", "REDIS_URL") if number else ():
        if url := os.environ.get(name):
            given = urlsplit(url)
            path = f"{given.path}{number}" if name == "DATABASE_URL" else f"/{int(given.path.strip('/') or 0) + number}"
            changed[name] = given._replace(path=path).geturl()
    return changed


def outcomes_of(report: Path) -> Outcomes:
    """A test with parameters has failed when one of them did. One that was interrupted is not named in the report."""
    outcomes: Outcomes = {}
    for case in ElementTree.parse(report).iterfind(".//testcase[@classname]"):
        name = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name'].partition('[')[0]}"
        failure = case.find("failure")
        if failure is not None and NO_START not in f"{failure.attrib.get('message')}{failure.text}":
            outcomes[name] = True
        elif failure is None and case.find("error") is None and case.find("skipped") is None:
            outcomes.setdefault(name, False)
    return outcomes


if __name__ == "__main__":
    main()
