"""SQLite can't write: the disk is full, or the file may only be read. D19.

Requests that write get 503 and leave nothing incomplete; requests that only read succeed. All recover afterwards.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import requests

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.driver import OAuthDriver, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Issued, PersonFactory, Registered, TokenFactory
from tests.server import Server, serve
from tests.smtp import wait_until

CONNECTIONS = 2  # of one worker: one connection for each of its threads
# root may write to read-only files unless it drops that capability.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Site(NamedTuple):
    """A server whose database is a file on a disk of 4 MB."""

    server: Server
    path: Path


@pytest.fixture(scope="module")
def site(django_db_setup: None, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One for all tests."""
    disk = tmp_path_factory.mktemp("disk")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a small disk: {mounted.stderr.decode().strip()}")
    try:
        path = Path(shutil.copy(sqlite_template, disk))
        url = f"sqlite:///{path}"
        with serve(tmp_path_factory.mktemp("site"), under=AS_ANYBODY, DATABASE_URL=url, REDIS_URL="") as server:
            yield Site(server, path)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


class Signed(NamedTuple):
    """A browser that is signed in, and the application's credentials: an unredeemed code and a token."""

    driver: OAuthDriver
    application: Registered
    code: Issued
    token: Issued


@pytest.fixture
def signed(site: Site, committed: None) -> Iterator[Signed]:
    with in_use(f"sqlite:///{site.path}"):
        alice, application = PersonFactory(), ApplicationFactory(is_trusted=True)
        driver = OAuthDriver(site.server.base_url).signed_in(alice.email, PASSWORD)
        code, token = CodeFactory(application=application, user=alice), TokenFactory(user=alice)
        yield Signed(driver, application, code, token)


def check_that_nothing_is_written(signed: Signed) -> None:
    codes = AuthorizationCode.objects.filter(application=signed.application.row)
    for _ in range(2):
        away_of(signed.driver.exchange(signed.application, signed.code.raw))
        away_page_of(signed.driver.get(signed.driver.authorization_url(signed.application)))
    assert [code.redeemed_at for code in codes] == [None]
    assert not AccessToken.objects.filter(application=signed.application.row).exists()
    assert signed.driver.userinfo(signed.token.raw).status_code == 200


def check_that_all_goes_on(signed: Signed, excuses: int = 0) -> None:
    """Requests succeed again, after at most so many responses of 503 in all."""
    driver, application = signed.driver, signed.application

    def served(call: Callable[[], requests.Response]) -> requests.Response:
        nonlocal excuses
        while (answer := call()).status_code == 503 and excuses:
            excuses -= 1
        return answer

    redirect = served(lambda: driver.get(driver.authorization_url(application)))
    for code in (signed.code.raw, driver.callback(redirect).parameters["code"]):
        assert served(lambda code=code: driver.exchange(application, code)).status_code == 200
    assert AccessToken.objects.filter(application=application.row).count() == 2


@contract("D19/temporarily_unavailable", "D19.page")
def test_while_the_disk_is_full_nothing_is_written_and_afterwards_all_goes_on(site: Site, signed: Signed) -> None:
    filler = site.path.with_name("filler")
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass
    check_that_nothing_is_written(signed)
    filler.unlink()
    check_that_all_goes_on(signed)


@contract("D19/temporarily_unavailable", "D19.page")
def test_a_file_that_may_only_be_read(site: Site, signed: Signed) -> None:
    """A connection opened meanwhile leads to one more 503, and then the file is opened again."""
    site.path.chmod(0o444)
    before = site.server.workers()
    site.server.process.send_signal(signal.SIGHUP)  # all connections are opened anew
    wait_until(lambda: bool(site.server.workers()) and not site.server.workers() & before, seconds=120)
    wait_until(lambda: requests.get(f"{site.server.base_url}/health/live", timeout=60).ok, seconds=120)
    check_that_nothing_is_written(signed)
    site.path.chmod(0o644)
    check_that_all_goes_on(signed, excuses=CONNECTIONS)
