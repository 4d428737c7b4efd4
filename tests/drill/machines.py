"""The machines of docs/high-availability.md on loopback: each has an address, and the documented files and programs."""

from __future__ import annotations

import functools
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import requests
from redis import Redis, RedisError

from tests import documented
from tests.databases import postgresql_programs
from tests.server import WIDE_RATES, Server, children_of, program, serve, wait_until

DOCUMENT = "high-availability.md"
NETWORK = "127.77.0."
DATABASES, WEBS, ETCDS = ("db1", "db2"), ("web1", "web2"), ("db1", "db2", "web1")
UNITS = (8000, 8001)  # the ports of pages and of operations
HOSTS = {"db1": 11, "db2": 12, "web1": 21, "web2": 22}
AS_POSTGRES = ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups")
PROGRAMS = ("etcd", "patroni", "patronictl", "haproxy", "redis-server", "setpriv", "openssl", "nginx")


def address(machine: str) -> str:
    return f"{NETWORK}{HOSTS[machine]}"


def send(number: int, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def is_serving(url: str, certificate: Path | None = None) -> bool:
    with suppress(requests.RequestException), requests.Session() as session:
        session.verify, session.trust_env = str(certificate or ""), False
        return session.get(url, timeout=5).ok
    return False


class Program:
    def __init__(self, log: Path, *command: str | Path, **env: str) -> None:
        self.log, self.command = log, command
        self.env = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ} | env
        self.pids: list[int] = []

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command, env=self.env, stdout=output, stderr=output, start_new_session=True, cwd=self.log.parent
            )
        self.pids = [self.process.pid]

    def kill(self) -> None:
        if self.pids:
            self.process.kill()
            self.process.wait()


