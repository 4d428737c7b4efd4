"""The exact second at which a credential expires, with a fixed clock. D7, D14."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

import pytest
import time_machine
from django.utils import timezone

from oauth_bridge.models import AccessToken
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered, TokenFactory
from tests.grants import answer, browser_at_pages, consent_page, read, redeem

pytestmark = pytest.mark.django_db


@pytest.fixture
def start() -> datetime:
    return timezone.now().replace(microsecond=0)


@pytest.fixture
def registered(db: None) -> Registered:
    return ApplicationFactory()


@contract("D14.code", "3.2", "2.2/validity", "8/code")
@pytest.mark.parametrize(("age", "status"), [(0, 200), (599.999, 200), (600, 400)])
def test_a_code_is_dead_at_its_600th_second(registered: Registered, start: datetime, age: float, status: int) -> None:
    code = CodeFactory(application=registered, issued_at=start)
    with time_machine.travel(start + timedelta(seconds=age), tick=False) as clock:
        answer = redeem(registered, code)
        assert answer.status_code == status
        if status == 200:  # the token lives from the exchange on
            clock.shift(timedelta(seconds=3599))
            assert read(answer.json()["access_token"]).status_code == 200


@contract("D14.token", "3.3", "2.3/access_token", "8/token")
@pytest.mark.parametrize(("age", "status"), [(0, 200), (3599.999, 200), (3600, 401)])
def test_a_token_is_dead_at_its_3600th_second(db: None, start: datetime, age: float, status: int) -> None:
    token = TokenFactory(issued_at=start)
    with time_machine.travel(start + timedelta(seconds=age), tick=False):
        assert read(token.raw).status_code == status


@contract("D13.twice")
@pytest.mark.parametrize("later", [0, 2.999])
def test_an_exchange_sent_twice_within_3_seconds_revokes_nothing(
    registered: Registered, start: datetime, later: float, caplog: pytest.LogCaptureFixture
) -> None:
    code = CodeFactory(application=registered, issued_at=start)
    with time_machine.travel(start, tick=False) as clock, caplog.at_level(logging.WARNING, "oauth_bridge"):
        token = redeem(registered, code).json()["access_token"]
        clock.shift(timedelta(seconds=later))
        assert redeem(registered, code).json()["error"] == "invalid_grant"
        assert read(token).status_code == 200
    assert not caplog.records


@contract("D13.replay", "D13.recorded")
@pytest.mark.parametrize("later", [3, 601, 3598])
def test_a_replay_revokes_as_long_as_the_token_lives(registered: Registered, start: datetime, later: float) -> None:
    code = CodeFactory(application=registered, issued_at=start)
    with time_machine.travel(start, tick=False) as clock:
        token = redeem(registered, code).json()["access_token"]
        clock.shift(timedelta(seconds=later))
        assert redeem(registered, code).json()["error"] == "invalid_grant"
        assert read(token).status_code == 401
    assert AccessToken.objects.get(application=registered.row).revoked_at is not None


@contract("D5.pending", "D8.leads-on")
@pytest.mark.parametrize(("age", "is_answered"), [(0, True), (3599, True), (3600, False)])
def test_a_consent_page_is_believed_for_an_hour_and_then_asks_again(
    registered: Registered, start: datetime, age: int, is_answered: bool
) -> None:
    client = browser_at_pages()
    with time_machine.travel(start, tick=False) as clock:
        client.force_login(PersonFactory())
        page = consent_page(client, registered)
        clock.shift(timedelta(seconds=age))
        response = answer(client, page)
        assert response.status_code in (302, 303)
        assert response["Location"].startswith(registered.redirect_uri) is is_answered
        if not is_answered:
            again = client.get(response["Location"], headers={"accept": "text/html"}).content.decode()
            assert answer(client, again)["Location"].startswith(registered.redirect_uri)
