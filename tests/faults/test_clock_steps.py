"""The second at which a credential ends, also after the clock was set back or forward by a minute. D7, D13, D14."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.cache import cache
from django.utils import timezone

from oauth_bridge.models import AccessToken
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.faults.load import Caller, Redemptions, statuses
from tests.grants import answer, browser_at_pages, consent_page, read, redeem

steps = pytest.mark.parametrize("step", [-60, 60], ids=["back", "forward"])


@pytest.fixture
def start(db: None) -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def registered(db: None) -> Registered:
    return ApplicationFactory()


@contract("D14.code", "D14.token", "3.2", "3.3", "2.2/validity", "2.3/access_token", "8/code", "8/token")
@pytest.mark.parametrize("step", [-60, 0, 60])
def test_a_code_is_dead_at_its_600th_second_and_a_token_at_its_3600th(
    registered: Registered, start: datetime, step: int
) -> None:
    codes, token = (
        [CodeFactory(application=registered, issued_at=start) for _ in range(3)],
        TokenFactory(issued_at=start),
    )
    with time_machine.travel(start, tick=False) as clock:
        clock.shift(step)
        assert read(token.raw).status_code == 200
        assert redeem(registered, codes[0]).json()["expires_in"] == 3600
        clock.move_to(start + timedelta(seconds=599.999))
        later = redeem(registered, codes[1]).json()["access_token"]
        clock.move_to(start + timedelta(seconds=600))
        assert redeem(registered, codes[2]).status_code == 400
        for age, status in ((3599.999, 200), (3600, 401)):
            clock.move_to(start + timedelta(seconds=age))
            assert read(token.raw).status_code == status
        clock.move_to(start + timedelta(seconds=599.999 + 3599))  # it lives from the exchange on
        assert read(later).status_code == 200


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


@steps
@contract("D21.userinfo", "D21.userinfo-failures", "D19/rate_limited")
@pytest.mark.parametrize("kind", ["userinfo", "userinfo_failures"])
def test_a_limit_opens_again_after_its_period_and_the_minute_that_comes_twice(
    start: datetime, step: int, kind: str, settings: Any
) -> None:
    settings.RATES = {kind: "2/m"}
    cache.clear()
    credential = TokenFactory(issued_at=start).raw if kind == "userinfo" else "bad"
    with time_machine.travel(start, tick=False) as clock:
        waits = [wait_of(read(credential)) for _ in range(3)]
        assert [wait > 0 for wait in waits] == [False, False, True]
        clock.shift(step)
        waited = 0
        while wait := wait_of(read(credential)):
            assert wait <= 60
            clock.shift(wait)
            waited += wait
            assert waited <= 120


def wait_of(response: Any) -> int:
    """Seconds to wait; 0 when no limit is reached."""
    return int(response["Retry-After"]) if response.status_code == 429 else 0


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
