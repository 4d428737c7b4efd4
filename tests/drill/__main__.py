"""`python -m tests.drill [TEXT]`: the failures of machines; with a text those whose names contain it.

They happen one after the other under load. Exits with 1 when one was not survived.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.drill.failures import FAILURES, Failure
from tests.drill.machines import START_SECONDS, WEBS, Site, is_serving, require_programs
from tests.faults.people import OPERATIONS, SEED, Client, Load
from tests.peers import certificate_for, nginx, wait_until
from tests.server import ROOT, environment, free_port

HEAD = ["failure", "requests", "failed", *OPERATIONS, "must", "slowest", "acknowledged", "lost"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drill", description=__doc__)
    parser.add_argument("text", nargs="?", default="", help="run only what contains it in its name")
    parser.add_argument("--folder", type=Path, help="a new folder, in which logs are kept")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell script ignores it by default
    require_programs()
    has_failed = False
    with ExitStack() as opened:
        folder = arguments.folder or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="drill-")))
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        site, application, url, certificate = opened.enter_context(running(folder))
        print_row(HEAD)
        print_row(["---"] * len(HEAD))
        for failure in (failure for failure in FAILURES if arguments.text in failure.name):
            cells, is_bad = judge(failure, site, Load(url, str(certificate), application))
            print_row(cells)
            has_failed |= is_bad
    return int(has_failed)


def print_row(cells: list[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


@contextmanager
def running(folder: Path) -> Iterator[tuple[Site, Client, str, Path]]:
    """The site with two servers behind nginx, the trusted application, nginx's address and its certificate."""
    port, certificate = free_port(), certificate_for(folder, 2)
    with Site(folder) as site:
        site.psql(f"""CREATE ROLE "sign-in" LOGIN PASSWORD '{site.password("DATABASE_PASSWORD")}'""")
        site.psql('CREATE DATABASE "sign-in" OWNER "sign-in"')
        variables = environment(folder, **site.service_variables("web1", port))

        def manage(*command: str, stdin: str = "") -> str:
            options = {"cwd": ROOT, "env": variables, "input": stdin, "text": True, "stdout": subprocess.PIPE}
            done = subprocess.run([sys.executable, "manage.py", *command], check=True, **options)  # type: ignore[call-overload]
            return str(done.stdout)

        manage("migrate", "--verbosity=0")
        made = json.loads(manage("shell", "--verbosity=0", stdin=SEED))["trusted"]
        for name in WEBS:
            site.start_service(name, port)
        upstream = site.text("/etc/nginx/conf.d/sign-in.conf", "web1").strip()
        with nginx(folder / "nginx", port, upstream, certificate):
            url = f"https://localhost:{port}"
            # HAProxy has found the servers.
            wait_until(lambda: is_serving(f"{url}/health/live", certificate), START_SECONDS)
            yield site, Client(made["client_id"], made["client_secret"]), url, certificate


def judge(failure: Failure, site: Site, load: Load) -> tuple[list[str], bool]:
    """Lets it happen under load, and waits until everything runs again. A row, and whether it is bad."""
    with load:
        load.wait_for_answers()
        began = time.monotonic()
        failure.happens(site, load)
        site.wait_for_pair()
        load.wait_for_answers()
        ended = time.monotonic()
    check(load)
    answers = {name: [each for each in found if each.ended >= began] for name, found in load.answers.items()}
    everything = list(itertools.chain.from_iterable(answers.values()))
    failed = Counter(each.trouble for each in everything if each.trouble)
    gaps = {}  # seconds without a right answer
    for name in OPERATIONS:
        times = sorted([began, *(each.ended for each in answers[name] if not each.trouble), ended])
        gaps[name] = max(after - before for before, after in itertools.pairwise(times))
    broken = load.ledger.broken
    is_bad = bool(broken) or "500" in failed or max(gaps.values()) > failure.seconds
    cells = [failure.name, f"{len(everything):,}", counted(failed), *(f"{gap:.1f}" for gap in gaps.values())]
    cells += [f"≤ {failure.seconds:g}", f"{max(each.ended - each.began for each in everything):.1f}"]
    cells.append(f"{load.ledger.sign_ins + 2 * len(load.ledger.tokens):,}")
    return [*cells, counted(broken) + (" **BAD**" if is_bad else "")], is_bad


def counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} × {what}" for what, count in found.most_common()) or "none"


def check(load: Load) -> None:
    """Whether everything that was acknowledged is still so; the codes last, because a replay ends its token."""
    ledger, driver = load.ledger, load.browser()
    for token in ledger.tokens.values():
        if (status := driver.userinfo(token).status_code) != 200:
            ledger.broken[f"a token: afterwards user info answered {status}"] += 1
    for browser in ledger.sessions:
        if (status := browser.get("/accounts/profile").status_code) != 200:
            ledger.broken[f"a sign-in: afterwards its session got {status}"] += 1
    for code in (*ledger.tokens, *ledger.refused):
        answer = driver.exchange(load.application, code)
        if answer.status_code != 400 or answer.json()["error"] != "invalid_grant":
            ledger.broken[f"a spent code: its replay got {answer.status_code}"] += 1


if __name__ == "__main__":
    sys.exit(main())
