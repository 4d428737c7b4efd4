"""The disk of SQLite is full: what writes gets 503 and leaves nothing incomplete, what reads goes on. D19."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.driver import OAuthDriver, away_of, away_page_of
from tests.factories import PASSWORD, ApplicationFactory, CodeFactory, PersonFactory, TokenFactory
from tests.peers import wait_until

DISK = "4m"


@contract("D19/temporarily_unavailable", "D19.page")
def test_while_the_disk_is_full_nothing_is_written_and_afterwards_all_goes_on(
    sqlite_template: Path, disk: Path, launch: Launch
) -> None:
    """SQLITE_FULL."""
    with in_use(f"sqlite:///{shutil.copy(sqlite_template, disk)}"):
        alice, application = PersonFactory(), ApplicationFactory(is_trusted=True)
        driver = OAuthDriver(launch(REDIS_URL="").base_url).signed_in(alice.email, PASSWORD)
        code, token = CodeFactory(application=application, user=alice).raw, TokenFactory(user=alice).raw
        with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
            while filler.write(bytes(4096)):
                pass
        for _ in range(2):
            away_of(driver.exchange(application, code))
            away_page_of(driver.get(driver.authorization_url(application)))
        codes = AuthorizationCode.objects.filter(application=application.row)
        assert [each.redeemed_at for each in codes] == [None]
        assert not AccessToken.objects.filter(application=application.row).exists()
        assert driver.userinfo(token).status_code == 200
        wait_until(lambda: driver.call("GET", "/health/ready").status_code == 503)

        (disk / "filler").unlink()
        wait_until(lambda: driver.call("GET", "/health/ready").status_code == 200)
        redirect = driver.get(driver.authorization_url(application))
        for each in (code, driver.callback(redirect).parameters["code"]):
            assert driver.exchange(application, each).status_code == 200
        assert AccessToken.objects.filter(application=application.row).count() == 2
