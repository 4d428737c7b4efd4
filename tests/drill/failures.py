"""What fails, and how it is mended. The bounds are for a machine with two busy cores."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.drill.machines import START_SECONDS, Site, send
from tests.faults.people import Load
from tests.peers import wait_until

SUSPENDED_SECONDS = 40


@dataclass(frozen=True)
class Failure:
    """`happens` returns when everything runs again. No operation may be without an answer for longer than `seconds`."""

    name: str
    seconds: float
    happens: Callable[[Site, Load], None]


def postgresql_is_killed(site: Site, load: Load) -> None:
    send(signal.SIGKILL, site.postgresql_pids(site.primary()))
    load.wait_for_answers()


def machine_is_killed(role: str) -> Callable[[Site, Load], None]:
    def happens(site: Site, load: Load) -> None:
        name = site.primary() if role == "primary" else site.standby()
        site.kill_database(name)
        load.wait_for_answers()
        site.start_database(name)

    return happens


def primary_is_suspended(site: Site, load: Load) -> None:
    """Its connections stay open. Requests that wait for its answer go on afterwards."""
    pids = site.database_pids(site.primary())
    send(signal.SIGSTOP, pids)
    time.sleep(SUSPENDED_SECONDS / 4)
    send(signal.SIGCONT, pids)
    time.sleep(SUSPENDED_SECONDS / 4)  # in which it could take its place back


def primary_is_switched(site: Site, load: Load) -> None:
    old, new = site.primary(), site.standby()
    site.patronictl("switchover", "--master", old, "--candidate", new, "--force", "sign-in")
    wait_until(lambda: site.roles().get(new) == "leader", START_SECONDS)
    load.wait_for_answers()


def etcd_is_away(site: Site, load: Load) -> None:
    for etcd in site.etcds.values():
        etcd.kill()
    time.sleep(SUSPENDED_SECONDS)
    load.wait_for_answers()
    for etcd in site.etcds.values():
        etcd.start()


def redis_is_killed(site: Site, load: Load) -> None:
    """Then the spare, too; and both come back."""
    site.redises["web1"].kill()
    wait_until(lambda: site.counters("web2"), START_SECONDS)
    site.redises["web2"].kill()
    time.sleep(5)
    load.wait_for_answers()
    for redis in site.redises.values():
        redis.start()
    wait_until(lambda: site.counters("web1"), START_SECONDS)


def service_is_killed(site: Site, load: Load) -> None:
    port = int(site.servers["web1"][0].base_url.rpartition(":")[2])
    site.kill_service("web1")
    time.sleep(5)
    load.wait_for_answers()
    site.start_service("web1", port)


def service_is_suspended(site: Site, load: Load) -> None:
    pids = [pid for server in site.servers["web1"] for pid in (server.process.pid, *server.workers())]
    send(signal.SIGSTOP, pids)
    time.sleep(SUSPENDED_SECONDS)
    load.wait_for_answers()
    send(signal.SIGCONT, pids)


FAILURES = (
    Failure("PostgreSQL of the primary is killed", 20, postgresql_is_killed),
    Failure("the machine of the primary is killed", 40, machine_is_killed("primary")),
    Failure("the machine of the primary is silent", 45, primary_is_suspended),
    Failure("the primary is changed: patronictl switchover", 15, primary_is_switched),
    Failure("the machine of the standby is killed", 20, machine_is_killed("standby")),
    Failure("etcd is killed, all three", 5, etcd_is_away),
    Failure("Redis is killed, then its spare", 5, redis_is_killed),
    Failure("a server of ours is killed", 10, service_is_killed),
    Failure("a server of ours is silent", 10, service_is_suspended),
)
