"""A code is redeemed by many at once, or while the person or the application loses the right to its token."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from tests.faults.load import Caller, codes_for, statuses
from tests.faults.races import begin, wait_until_it_waits
from tests.server import PATIENCE_SECONDS, Server


def check(server: Server, *, callers: int, count: int) -> None:
    """One success for each code, one row, a valid token for each winner; 3 seconds later another use is a replay."""
    application, barrier = ApplicationFactory(), threading.Barrier(callers)
    codes, redeemed, caller = codes_for(application, count), {}, Caller(server)

    def redeem_all(_number: int) -> list[Any]:
        return [(barrier.wait(PATIENCE_SECONDS), caller.exchange(application, code))[1] for code in codes]

    with ThreadPoolExecutor(callers) as pool:
        columns = list(pool.map(redeem_all, range(callers)))
    for code, answers in zip(codes, zip(*columns, strict=True), strict=True):
        [redeemed[code]] = [answer.json()["access_token"] for answer in answers if answer.status == 200]
        refused = [answer.json() for answer in answers if answer.status == 400]
        assert len(refused) == callers - 1
        assert {each["error"] for each in refused} == {"invalid_grant"}
        assert all("less than 3 seconds ago" in each["error_description"] for each in refused)
    tokens = AccessToken.objects.filter(application=application.row)
    spent = AuthorizationCode.objects.filter(application=application.row, redeemed_at__isnull=False)
    won = {digest_of(token) for token in redeemed.values()}
    assert len(won) == tokens.count() == spent.count() == count
    assert {bytes(row.digest) for row in tokens} == {bytes(row.token_digest or b"") for row in spent} == won
    assert statuses(server, redeemed.values()) == {200: count}

    code, token = next(iter(redeemed.items()))
    rewind(spent.get(digest=digest_of(code)), 3)
    assert "has been revoked" in caller.exchange(application, code).json()["error_description"]
    assert statuses(server, redeemed.values()) == {200: count - 1, 401: 1}
    assert statuses(server, [token]) == {401: 1}
    assert '"level":"error"' not in server.log


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_of_redemptions_at_once_only_one_succeeds(postgresql: None, redis_server: Any, launch: Launch) -> None:
    server = launch(REDIS_URL=redis_server.url, WEB_CONCURRENCY="4")
    check(server, callers=2, count=40)
    check(server, callers=10, count=10)


@contract("D13.race", "D13.no-row", "D13.twice", "D13.replay")
def test_so_it_is_on_sqlite(launch: Launch, sqlite_template: Path, tmp_path: Path) -> None:
    with in_use(f"sqlite:///{shutil.copy(sqlite_template, tmp_path)}"):
        check(launch(), callers=10, count=10)


@dataclass
class Right:
    """A code, what ends the right to its token, and the cause for which the token is refused then."""

    code: Issued
    end: Callable[[], object]
    cause: str
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def redeem(self) -> Any:
        application = self.code.row.application.pk
        return code_redemption.redeem({"code": self.code.raw}, application, self.token)

    def check_that_the_token_is_stored_and_refused(self) -> None:
        assert AccessToken.objects.filter(application=self.code.row.application).count() == 1
        with pytest.raises(RequestError) as refused:
            tokens.read(self.token)
        assert refused.value.cause == self.cause


def by_a_secret(application: Registered) -> Right:
    def leak() -> None:
        secret_rotation.revoke(application.row, secret_rotation.states(application.row)[0].number, is_leaked=True)

    return Right(CodeFactory(application=application), leak, "token_ended_application")


def by_a_group(application: Registered) -> Right:
    person, group = PersonFactory(), Group.objects.create(name=secrets.token_hex(8))
    registry.set_groups(application.row, [group])
    person.groups.add(group)
    code = CodeFactory(application=application, user=person)
    return Right(code, lambda: person.groups.remove(group), "token_ended_group")


@pytest.mark.parametrize("right_of", [by_a_secret, by_a_group])
@pytest.mark.parametrize("waits", [True, False])
def test_a_redemption_under_way_leaves_no_token_that_works(
    postgresql: None, application: Registered, right_of: Callable[[Registered], Right], waits: bool
) -> None:
    """It waits for its code, or is not committed, while the right ends in another transaction."""
    right = right_of(application)
    with transaction.atomic():
        if waits:
            AuthorizationCode.objects.filter(pk=right.code.row.pk).update(scope="profile")  # locks the code
            redemption = begin(right.redeem)
            wait_until_it_waits(redemption)
        else:
            assert right.redeem()
        begin(right.end).result(timeout=PATIENCE_SECONDS)
    if waits:
        redemption.result(timeout=PATIENCE_SECONDS)
    right.check_that_the_token_is_stored_and_refused()


def test_a_leak_that_is_not_committed_yet_keeps_no_exchange_waiting(postgresql: None, application: Registered) -> None:
    right = by_a_secret(application)
    credentials = {"client_id": application.client_id, "client_secret": application.client_secret}
    with transaction.atomic():
        right.end()
        begin(client_secrets.authenticate, credentials).result(timeout=PATIENCE_SECONDS)
        assert begin(right.redeem).result(timeout=PATIENCE_SECONDS)
    right.check_that_the_token_is_stored_and_refused()


def test_a_redemption_leaves_nothing_of_a_disconnected_application(postgresql: None, application: Registered) -> None:
    person = PersonFactory()
    consents.remember(person, application.row)
    code = CodeFactory(application=application, user=person).raw
    with transaction.atomic():
        assert code_redemption.redeem({"code": code}, application.row.pk, secrets.token_urlsafe(32))
        ended = begin(consents.disconnect, person, application.row)
        wait_until_it_waits(ended)
    ended.result(timeout=PATIENCE_SECONDS)
    assert AccessToken.objects.get(user=person).revoked_at is not None
    assert not AuthorizationCode.objects.filter(user=person).exists()
    assert not Consent.objects.filter(user=person).exists()
