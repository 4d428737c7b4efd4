"""A code is redeemed by many at once, or while the person or the application loses the right to its token."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import Group
from django.db import transaction

from config.infrastructure.errors import RequestError
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.credentials import client_secrets, code_redemption, secret_rotation, tokens
from oauth_bridge.models import AccessToken, AuthorizationCode, Consent
from tests.conftest import Launch
from tests.contract_coverage import contract
from tests.databases import in_use
from tests.factories import ApplicationFactory, CodeFactory, Issued, PersonFactory, Registered, digest_of, rewind
from tests.faults.load import Answer, Caller, codes_for, statuses
from tests.faults.races import begin, wait_until_it_waits
from tests.server import Server

# One code by many callers ---------------------------------------------------------------------------------------------


def redeem_at_once(server: Server, application: Registered, callers: int, codes: list[str]) -> dict[str, str]:
    """The token of each code. Fails unless one caller got it and the others got the error for concurrent use."""
    barrier = threading.Barrier(callers)

    def redeem_all(caller: Caller) -> list[Answer]:
        return [(barrier.wait(60), caller.exchange(application, code))[1] for code in codes]

    with ThreadPoolExecutor(callers) as pool:
        columns = list(pool.map(redeem_all, [Caller(server) for _ in range(callers)]))
    redeemed = {}
    for code, answers in zip(codes, zip(*columns, strict=True), strict=True):
        assert Counter(answer.status for answer in answers) == {200: 1, 400: callers - 1}
        [redeemed[code]] = [answer.json()["access_token"] for answer in answers if answer.status == 200]
        refused = [answer.json() for answer in answers if answer.status == 400]
        assert {each["error"] for each in refused} == {"invalid_grant"}
        assert all("less than 3 seconds ago" in each["error_description"] for each in refused)
    return redeemed


def check(server: Server, *, callers: int, count: int) -> None:
    """One success for each code, one row, a valid token for each winner; 3 seconds later another use is a replay."""
    application = ApplicationFactory()
    redeemed = redeem_at_once(server, application, callers, codes_for(application, count))
    tokens = AccessToken.objects.filter(application=application.row)
    codes = AuthorizationCode.objects.filter(application=application.row, redeemed_at__isnull=False)
    won = {digest_of(token) for token in redeemed.values()}
    assert len(won) == tokens.count() == codes.count() == count
    assert {bytes(row.digest) for row in tokens} == {bytes(row.token_digest or b"") for row in codes} == won
    assert statuses(server, redeemed.values()) == {200: count}

    code, token = next(iter(redeemed.items()))
    rewind(codes.get(digest=digest_of(code)), 3)
    assert "has been revoked" in Caller(server).exchange(application, code).json()["error_description"]
    assert statuses(server, redeemed.values()) == {200: count - 1, 401: 1}
    assert statuses(server, [token]) == {401: 1}
    assert '"level":"error"' not in server.log


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_of_redemptions_at_once_one_succeeds_and_its_token_lives(
    postgresql: None, redis_server: Any, launch: Launch
) -> None:
    server = launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="4")
    check(server, callers=2, count=40)
    check(server, callers=10, count=10)


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_so_it_is_on_sqlite(launch: Launch, sqlite_template: Path, tmp_path: Path) -> None:
    with in_use(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"):
        check(launch(), callers=10, count=10)


# A right that ends meanwhile ------------------------------------------------------------------------------------------


class Right(NamedTuple):
    """A code, what redeems it, what ends the right to its token, and the cause for which the token is refused then."""

    code: Issued
    redeem: Callable[[str], Any]
    end: Callable[[], object]
    cause: str

    def check_that_the_token_is_stored_and_refused(self, token: str) -> None:
        assert AccessToken.objects.filter(application=self.code.row.application).count() == 1
        with pytest.raises(RequestError) as refused:
            tokens.read(token)
        assert refused.value.cause == self.cause


def authenticated(application: Registered) -> client_secrets.Client:
    return client_secrets.authenticate({"client_id": application.client_id, "client_secret": application.client_secret})


def by_a_secret(application: Registered) -> Right:
    client, code = authenticated(application), CodeFactory(application=application)

    def redeem(token: str) -> Any:
        return code_redemption.redeem({"code": code.raw}, client.pk, token)

    def leak() -> None:
        secret_rotation.revoke(application.row, secret_rotation.states(application.row)[0].number, is_leaked=True)

    return Right(code, redeem, leak, "token_ended_application")


def by_a_group(application: Registered) -> Right:
    person, group = PersonFactory(), Group.objects.create(name=secrets.token_hex(8))
    registry.set_groups(application.row, [group])
    person.groups.add(group)
    code = CodeFactory(application=application, user=person)

    def redeem(token: str) -> Any:
        return code_redemption.redeem({"code": code.raw}, application.row.pk, token, is_restricted=True)

    return Right(code, redeem, lambda: person.groups.remove(group), "token_ended_group")


@pytest.mark.parametrize("right_of", [by_a_secret, by_a_group])
@pytest.mark.parametrize("waits", [True, False])
def test_a_redemption_under_way_leaves_no_token_that_works(
    postgresql: None, application: Registered, right_of: Callable[[Registered], Right], waits: bool
) -> None:
    """It waits for its code, or is not committed, while the right ends in another transaction."""
    right, token = right_of(application), secrets.token_urlsafe(32)
    with transaction.atomic():
        if waits:
            AuthorizationCode.objects.filter(pk=right.code.row.pk).update(scope="profile")  # locks the code
            redemption = begin(right.redeem, token)
            wait_until_it_waits(redemption)
        else:
            assert right.redeem(token)
        begin(right.end).result(timeout=60)
    if waits:
        redemption.result(timeout=60)
    right.check_that_the_token_is_stored_and_refused(token)


def test_a_leak_that_is_not_committed_yet_keeps_no_exchange_waiting(postgresql: None, application: Registered) -> None:
    """And what the exchange stores meanwhile is not valid afterwards."""
    right, token = by_a_secret(application), secrets.token_urlsafe(32)
    with transaction.atomic():
        right.end()
        begin(authenticated, application).result(timeout=60)
        assert begin(right.redeem, token).result(timeout=60)
    right.check_that_the_token_is_stored_and_refused(token)


def test_a_redemption_that_has_begun_leaves_nothing_of_a_disconnected_application(
    postgresql: None, application: Registered
) -> None:
    """D7: a person disconnects the application."""
    person = PersonFactory()
    consents.remember(person, application.row)
    code = CodeFactory(application=application, user=person).raw
    with transaction.atomic():
        assert code_redemption.redeem({"code": code}, application.row.pk, secrets.token_urlsafe(32))
        ended = begin(consents.disconnect, person, application.row)
        wait_until_it_waits(ended)
    ended.result(timeout=60)
    mine: dict[str, Any] = {"user": person, "application": application.row}
    assert [token.revoked_at is not None for token in AccessToken.objects.filter(**mine)] == [True]
    assert not AuthorizationCode.objects.filter(**mine).exists()
    assert not Consent.objects.filter(**mine).exists()
