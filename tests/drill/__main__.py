"""`python -m tests.drill [TEXT]`: the failures of machines, with a text those whose names contain it.

They happen one after the other under load. Exits with 1 when one was not survived.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.drill.failures import FAILURES, Happens
from tests.drill.machines import WEBS, Site, absent_programs, is_serving
from tests.faults.people import OPERATIONS, SEED, Client, Load
from tests.peers import certificate_for, nginx
from tests.server import ROOT, environment, free_port, wait_until


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell script ignores it by default
    if (absent := absent_programs()) or os.geteuid() != 0:
        sys.exit(f"The drill needs root, which starts programs as other users. Programs missing: {absent or 'none'}.")
    has_failed = False
    with tempfile.TemporaryDirectory(prefix="drill-") as name, running(Path(name)) as (site, *target):
        print_row(["failure", "requests", "failed", *OPERATIONS, "must", "lost"])
        print_row(["---"] * (5 + len(OPERATIONS)))
        for failure, (seconds, happens) in FAILURES.items():
            if "".join(sys.argv[1:]) in failure:
                cells, is_bad = judge(happens, seconds, site, Load(*target))
                print_row([failure, *cells])
                has_failed |= is_bad
    return int(has_failed)


def print_row(cells: list[str]) -> None:
    sys.stdout.write(f"| {' | '.join(cells)} |\n")
    sys.stdout.flush()


@contextmanager
def running(folder: Path) -> Iterator[tuple[Site, str, Client, str]]:
    """The site with two servers behind nginx, nginx's address, the trusted application and nginx's certificate."""
    folder.chmod(0o755)
    port, certificate, site = free_port(), certificate_for(folder, 2), Site(folder)
    try:
        site.start()
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
            wait_until(lambda: is_serving(f"{url}/health/live", certificate))  # HAProxy has found the servers
            yield site, url, Client(made["client_id"], made["client_secret"]), str(certificate)
    finally:
        site.close()


def judge(happens: Happens, seconds: float, site: Site, load: Load) -> tuple[list[str], bool]:
    """Lets it happen under load, and waits until everything runs again. A row, and whether it is bad."""
    with load:
        load.wait_for_answers()
        began = time.monotonic()
        happens(site, load)
        site.wait_for_pair()
        load.wait_for_answers()
        ended = time.monotonic()
    check(load)
    answers = {name: [each for each in found if each.ended >= began] for name, found in load.answers.items()}
    everything = list(itertools.chain.from_iterable(answers.values()))
    failed = Counter(each.trouble for each in everything if each.trouble)
    gaps = []  # seconds without a right answer
    for name in OPERATIONS:
        times = sorted([began, *(each.ended for each in answers[name] if not each.trouble), ended])
        gaps.append(max(after - before for before, after in itertools.pairwise(times)))
    is_bad = bool(load.broken) or "500" in failed or max(gaps) > seconds
    cells = [f"{len(everything):,}", counted(failed), *(f"{gap:.1f}" for gap in gaps), f"≤ {seconds:g}"]
    return [*cells, counted(load.broken) + (" **BAD**" if is_bad else "")], is_bad


def counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} × {what}" for what, count in found.most_common()) or "none"


def check(load: Load) -> None:
    """Whether everything that was acknowledged is still so; the codes last, because a replay ends its token."""
    driver = load.browser()
    for token in load.tokens.values():
        if (status := driver.userinfo(token).status_code) != 200:
            load.broken[f"a token: afterwards user info answered {status}"] += 1
    for browser in load.sessions:
        if (status := browser.get("/accounts/profile").status_code) != 200:
            load.broken[f"a sign-in: afterwards its session got {status}"] += 1
    for code in (*load.tokens, *load.refused):
        answer = driver.exchange(load.application, code)
        if answer.status_code != 400 or answer.json()["error"] != "invalid_grant":
            load.broken[f"a spent code: its replay got {answer.status_code}"] += 1


if __name__ == "__main__":
    sys.exit(main())
