"""Starts the machines, lets them fail one after the other under load, and judges each failure."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.drill.failures import Failure
from tests.drill.load import OPERATIONS, PROFILE, Load
from tests.drill.machines import WEBS, Site, wait_until
from tests.faults.upgrading import SEED, Client
from tests.peers import certificate_for, nginx
from tests.server import ROOT, environment, free_port

# The columns of the printed table.
HEAD = ["failure", "requests", "failed", *OPERATIONS, "must", "slowest", "acknowledged", "lost"]


@dataclass(frozen=True)
class Result:
    failure: Failure
    requests: int
    failed: Counter[str]  # by what was answered
    gaps: dict[str, float]  # seconds, by operation
    slowest_seconds: float
    acknowledged: int
    broken: Counter[str]

    @property
    def is_bad(self) -> bool:
        return bool(self.broken) or "500" in self.failed or max(self.gaps.values()) > self.failure.seconds

    @property
    def cells(self) -> list[str]:
        return [
            self.failure.name,
            f"{self.requests:,}",
            counted(self.failed),
            *(f"{self.gaps[name]:.1f}" for name in OPERATIONS),
            f"≤ {self.failure.seconds:g}",
            f"{self.slowest_seconds:.1f}",
            f"{self.acknowledged:,}",
            counted(self.broken) + (" **BAD**" if self.is_bad else ""),
        ]


def counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} × {what}" for what, count in found.most_common()) or "none"


@contextmanager
def running(folder: Path) -> Iterator[tuple[Site, Client, str, Path]]:
    """The site with two servers behind nginx, the trusted application, nginx's address and its certificate."""
    port, certificate = free_port(), certificate_for(folder, 2)
    with Site(folder) as site:
        site.psql(f"""CREATE ROLE "sign-in" LOGIN PASSWORD '{site.password("DATABASE_PASSWORD")}'""")
        site.psql('CREATE DATABASE "sign-in" OWNER "sign-in"')
        variables = environment(folder, **site.service_variables("web1", port))
        manage(variables, "migrate", "--verbosity=0")
        made = json.loads(manage(variables, "shell", "--verbosity=0", stdin=SEED))["trusted"]
        for name in WEBS:
            site.start_service(name, port)
        upstream = site.text("/etc/nginx/conf.d/sign-in.conf", "web1").strip()
        with nginx(folder / "nginx", port, upstream, certificate):
            url = f"https://localhost:{port}"
            wait_until(lambda: is_alive(url, certificate), "HAProxy has found the servers")
            yield site, Client(made["client_id"], made["client_secret"]), url, certificate


def is_alive(url: str, certificate: Path) -> bool:
    with requests.Session() as session:
        session.verify, session.trust_env = str(certificate), False
        return session.get(f"{url}/health/live", timeout=5).ok


def manage(variables: dict[str, str], *arguments: str, stdin: str = "") -> str:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=variables, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def judge(failure: Failure, site: Site, load: Load) -> Result:
    """Lets it happen under load, and waits until everything runs again."""
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
    return Result(
        failure,
        len(everything),
        Counter(each.trouble for each in everything if each.trouble),
        {name: gap(began, ended, [each.ended for each in answers[name] if not each.trouble]) for name in OPERATIONS},
        max(each.ended - each.began for each in everything),
        load.ledger.changes + load.ledger.sign_ins + 2 * len(load.ledger.tokens),
        load.ledger.broken,
    )


def gap(began: float, ended: float, right: list[float]) -> float:
    times = sorted([began, *right, ended])
    return max(after - before for before, after in itertools.pairwise(times))


def check(load: Load) -> None:
    """Whether everything that was acknowledged is still so; the codes last, because a replay ends its token."""
    ledger, driver = load.ledger, load.browser()
    for token in ledger.tokens.values():
        status = driver.userinfo(token).status_code
        if status != 200:
            ledger.broken[f"a token: afterwards user info answered {status}"] += 1
    for browser in ledger.sessions:
        status = browser.get("/accounts/profile").status_code
        if status != 200:
            ledger.broken[f"a sign-in: afterwards its session got {status}"] += 1
    if ledger.nicknames and load.nickname(PROFILE) not in ledger.nicknames:
        ledger.broken["a change of a profile"] += 1
    for code in (*ledger.tokens, *ledger.refused):
        answer = driver.exchange(load.application, code)
        if answer.status_code != 400 or answer.json()["error"] != "invalid_grant":
            ledger.broken[f"a spent code: its replay got {answer.status_code}"] += 1
