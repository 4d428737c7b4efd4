"""Fixtures for all tests. They use the database of DATABASE_URL, or SQLite in a file."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import time_machine
from django.conf import settings
from django.core.cache import cache
from django.core.management import execute_from_command_line
from django.db import connection
from django.test import Client, RequestFactory
from django.test.utils import setup_databases, teardown_databases
from django.utils import timezone

from accounts.models import OutgoingMail
from accounts.pictures import reencoder_runner
from config.infrastructure import rate_limits
from oauth_bridge.activity import counts
from oauth_bridge.models import SigningKey
from tests import factories, pages
from tests.contract import openapi_responses
from tests.databases import Cluster, OwnRedis, in_use, migrate, postgresql_programs
from tests.driver import RESPONSE_CHECKS, SEEN, OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory, Registered, database_text
from tests.pages import Account
from tests.peers import MailServer
from tests.server import ROOT, Server, environment, running, serve, worker_number

Launch = Callable[..., Server]
SCATTERED = ("tests/unit/", "tests/security/")


def pytest_configure(config: pytest.Config) -> None:
    RequestFactory.post = pages.post  # type: ignore[method-assign]
    config.addinivalue_line("markers", "contract(*sentences): the sentences of the contract that the test holds")
    RESPONSE_CHECKS.append(openapi_responses.check)
    if os.environ.get("REDIS_URL"):  # each process, with the servers that it starts, counts in a database of its own
        given = urlsplit(os.environ["REDIS_URL"])
        url = given._replace(path=f"/{int(given.path.strip('/') or 0) + worker_number()}").geturl()
        os.environ["REDIS_URL"] = settings.REDIS_URL = url
        for each in settings.CACHES.values():
            each["LOCATION"] = url


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """A process for each core, at most eight, and none for the tests of single files."""
    is_named = config.args_source is config.ArgsSource.ARGS  # not those of `testpaths`
    names_files = is_named and all("." in Path(argument).name for argument in config.args)
    return 0 if names_files else min(os.cpu_count() or 1, 8)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what the integration run repeats. Unit, contract and security tests have the mark where they need it.

    One process runs the tests of a file, which share servers and browsers; those of SCATTERED run anywhere.
    """
    if not item.nodeid.startswith((*SCATTERED, "tests/contract/")):
        item.add_marker("integration")
    if not item.nodeid.startswith(SCATTERED):
        item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests in a transaction first, because they expect empty tables."""

    def is_in_transaction(item: pytest.Item) -> bool:
        return bool(item.get_closest_marker("django_db")) or "db" in getattr(item, "fixturenames", ())

    items.sort(key=lambda item: not (item.nodeid.startswith(SCATTERED) and is_in_transaction(item)))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Add the last lines of the servers' logs to a failure. With CI set, a skip is a failure, unless the integration
    run repeats the test.
    """
    outcome: Any = yield
    report = outcome.get_result()
    if report.failed:
        for server in running:
            lines = [line for line in server.log.splitlines() if '"level":"info"' not in line]
            report.sections.append((f"log of {server.base_url}", "\n".join(lines[-5:])))
    is_repeated = item.get_closest_marker("integration") and connection.vendor == "sqlite"
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") and not is_repeated:
        report.outcome = "failed"
        report.longrepr = f"skipped, but CI is set: {report.longrepr}"


