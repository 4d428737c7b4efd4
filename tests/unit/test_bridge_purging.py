"""When codes and pages end, also after the clock was set back, and what a purge leaves. D5, D8, D13, D24."""

from __future__ import annotations

import secrets
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.conf import settings
from django.db import connection, models
from django.test import Client
from django.utils import timezone

from accounts.models import Session, User
from oauth_bridge.credentials import codes
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.management import purging
from oauth_bridge.management.purging import RANGES
from oauth_bridge.models import AccessToken, AuthorizationCode, WithdrawnCode
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, ConsentFactory, PersonFactory, TokenFactory, issue
from tests.grants import PAGE, answer, browser_at_pages, consent_page, read, redeem
from tests.pages import html_of, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


def test_of_a_double_click_the_later_request_keeps_its_code_even_if_it_is_faster() -> None:
    application, person, clicked = ApplicationFactory().row, PersonFactory(), timezone.now()
    attempt = uuid4()
    code = issue(person, application, attempt, clicked + timedelta(seconds=0.2))
    for each, at in ((application, clicked), (ApplicationFactory().row, None)):  # nor by another application
        with pytest.raises(codes.AlreadyRedeemed):
            issue(person, each, attempt, at)
    issue(PersonFactory(), application, attempt)  # another person who follows the same link
    assert AuthorizationCode.objects.get(user=person).digest == digest_of(code)


@contract("D13.twice", "D13.replay")
@pytest.mark.parametrize("later", [-60, -0.001, 0, 2.999, 3, 3598])
def test_a_code_that_is_used_again_revokes_its_token_except_within_3_seconds(later: float) -> None:
    """A redemption in the future, of a clock that was set back, is no exception: a thief could use that minute."""
    start, application = timezone.now().replace(microsecond=0), ApplicationFactory()
    code, is_replay = CodeFactory(application=application, issued_at=start), not 0 <= later < 3
    with time_machine.travel(start, tick=False) as clock:
        token = redeem(application, code).json()["access_token"]
        clock.shift(later)
        refused = redeem(application, code).json()
        assert refused["error"] == "invalid_grant"
        assert ("has been revoked" in refused["error_description"]) is is_replay
        assert "used -" not in refused["error_description"]
        assert read(token).status_code == (401 if is_replay else 200)
    assert (AccessToken.objects.get().revoked_at is not None) is is_replay


@contract("D5.pending", "D8.leads-on")
@pytest.mark.parametrize(("later", "is_answered"), [(-60, True), (60, True), (3599, True), (3600, False)])
def test_a_consent_page_is_believed_for_an_hour_and_nobody_is_signed_out(later: int, is_answered: bool) -> None:
    start, application, client = timezone.now().replace(microsecond=0), ApplicationFactory(), browser_at_pages()
    with time_machine.travel(start, tick=False) as clock:
        client.force_login(PersonFactory())
        page = consent_page(client, application)
        clock.shift(later)
        response = answer(client, page)
        assert response["Location"].startswith(application.redirect_uri) is is_answered
        if not is_answered:
            again = html_of(client.get(response["Location"], headers=PAGE))
            assert answer(client, again)["Location"].startswith(application.redirect_uri)
        assert client.get("/accounts/profile", headers=PAGE).status_code == 200


NOW = timezone.now()


def rows_that_end(seconds: float) -> list[models.Model]:
    """Rows whose use ends so many seconds after NOW."""
    end = NOW + timedelta(seconds=seconds)
    of = {"user": PersonFactory(), "application": ApplicationFactory()}
    return [
        CodeFactory(**of, issued_at=end - timedelta(seconds=600 + 3600), is_expiry_recorded=True).row,
        TokenFactory(**of, issued_at=end - timedelta(seconds=3600)).row,
        CodeFactory(**of, redeemed_at=end - timedelta(days=30)).row,
        Session.objects.create(session_key=secrets.token_hex(32), session_data="", expire_date=end),
        WithdrawnCode.objects.create(digest=secrets.token_bytes(32), expires_at=end - timedelta(seconds=3600)),
        ActivityRecord.objects.create(at=end - timedelta(days=settings.ACTIVITY_DAYS), step=Step.SIGN_IN),
    ]


def is_there(row: models.Model) -> bool:
    return type(row)._default_manager.filter(pk=row.pk).exists()


def test_a_row_goes_at_the_second_its_use_ends_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A redeemed code stays for a replay, and a consent for the person."""
    monkeypatch.setitem(RANGES, connection.vendor, (*RANGES[connection.vendor][:3], 1))
    assert sum(number for _table, number in purging.batches(NOW)) == 0, "nothing to go through"
    dead, alive, past = [*rows_that_end(-3), *rows_that_end(0)], rows_that_end(1), NOW - timedelta(days=400)
    alive.append(CodeFactory(issued_at=NOW - timedelta(days=29), redeemed_at=NOW - timedelta(days=29)).row)
    alive.append(ConsentFactory(application=ApplicationFactory().row, user=PersonFactory(), given_at=past))
    dead += rows_that_end(-1)
    assert sum(number for _table, number in purging.batches(NOW)) == len(dead)
    assert [is_there(row) for row in (*dead, *alive)] == [False] * 18 + [True] * 8


def sign_up(client: Client, **fields: Any) -> User:
    email = PersonFactory.build().email
    client.post("/accounts/sign-up", {"email": email, "password1": "a long enough phrase"})
    User.objects.filter(email=email).update(**({"created_at": NOW - timedelta(days=30)} | fields))
    return User.objects.get(email=email)


def test_an_account_whose_address_is_not_confirmed_for_30_days_goes_with_all_that_refers_to_it(settings: Any) -> None:
    settings.SIGN_UP = "open"
    gone, young = sign_up(Client()), sign_up(Client(), created_at=NOW - timedelta(days=30) + timedelta(seconds=1))
    kept = [young, sign_up(Client(), email_verified_at=NOW), sign_up(Client(), last_login=NOW), PersonFactory()]
    kept.append(PersonFactory(email_verified_at=None, created_at=NOW - timedelta(days=400)))  # by an operator
    client, prepared = Client(), PersonFactory(email_verified_at=None, created_at=NOW - timedelta(days=31))
    sign_in(client, prepared.email)
    assert b"Enter the code from the mail" in client.get("/accounts/confirm-email").content
    kept += [prepared, sign_up(Client(), is_staff=True), sign_up(Client(), is_active=False)]
    assert [batch for batch in purging.batches(NOW) if batch[1]] == [("accounts_user", 1)]
    assert not is_there(gone)
    assert all(is_there(person) for person in kept)


def test_addresses_older_than_a_week_become_networks() -> None:
    addresses = ("192.0.2.77", "192.0.2.78", "2001:db8:1:2::/64", "::1", "", "unknown")
    for age, address in (*((8, address) for address in addresses), (6, "192.0.2.77")):
        at, row = NOW - timedelta(days=age), {"step": Step.SIGN_IN, "outcome": Outcome.REFUSED}
        ActivityRecord.objects.create(at=at, address=address, **row)
    for _ in range(2):  # a second purge finds nothing
        list(purging.batches(NOW))
        shown = list(ActivityRecord.objects.order_by("pk").values_list("address", flat=True))
        assert shown == ["192.0.2.0/24", "192.0.2.0/24", "2001:db8:1:2::/64", "", "", "", "192.0.2.77"]
