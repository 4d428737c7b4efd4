"""PgBouncer in transaction mode, in front of the database that this process uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.db import connection

from tests.server import free_port

POOL = 2
SETTINGS = """
[databases]
* = host={HOST} port={PORT}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/accounts
pool_mode = transaction
default_pool_size = {POOL}
ignore_startup_parameters = options
"""


@contextmanager
def pooler() -> Iterator[str]:
    """The DATABASE_URL of the database through PgBouncer."""
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("needs pgbouncer")
    database, port = connection.settings_dict, free_port()
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-"))
    settings = SETTINGS.format(**database, port=port, folder=folder, POOL=POOL)
    (folder / "settings").write_text(settings, encoding="utf-8")
    (folder / "accounts").write_text('"{USER}" "{PASSWORD}"\n'.format(**database), encoding="utf-8")
    if is_root := os.geteuid() == 0:  # PgBouncer refuses to run as root
        subprocess.run(["chown", "-R", "postgres", folder], check=True)
    process = subprocess.Popen(
        [program, "--quiet", folder / "settings"], user="postgres" if is_root else None, stderr=subprocess.DEVNULL
    )
    try:
        wait_for(f"host=127.0.0.1 port={port} user={database['USER']} dbname={database['NAME']}", process)
        yield f"postgres://{database['USER']}@127.0.0.1:{port}/{database['NAME']}"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


def wait_for(place: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        try:
            psycopg.connect(place).close()
        except psycopg.OperationalError:
            assert process.poll() is None, "PgBouncer did not start"
            time.sleep(0.05)
        else:
            return
    raise AssertionError("PgBouncer does not answer")