@pytest.fixture(scope="session")
def sqlite_template(
    django_test_environment: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A migrated SQLite file without rows, to be copied: the migrations take seconds."""
    path = tmp_path_factory.mktemp("template") / "db.sqlite3"
    with django_db_blocker.unblock():
        migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """A database of each process, also where no test of the run uses `db`: tests over HTTP would write into that of
    DATABASE_URL. SQLite is in a file, so that the server under test sees the same rows.
    """
    folder = tmp_path_factory.mktemp("database")
    name = f"test_{connection.settings_dict['NAME']}_{'_'.join(folder.parts[-3:-1])}"
    if connection.vendor == "sqlite":
        name = str(folder / "db.sqlite3")
    connection.settings_dict["TEST"]["NAME"] = name
    with django_db_blocker.unblock():
        before = setup_databases(verbosity=0, interactive=False, serialized_aliases=set())
    yield
    with django_db_blocker.unblock():
        if connection.vendor == "postgresql":  # which drops no database that a server under test has just used
            connection.cursor().execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        teardown_databases(before, verbosity=0)


@pytest.fixture(autouse=True)
def origin_of_the_test_client(settings: Any) -> None:
    """Django's test client sends its requests to the origin of the service (D1). Servers have their own origins."""
    settings.BASE_URL = settings.AUTH_URL = "http://testserver"
    settings.ORIGINS_ARE_SET = True


@pytest.fixture(autouse=True)
def commits_in_tests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a test in a transaction, run the hooks of `on_commit` once that transaction is the only open one.

    Django's TestCase would never run them.
    """

    def then_run_hooks(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **options: Any) -> None:
            method(*arguments, **options)
            if all(block._from_testcase for block in connection.atomic_blocks):
                hooks, connection.run_on_commit[:] = list(connection.run_on_commit), []
                for _savepoints, hook, _robust in hooks:
                    hook()

        return call

    marker = request.node.get_closest_marker("django_db")
    if "db" in request.fixturenames or (marker and not marker.kwargs.get("transaction")):
        for name in ("on_commit", "savepoint_commit"):
            monkeypatch.setattr(connection, name, then_run_hooks(getattr(connection, name)))


@pytest.fixture
def real_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["accounts.passwords.hashing.PasswordHasher"]


@pytest.fixture(autouse=True)
def fresh_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No event of another test counts against a limit or a budget, and the windows of all limits begin with the test.

    django-ratelimit takes the beginning of a window from a checksum, so one could end in the middle of a test.
    """
    cache.clear()
    monkeypatch.setattr(counts, "_waiting", counts.Waiting())
    just_ended = int(time.time()) - 1
    monkeypatch.setattr("django_ratelimit.core.zlib", SimpleNamespace(crc32=lambda _key: just_ended))


@pytest.fixture
def one_moment(fresh_counters: None) -> Iterator[None]:
    """A clock that stands still."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


@pytest.fixture
def redis_away(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service counts in Redis, and nothing listens at its port."""
    monkeypatch.setattr(rate_limits, "outage", rate_limits.Outage())
    rate_limits._own_counts.clear()
    settings.REDIS_URL = url = "redis://127.0.0.1:1/0"
    backends = {"default": "FailOpenRedisCache", "limits": "RateLimitCache"}
    settings.CACHES = {
        alias: {"BACKEND": f"config.infrastructure.rate_limits.{backend}", "LOCATION": url, "OPTIONS": {}}
        for alias, backend in backends.items()
    }


@pytest.fixture(scope="session", autouse=True)
def patience_and_speed() -> Iterator[None]:
    """Time-outs that a slow or busy machine does not reach. Servers under test keep those of the service."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("socket_timeout", "socket_connect_timeout") if settings.REDIS_URL else ():
            patch.setitem(settings.CACHES["default"]["OPTIONS"], name, 20)
        if (database := settings.DATABASES["default"])["ENGINE"] == "config.infrastructure.sql":
            patch.setitem(database["OPTIONS"], "connect_timeout", 60)
        patch.setattr(reencoder_runner, "RUN_SECONDS", 600.0)
        # To compare all eight masks of a QR code takes nine tenths of the time.
        patch.setattr("qrcode.QRCode.best_mask_pattern", lambda _code: 0)
        # Each test client makes the middleware anew, and WhiteNoise would list the static files for 20 ms.
        patch.setattr(settings, "WHITENOISE_AUTOREFRESH", True, raising=False)
        yield


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Commit rows, because another process reads them. Their names are unique, so they are not deleted afterwards.

    In a test marked `django_db` they are rolled back with its transaction.
    """
    with django_db_blocker.unblock():
        OutgoingMail.objects.all().delete()  # of tests under another SECRET_KEY, about which a server logs an error
        yield


@pytest.fixture
def rewind() -> Callable[..., None]:
    """`rewind(row, seconds)` makes a row older, so no test sleeps."""
    return factories.rewind


@pytest.fixture(scope="session")
def provider(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """One server, with the limits off, for all tests that need no server of their own.

    At the end, neither its log nor the database may contain a credential that the drivers sent or received (D15).
    """
    with serve(tmp_path_factory.mktemp("provider"), SIGN_UP="open") as server:
        yield server
        with django_db_blocker.unblock():
            kept = f"{database_text()}\n{server.log}"
    assert [credential for credential in SEEN if credential in kept] == []


@pytest.fixture
def launch(committed: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """`launch(VARIABLE=value, …)` starts a server that ends with the test."""
    with ExitStack() as stack:

        def start(**changes: Any) -> Server:
            return stack.enter_context(serve(tmp_path_factory.mktemp("server"), **changes))

        yield start


@pytest.fixture
def manage(
    committed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`manage("application", "list", VARIABLE=value)` runs a command of manage.py.

    In a new process when a variable is given, otherwise in this one, which is faster.
    """

    def run(*arguments: str, stdin: str = "", **changes: str) -> subprocess.CompletedProcess[str]:
        if changes:
            options: dict[str, Any] = {"cwd": ROOT, "env": environment(tmp_path, **changes), "input": stdin}
            options |= {"capture_output": True, "text": True, "timeout": 300, "check": False}
            return subprocess.run([sys.executable, "manage.py", *arguments], **options)
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        output, errors, status = io.StringIO(), io.StringIO(), 0
        with redirect_stdout(output), redirect_stderr(errors):
            try:
                execute_from_command_line(["manage.py", *arguments])
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 1
        return subprocess.CompletedProcess(arguments, status, output.getvalue(), errors.getvalue())

    return run


@pytest.fixture
def driver(provider: Server, committed: None) -> OAuthDriver:
    return OAuthDriver(provider.base_url, provider.auth_url)


@pytest.fixture
def another_driver(provider: Server, committed: None) -> OAuthDriver:
    return OAuthDriver(provider.base_url, provider.auth_url)


@pytest.fixture
def alice(committed: None) -> Any:
    return PersonFactory()


@pytest.fixture
def browser(alice: Any) -> Client:
    return pages.browser_of(alice)


@pytest.fixture
def account(alice: Any) -> Account:
    return Account(alice)


@pytest.fixture
def admin_user(committed: None) -> Any:
    return PersonFactory(nickname="Root", is_staff=True, is_superuser=True)


@pytest.fixture
def sign_up_is_open(settings: Any) -> None:
    settings.SIGN_UP = "open"


@pytest.fixture
def passkeys_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library wants https, except for localhost; tests run at http://testserver."""
    monkeypatch.setattr("fido2.server.verify_rp_id", lambda _host, _origin: True)


@pytest.fixture
def mallory(committed: None) -> Any:
    return PersonFactory(nickname="Mallory", email=f"mallory-{time.time_ns()}@example.net")


@pytest.fixture
def application(committed: None) -> Registered:
    return ApplicationFactory()


@pytest.fixture
def only_keys_of_the_service(committed: None) -> Iterator[None]:
    """Delete the signing keys of the test: another process, with another SECRET_KEY, can't open them."""
    before = set(SigningKey.objects.values_list("pk", flat=True))
    yield
    SigningKey.objects.exclude(pk__in=before).filter(private__isnull=False).delete()


@pytest.fixture
def signed_in(driver: OAuthDriver, alice: Any) -> OAuthDriver:
    return driver.signed_in(alice.email, PASSWORD)


@pytest.fixture
def postgresql(committed: None) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL: set DATABASE_URL to one")


@pytest.fixture(scope="session")
def cluster(django_db_setup: None, django_db_blocker: Any) -> Iterator[Cluster]:
    if (programs := postgresql_programs()) is None:
        pytest.skip("needs PostgreSQL's programs, which Debian keeps in /usr/lib/postgresql")
    # Not in pytest's folder: PostgreSQL runs as another user, who may not read it.
    with tempfile.TemporaryDirectory(prefix="postgresql-", ignore_cleanup_errors=True) as folder:
        with django_db_blocker.unblock():
            own = Cluster(programs, Path(folder))
        yield own
        own.kill()


@pytest.fixture
def own_postgresql(postgresql: None, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A separate PostgreSQL that a test may kill. Skipped on SQLite."""
    cluster = request.getfixturevalue("cluster")  # not a parameter, which would start it before the skip
    cluster.revive()
    with in_use(cluster.url):
        yield cluster


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    server = MailServer()
    server.open()
    yield server
    server.close()


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[OwnRedis]:
    own = OwnRedis(tmp_path)
    yield own
    own.kill()
