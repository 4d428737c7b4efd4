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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.drill.machines import ETCDS, WEBS, Site, absent_programs, is_serving, send
from tests.faults.people import OPERATIONS, SEED, Client, Load
from tests.peers import certificate_for, nginx
from tests.server import ROOT, environment, free_port, wait_until

Happens = Callable[[Site, Load], None]  # returns when everything runs again


def postgresql_is_killed(site: Site, load: Load) -> None:
    send(signal.SIGKILL, site.postgresql_pids(site.primary()))
    load.wait_for_answers()


def machine_is_killed(role: Callable[[Site], str]) -> Happens:
    def happens(site: Site, load: Load) -> None:
        name = role(site)
        patroni, etcd = site.programs["patroni", name], site.programs["etcd", name]
        send(signal.SIGKILL, site.database_pids(name))
        load.wait_for_answers()
        etcd.start()
        patroni.start()

    return happens


def primary_is_suspended(site: Site, _load: Load) -> None:
    """Its connections stay open. Requests that wait for its answer go on afterwards."""
    pids = site.database_pids(site.primary())
    send(signal.SIGSTOP, pids)
    time.sleep(10)
    send(signal.SIGCONT, pids)
    time.sleep(10)  # in which it could take its place back


def primary_is_switched(site: Site, load: Load) -> None:
    old, new = site.primary(), site.standby()
    switch = ("patronictl", "-c", site.folder / "db1" / "config.yml", "switchover", "--force")
    command = [*switch, "--master", old, "--candidate", new, "sign-in"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    wait_until(lambda: site.roles().get(new) == "leader")
    load.wait_for_answers()


def etcd_is_away(site: Site, load: Load) -> None:
    etcds = [site.programs["etcd", name] for name in ETCDS]
    for etcd in etcds:
        etcd.kill()
    time.sleep(40)
    load.wait_for_answers()
    for etcd in etcds:
        etcd.start()


def redis_is_killed(site: Site, load: Load) -> None:
    """Redis is killed, then the spare. Both come back."""
    first, second = (site.programs["redis", name] for name in WEBS)
    first.kill()
    wait_until(lambda: site.counters("web2"))
    second.kill()
    time.sleep(5)
    load.wait_for_answers()
    first.start()
    second.start()
    wait_until(lambda: site.counters("web1"))


def service_is_killed(site: Site, load: Load) -> None:
    site.services["web1"].close()
    time.sleep(5)
    load.wait_for_answers()
    site.start_service("web1")


def service_is_suspended(site: Site, load: Load) -> None:
    pids = [pid for server in site.servers["web1"] for pid in (server.process.pid, *server.workers())]
    send(signal.SIGSTOP, pids)
    time.sleep(40)
    load.wait_for_answers()
    send(signal.SIGCONT, pids)


# On a machine with two busy cores, no operation may be without an answer for longer than so many seconds.
FAILURES: dict[str, tuple[float, Happens]] = {
    "PostgreSQL of the primary is killed": (20, postgresql_is_killed),
    "the machine of the primary is killed": (40, machine_is_killed(Site.primary)),
    "the machine of the primary is silent": (45, primary_is_suspended),
    "the primary is changed: patronictl switchover": (15, primary_is_switched),
    "the machine of the standby is killed": (20, machine_is_killed(Site.standby)),
    "etcd is killed, all three": (5, etcd_is_away),
    "Redis is killed, then its spare": (5, redis_is_killed),
    "a server of ours is killed": (10, service_is_killed),
    "a server of ours is silent": (10, service_is_suspended),
}


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
    """The site with two servers behind nginx; then what Load takes: address, trusted application, certificate."""
    folder.chmod(0o755)
    port, certificate = free_port(), certificate_for(folder, 2)
    site = Site(folder, port)
    try:
        site.start()
        variables = environment(folder, **site.service_variables("web1"))

        def manage(*command: str, stdin: str = "") -> str:
            options = {"cwd": ROOT, "env": variables, "input": stdin, "text": True, "stdout": subprocess.PIPE}
            done = subprocess.run([sys.executable, "manage.py", *command], check=True, **options)  # type: ignore[call-overload]
            return str(done.stdout)

        manage("migrate", "--verbosity=0")
        made = json.loads(manage("shell", "--verbosity=0", stdin=SEED))["trusted"]
        for name in WEBS:
            site.start_service(name)
        upstream = site.text("/etc/nginx/conf.d/sign-in.conf", "web1").strip()
        with nginx(folder / "nginx", port, upstream, certificate):
            url = f"https://localhost:{port}"
            wait_until(lambda: is_serving(f"{url}/health/live", certificate))  # HAProxy has found the servers
            yield site, url, Client(made["client_id"], made["client_secret"]), str(certificate)
    finally:
        site.close()


def judge(happens: Happens, seconds: float, site: Site, load: Load) -> tuple[list[str], bool]:
    """Let it happen under load. The cells of a row, and whether the failure was not survived."""
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