class Site:
    """`port` is nginx's, which shows the service to people."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self._passwords: dict[str, str] = {}
        self.secret_key = secrets.token_urlsafe(50)
        self.services = {name: ExitStack() for name in WEBS}
        self.servers: dict[str, list[Server]] = {}
        for name in HOSTS:
            (folder / name).mkdir(mode=0o755)
        kinds = {"etcd": (self._etcd, ETCDS), "redis": (self._redis, WEBS), "haproxy": (self._haproxy, WEBS)}
        kinds |= {"patroni": (self._patroni, DATABASES)}
        self.programs = {(kind, name): make(name) for kind, (make, names) in kinds.items() for name in names}

    # Files ------------------------------------------------------------------------------------------------------------

    def text(self, file: str, machine: str) -> str:
        text = documented.file(file, DOCUMENT)
        for placeholder in set(re.findall(r"[A-Z]+_PASSWORD", text)):
            text = text.replace(placeholder, self.password(placeholder))
        home = self.folder / machine
        for pattern, replacement in {
            r"10\.0\.0\.0/24": "127.0.0.0/8",  # connections on loopback come from 127.0.0.1
            r"10\.0\.0\.": NETWORK,
            r"127\.0\.0\.1(?=:\d)": address(machine),
            r"auth\.example\.com": "localhost",
            r"\bADDRESS\b": address(machine),
            r"\bNAME\b": machine,
            r"/var/lib/(?=postgresql|etcd)": f"{home}/",
            r"/run/postgresql": f"{home}/postgresql",
            r"/usr/lib/postgresql/15/bin": str(postgresql_programs()),
        }.items():
            text = re.sub(pattern, replacement, text)
        return text

    def password(self, placeholder: str) -> str:
        return self._passwords.setdefault(placeholder, secrets.token_hex(16))

    def variables(self, file: str, machine: str) -> dict[str, str]:
        return dict(re.findall(r"^([A-Z0-9_]+)='([^']*)'$", self.text(file, machine), re.MULTILINE))

    def written(self, file: str, machine: str) -> Path:
        path = self.folder / machine / Path(file).name
        path.write_text(self.text(file, machine), encoding="utf-8")
        path.chmod(0o600)
        return path

    # Programs ---------------------------------------------------------------------------------------------------------

    def _etcd(self, name: str) -> Program:
        return Program(self.folder / name / "etcd.log", "etcd", **self.variables("/etc/default/etcd", name))

    def _patroni(self, name: str) -> Program:
        path = self.written("/etc/patroni/config.yml", name)
        home = path.with_name("postgresql")
        home.mkdir()
        for each in (home, path):
            shutil.chown(each, "postgres", "postgres")
        return Program(path.with_name("patroni.log"), *AS_POSTGRES, "patroni", path)

    def _redis(self, name: str) -> Program:
        path = self.written("/etc/redis/redis.conf", name)
        return Program(path.with_name("redis.log"), "redis-server", path, "--dir", path.parent)

    def _haproxy(self, name: str) -> Program:
        path = self.written("/etc/haproxy/haproxy.cfg", name)
        return Program(path.with_name("haproxy.log"), program("haproxy"), "-db", "-f", path)

    def postgresql_pids(self, name: str) -> list[int]:
        path = self.folder / name / "postgresql" / "15" / "sign-in" / "postmaster.pid"
        pid = int(path.read_text().split()[0]) if path.exists() else 0
        if not pid or not Path(f"/proc/{pid}").exists():
            return []
        return [pid, *children_of(pid)]

    def database_pids(self, name: str) -> list[int]:
        patroni, etcd = self.programs["patroni", name], self.programs["etcd", name]
        return [*patroni.pids, *self.postgresql_pids(name), *etcd.pids]

    # The cluster ------------------------------------------------------------------------------------------------------

    def roles(self) -> dict[str, str]:
        """What each PostgreSQL is that runs, as Patroni sees it: leader, sync_standby, replica."""
        for name in DATABASES:
            with suppress(requests.RequestException, ValueError):
                members = requests.get(f"http://{address(name)}:8008/cluster", timeout=2).json()["members"]
                return {each["name"]: each["role"] for each in members if each["state"] in ("running", "streaming")}
        return {}

    def wait_for_pair(self) -> None:
        wait_until(lambda: sorted(self.roles().values()) == ["leader", "sync_standby"])

    def primary(self) -> str:
        return next(name for name, role in self.roles().items() if role == "leader")

    def standby(self) -> str:
        return next(name for name in DATABASES if name != self.primary())

    # The service ------------------------------------------------------------------------------------------------------

    def service_variables(self, name: str, unit: int = UNITS[0]) -> dict[str, str]:
        origin = f"https://localhost:{self.port}"
        return {
            **self.variables("/etc/sign-in.env", name),
            "TRUSTED_PROXIES": "127.0.0.1",  # where connections on loopback come from
            "BIND": f"{address(name)}:{unit}",
            "BASE_URL": origin,
            "AUTH_URL": origin,
            "SECRET_KEY": self.secret_key,
            "RATE_LIMITS": "on",
            "DJANGO_SETTINGS_MODULE": "config.settings",
            **WIDE_RATES,
        }

    def start_service(self, name: str) -> None:
        self.servers[name] = []
        for unit in UNITS:
            folder = self.folder / f"service-{name}-{unit}-{secrets.token_hex(2)}"
            folder.mkdir()
            server = serve(folder, is_awaited=False, **self.service_variables(name, unit))
            self.servers[name].append(self.services[name].enter_context(server))
        for unit in UNITS:
            wait_until(functools.partial(is_serving, f"http://{address(name)}:{unit}/health/ready"))

    def counters(self, name: str) -> int:
        with suppress(RedisError), Redis(address(name), password=self.password("REDIS_PASSWORD")) as client:
            return int(client.dbsize())
        return 0

    # ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """With an empty database and without the service."""
        for each in self.programs.values():
            each.start()
        self.wait_for_pair()
        socket = str(self.folder / self.primary() / "postgresql")
        for sql in (
            f"""CREATE ROLE "sign-in" LOGIN PASSWORD '{self.password("DATABASE_PASSWORD")}'""",
            'CREATE DATABASE "sign-in" OWNER "sign-in"',
        ):
            subprocess.run([*AS_POSTGRES, "psql", "-qh", socket, "-c", sql], check=True, timeout=60, cwd="/")

    def close(self) -> None:
        for service in self.services.values():
            service.close()
        for each in reversed(self.programs.values()):
            each.kill()  # Patroni first, because it would start PostgreSQL again
        for name in DATABASES:
            send(signal.SIGKILL, self.postgresql_pids(name))


def absent_programs() -> str:
    path = f"{os.environ['PATH']}:/usr/sbin"
    absent = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    return ", ".join([*absent, *([] if postgresql_programs() else ["postgresql"])])
