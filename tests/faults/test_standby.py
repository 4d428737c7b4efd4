"""PostgreSQL is lost, and its standby promoted, as docs/high-availability.md says."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Launch
from tests.databases import Cluster, Standby
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.peers import wait_until


@pytest.fixture
def standby(own_postgresql: Cluster) -> Iterator[Standby]:
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))  # not in pytest's folder: PostgreSQL runs as another user
    try:
        server = Standby(own_postgresql, folder)
        yield server
        server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_the_service_goes_on_with_a_standby_once_it_is_promoted(
    own_postgresql: Cluster, standby: Standby, launch: Launch
) -> None:
    hosts = f"127.0.0.1:{own_postgresql.port},127.0.0.1:{standby.port}"
    server = launch(DATABASE_URL=f"postgres://service@{hosts}/service?target_session_attrs=read-write")
    person, application = PersonFactory(), ApplicationFactory()
    browser = OAuthDriver(server.base_url)
    code = browser.authorize(browser.authorization_url(application), person.email, PASSWORD).parameters["code"]
    token = browser.exchange(application, code).json()["access_token"]
    wait_until(lambda: standby.has_all_of(own_postgresql))

    own_postgresql.kill()
    assert browser.userinfo(token).status_code == 503
    standby.promote()
    wait_until(lambda: browser.userinfo(token).status_code == 200)
    assert browser.get("/accounts/profile").status_code == 200
    assert browser.exchange(application, code).status_code == 400
