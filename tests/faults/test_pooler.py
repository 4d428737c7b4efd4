"""PgBouncer before 1.21 in transaction mode: without prepared statements, as docs/operations.md sets it up."""

from __future__ import annotations

from typing import Any

from tests.conftest import Launch
from tests.driver import OAuthDriver
from tests.factories import PASSWORD, ApplicationFactory, PersonFactory
from tests.faults.load import Redemptions

EXCHANGES = 100


def test_a_pooler_without_prepared_statements_is_supported(pooled: str, redis_server: Any, launch: Launch) -> None:
    server = launch(DATABASE_URL=f"{pooled}?prepare_threshold=none", WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    driver, person, application = OAuthDriver(server.base_url, server.auth_url), PersonFactory(), ApplicationFactory()
    callback = driver.authorize(driver.authorization_url(application), person.email, PASSWORD)
    token = driver.exchange(application, callback.parameters["code"]).json()["access_token"]
    assert driver.userinfo(token).json()["email"] == person.email

    redemptions = Redemptions(server, ApplicationFactory(), EXCHANGES)
    redemptions.run_during(lambda: None)
    redemptions.check_books()
    assert redemptions.trouble == {}
