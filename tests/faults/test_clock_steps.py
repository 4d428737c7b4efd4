"""The second at which a credential ends, also after the clock was set back or forward by a minute. D7, D13, D14."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.utils import timezone

from oauth_bridge.models import AccessToken
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.faults.load import Caller, Redemptions, statuses
from tests.grants import answer, browser_at_pages, consent_page, read, redeem

steps = pytest.mark.parametrize("step", [-60, 60], ids=["back", "forward"])


@pytest.fixture
def start(db: None) -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def registered(db: None) -> Registered:
    return ApplicationFactory()


@contract("D13.twice", "D13.replay", "D13.recorded")
@pytest.mark.parametrize("later", [-60, -30, -0.001, 0, 2.999, 3, 601, 3598])
def test_a_code_that_is_used_again_revokes_its_token_except_within_3_seconds(
    registered: Registered, start: datetime, later: float, caplog: pytest.LogCaptureFixture
) -> None:
    """A redemption in the future, of a clock that was set back, is no exception: a thief could use that minute."""
    code, is_replay = CodeFactory(application=registered, issued_at=start), not 0 <= later < 3
    with time_machine.travel(start, tick=False) as clock, caplog.at_level(logging.WARNING, "oauth_bridge"):
        token = redeem(registered, code).json()["access_token"]
        clock.shift(later)
        refused = redeem(registered, code).json()
        assert refused["error"] == "invalid_grant"
        assert ("has been revoked" in refused["error_description"]) is is_replay
        assert "used -" not in refused["error_description"]
        assert read(token).status_code == (401 if is_replay else 200)
    assert (AccessToken.objects.get(application=registered.row).revoked_at is not None) is is_replay
    replays = [record for record in caplog.records if record.message == "code replayed, token revoked"]
    assert [record.age_seconds >= 0 for record in replays] == [True] * is_replay  # type: ignore[attr-defined]
    assert is_replay or not caplog.records


@contract("D5.pending", "D8.leads-on")
@pytest.mark.parametrize(("later", "is_answered"), [(-60, True), (60, True), (3599, True), (3600, False)])
def test_nobody_is_signed_out_and_a_consent_page_is_believed_for_an_hour_and_then_asks_again(
    registered: Registered, start: datetime, later: int, is_answered: bool
) -> None:
    client = browser_at_pages()
    with time_machine.travel(start, tick=False) as clock:
        client.force_login(PersonFactory())
        page = consent_page(client, registered)
        clock.shift(later)
        response = answer(client, page)
        assert response.status_code in (302, 303)
        assert response["Location"].startswith(registered.redirect_uri) is is_answered
        if not is_answered:
            again = client.get(response["Location"], headers={"accept": "text/html"}).content.decode()
            assert answer(client, again)["Location"].startswith(registered.redirect_uri)
        assert client.get("/accounts/profile", headers={"accept": "text/html"}).status_code == 200


@contract("2.2/use", "D13.replay")
@steps
def test_the_clock_of_two_workers_is_set_under_load(
    step: int, tmp_path: Path, launch: Launch, redis_server: Any
) -> None:
    """Each worker applies the change at its next request, so their clocks differ by a minute for a moment."""
    clock = tmp_path / "clock"
    clock.write_text("0", encoding="ascii")
    server = launch(wsgi="tests.wsgi.shifted", CLOCK=str(clock), WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), 300)
    (tmp_path / "set").write_text(str(step), encoding="ascii")
    # Atomically, because workers read the file at any moment.
    redemptions.run_during(lambda: (tmp_path / "set").replace(clock))
    redemptions.check_that_none_failed()
    replayed = dict(list(redemptions.redeemed.items())[:20])
    caller = Caller(server)
    for code in replayed:
        assert caller.exchange(redemptions.application, code).json()["error"] == "invalid_grant"
    assert statuses(server, replayed.values()) == {401: 20}
