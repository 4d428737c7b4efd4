"""SQLite can't write: the disk is full, a limit is reached, or the file may only be read. D19.

Requests that write get 503 and leave nothing incomplete; requests that only read succeed. All recover afterwards.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import requests
from django.db import connection

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.driver import OAuthDriver, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, Issued, PersonFactory, Registered, TokenFactory
from tests.server import Server

DISK = "4m"
KEY = "k" * 50
CONNECTIONS = 2  # of one worker: one connection for each of its threads
# root may write to read-only files unless it drops that capability.
AS_ANYBODY = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []


class Signed(NamedTuple):
    """A browser that is signed in, and the application's credentials: an unredeemed code and a token."""

    driver: OAuthDriver
    application: Registered
    code: Issued
    token: Issued


def signed_in_at(server: Server) -> Signed:
    alice, application = PersonFactory(), ApplicationFactory(is_trusted=True)
    driver = OAuthDriver(server.base_url, server.auth_url).signed_in(alice.email, PASSWORD)
    code, token = CodeFactory(application=application, user=alice), TokenFactory(user=alice)
    return Signed(driver, application, code, token)


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
def test_a_full_disk(disk: Path, sqlite_template: Path, launch: Launch) -> None:
    """SQLITE_FULL."""
    path = Path(shutil.copy(sqlite_template, disk))
    with in_use(f"sqlite:///{path}"):
        signed = signed_in_at(launch())
        fill(disk / "filler")
        check_that_nothing_is_written(signed)
        (disk / "filler").unlink()
        check_that_all_goes_on(signed)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(bytes(4096)):
            pass


@contract("D19/temporarily_unavailable", "D19.page")
def test_a_limit_on_the_size_of_files(tmp_path: Path, sqlite_template: Path, launch: Launch) -> None:
    """SQLITE_IOERR_WRITE, as with a quota."""
    path = Path(shutil.copy(sqlite_template, tmp_path))
    with in_use(f"sqlite:///{path}"):
        server = launch()
        signed = signed_in_at(server)
        log_size = path.with_name(f"{path.name}-wal").stat().st_size
        [worker] = server.workers()
        before = resource.prlimit(worker, resource.RLIMIT_FSIZE, (log_size, resource.RLIM_INFINITY))
        check_that_nothing_is_written(signed)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, before)
        check_that_all_goes_on(signed)


@contract("D19/temporarily_unavailable", "D19.page")
def test_a_file_that_may_only_be_read(tmp_path: Path, sqlite_template: Path, launch: Launch) -> None:
    """SQLITE_READONLY. A connection opened meanwhile leads to one more 503, and then the file is opened again."""
    path = Path(shutil.copy(sqlite_template, tmp_path))
    with in_use(f"sqlite:///{path}"):
        signed = signed_in_at(launch(SECRET_KEY=KEY))
        path.chmod(0o444)
        moved_to(signed.driver, launch(under=AS_ANYBODY, SECRET_KEY=KEY))
        check_that_nothing_is_written(signed)
        path.chmod(0o644)
        check_that_all_goes_on(signed, excuses=CONNECTIONS)


@contract("D19/temporarily_unavailable", "D19.page")
def test_a_folder_that_may_only_be_read(tmp_path: Path, sqlite_template: Path, launch: Launch) -> None:
    """SQLITE_CANTOPEN: the journal, which readers need too, can't be created."""
    folder = tmp_path / "database"
    folder.mkdir()
    path = Path(shutil.copy(sqlite_template, folder))
    with in_use(f"sqlite:///{path}"):
        application = ApplicationFactory()
        code, token = CodeFactory(application=application), TokenFactory()
        connection.close()
        folder.chmod(0o555)
        server = launch(under=AS_ANYBODY)
        driver = OAuthDriver(server.base_url, server.auth_url)
        for _ in range(2):
            away_of(driver.userinfo(token.raw))
            away_of(driver.exchange(application, code.raw))
            away_page_of(driver.get(driver.authorization_url(application)))
        folder.chmod(0o755)
        assert driver.userinfo(token.raw).status_code == 200
        assert driver.exchange(application, code.raw).status_code == 200


def moved_to(driver: OAuthDriver, server: Server) -> None:
    """A browser with the same cookies at another server of the same service."""
    driver.base_url = driver.auth_url = server.base_url
