"""The clock is set back or forward by a minute. D14: credentials are judged by the current clock."""

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

MINUTE = timedelta(minutes=1)
steps = pytest.mark.parametrize("step", [-MINUTE, MINUTE], ids=["back", "forward"])


@pytest.fixture
def start(db: None) -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def registered(db: None) -> Registered:
    return ApplicationFactory()


@steps
@contract("D14.code", "D14.token")
def test_codes_and_tokens_from_before_go_on_until_the_clock_says_they_end(
    registered: Registered, start: datetime, step: timedelta
) -> None:
    code, late_code = (CodeFactory(application=registered, issued_at=start) for _ in range(2))
    token = TokenFactory(issued_at=start)
    with time_machine.travel(start, tick=False) as clock:
        clock.shift(step)
        assert read(token.raw).status_code == 200
        assert redeem(registered, code).json()["expires_in"] == 3600
        clock.move_to(start + timedelta(seconds=600))
        assert redeem(registered, late_code).status_code == 400
        clock.move_to(start + timedelta(seconds=3600))
        assert read(token.raw).status_code == 401


@contract("D13.replay", "D13.recorded")
@pytest.mark.parametrize("later", [0, 30, 59.999, 63])
def test_a_replay_after_the_clock_was_set_back_revokes(
    registered: Registered, start: datetime, later: float, caplog: pytest.LogCaptureFixture
) -> None:
    """The redemption has a time in the future. It counts as a replay, or a thief could use the code for that minute."""
    code = CodeFactory(application=registered, issued_at=start)
    with time_machine.travel(start, tick=False) as clock, caplog.at_level(logging.WARNING, "oauth_bridge"):
        token = redeem(registered, code).json()["access_token"]
        clock.shift(-MINUTE)
        clock.shift(later)
        refused = redeem(registered, code).json()
        assert refused["error"] == "invalid_grant"
        assert "has been revoked" in refused["error_description"]
        assert "used -" not in refused["error_description"]
        assert read(token).status_code == 401
    assert AccessToken.objects.get(application=registered.row).revoked_at is not None
    [record] = [record for record in caplog.records if record.message == "code replayed, token revoked"]
    assert record.age_seconds >= 0  # type: ignore[attr-defined]


@contract("D13.twice")
@pytest.mark.parametrize("later", [60, 62.999])
def test_the_minute_that_comes_twice_ends_with_3_seconds_in_which_nothing_is_revoked(
    registered: Registered, start: datetime, later: float
) -> None:
    """An accepted imperfection: by the current clock, the code was redeemed just now."""
    code = CodeFactory(application=registered, issued_at=start)
    with time_machine.travel(start, tick=False) as clock:
        token = redeem(registered, code).json()["access_token"]
        clock.shift(-MINUTE)
        clock.shift(later)
        assert redeem(registered, code).json()["error"] == "invalid_grant"
        assert read(token).status_code == 200


@steps
@contract("D5.pending", "D8.leads-on")
def test_nobody_is_signed_out_and_an_open_consent_page_is_answered(
    registered: Registered, start: datetime, step: timedelta
) -> None:
    client = browser_at_pages()
    with time_machine.travel(start, tick=False) as clock:
        client.force_login(PersonFactory())
        page = consent_page(client, registered)
        clock.shift(step)
        assert answer(client, page)["Location"].startswith(registered.redirect_uri)
        assert client.get("/accounts/profile", headers={"accept": "text/html"}).status_code == 200


@steps
@contract("D21.userinfo", "D21.userinfo-failures", "D19/rate_limited")
@pytest.mark.parametrize("kind", ["userinfo", "userinfo_failures"])
def test_a_limit_opens_again_after_its_period_and_the_minute_that_comes_twice(
    start: datetime, step: timedelta, kind: str, settings: Any
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
    step: timedelta, tmp_path: Path, launch: Launch, redis_server: Any
) -> None:
    """Each worker applies the change at its next request, so their clocks differ by a minute for a moment."""
    clock = tmp_path / "clock"
    clock.write_text("0", encoding="ascii")
    server = launch(wsgi="tests.wsgi.shifted", CLOCK=str(clock), WEB_CONCURRENCY="2", REDIS_URL=redis_server.url)
    redemptions = Redemptions(server, ApplicationFactory(), 300)
    (tmp_path / "set").write_text(str(step.total_seconds()), encoding="ascii")
    # Atomically, because workers read the file at any moment.
    redemptions.run_during(lambda: (tmp_path / "set").replace(clock))
    assert redemptions.trouble == {}
    assert redemptions.refused == 0
    redemptions.check_books()
    replayed = dict(list(redemptions.redeemed.items())[:20])
    caller = Caller(server)
    for code in replayed:
        assert caller.exchange(redemptions.application, code).json()["error"] == "invalid_grant"
    assert statuses(server, replayed.values()) == {401: 20}
