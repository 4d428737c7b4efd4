"""Tables change while requests use them: no request fails, and `manage.py migrate` waits for locks."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from config.management.commands import migrate as command
from tests.conftest import Launch
from tests.databases import Cluster, OwnRedis, in_use
from tests.factories import ApplicationFactory
from tests.faults.load import Redemptions

CODES, TOKENS = "oauth_bridge_authorizationcode", "oauth_bridge_accesstoken"


@pytest.fixture(autouse=True)
def two_tables(own_postgresql: Cluster, settings: Any) -> Iterator[None]:
    settings.MIGRATION_MODULES = {"oauth_bridge": "tests.faults.two_tables"}
    yield
    migrate("0001", fake=True)


def migrate(*arguments: str, fake: bool = False, output: io.StringIO | None = None) -> None:
    call_command("migrate", "oauth_bridge", *arguments, fake=fake, stdout=output or io.StringIO())


def test_no_request_fails_while_two_tables_change_or_a_migration_waits_for_a_transaction(
    own_postgresql: Cluster, redis_server: OwnRedis, launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may have locked the second table and wait for the first: one of the two must give up.

    The transaction does not end before one migration has given up, and another one has tried twice.
    """
    output = io.StringIO()
    # The migration gives up a lock after 0.2 seconds, but on a busy machine later than PostgreSQL ends a request.
    own_postgresql.administer("ALTER ROLE service SET deadlock_timeout = '60s'")
    redemptions = Redemptions(launch(WEB_CONCURRENCY="2", REDIS_URL=redis_server.url), ApplicationFactory())

    def in_a_thread() -> None:
        with in_use(own_postgresql.url):
            migrate("0002", output=output)

    def change() -> None:
        migrate("0001", fake=True)
        with connection.cursor() as cursor:  # the indexes that the migration drops
            cursor.execute(f"CREATE INDEX codes_of_a_test ON {CODES} (application_id)")
            cursor.execute(f"CREATE INDEX tokens_of_a_test ON {TOKENS} (application_id)")
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic(), connection.cursor() as holder:
                holder.execute(f"LOCK TABLE {CODES} IN ROW EXCLUSIVE MODE")
                with monkeypatch.context() as patch:
                    patch.setattr(command, "ATTEMPTS", 2)
                    with pytest.raises(CommandError, match="stayed in use"):
                        pool.submit(in_a_thread).result()
                migration = pool.submit(in_a_thread)
                redemptions.wait_until(lambda: migration.done() or output.getvalue().count("Trying again") > 3)
                redemptions.go_on(50)
            migration.result()

    redemptions.run_during(change)
    own_postgresql.administer("ALTER ROLE service RESET deadlock_timeout")
    assert redemptions.trouble == {}
    assert output.getvalue().endswith("Applying oauth_bridge.0002_indexes... OK\n")
