"""A client secret leaks while an exchange with it is under way. The token that it stores is not valid."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import transaction

from config.infrastructure.errors import RequestError
from oauth_bridge.models import AccessToken
from oauth_bridge.storage import client_secrets, code_redemption, secret_rotation, secret_states, tokens
from tests.factories import CodeFactory, Registered
from tests.faults.test_concurrent_disconnect import wait_until_somebody_waits
from tests.faults.test_concurrent_groups import closing


def begin(application: Registered) -> client_secrets.Client:
    return client_secrets.authenticate({"client_id": application.client_id, "client_secret": application.client_secret})


def redeem(client: client_secrets.Client, code: str, token: str) -> Any:
    return code_redemption.redeem({"code": code}, client.pk, token, secret_id=client.secret_id)


def leak(application: Registered) -> Any:
    return secret_states.revoke(application.row, secret_states.states(application.row)[0].number, is_leaked=True)


def check_that_it_is_stored_and_refused(token: str, application: Registered) -> None:
    assert AccessToken.objects.filter(application=application.row).count() == 1
    with pytest.raises(RequestError) as refused:
        tokens.read(token)
    assert refused.value.cause == "token_ended_secret"


def test_an_exchange_that_has_authenticated_leaves_no_valid_token(committed: None, application: Registered) -> None:
    code, token = CodeFactory(application=application).raw, secrets.token_urlsafe(32)
    client = begin(application)
    leak(application)
    assert redeem(client, code, token)
    check_that_it_is_stored_and_refused(token, application)


def test_a_redemption_that_is_not_committed_yet_leaves_no_valid_token(
    postgresql: None, application: Registered
) -> None:
    """The leak is complete, and its transaction over, before the token can be seen by any other."""
    code, token = CodeFactory(application=application).raw, secrets.token_urlsafe(32)
    client = begin(application)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert redeem(client, code, token)
        pool.submit(closing(lambda: leak(application))).result(timeout=60)
    check_that_it_is_stored_and_refused(token, application)


def test_a_redemption_that_waited_for_its_code_leaves_no_valid_token(postgresql: None, application: Registered) -> None:
    code, token = CodeFactory(application=application), secrets.token_urlsafe(32)
    client = begin(application)
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            type(code.row).objects.filter(pk=code.row.pk).update(scope="profile")  # locks the code
            redemption = pool.submit(closing(lambda: redeem(client, code.raw, token)))
            wait_until_somebody_waits(redemption)
            pool_of_leak = ThreadPoolExecutor(1)
            pool_of_leak.submit(closing(lambda: leak(application))).result(timeout=60)
            pool_of_leak.shutdown()
        redemption.result(timeout=60)
    check_that_it_is_stored_and_refused(token, application)


def test_a_leak_that_is_not_committed_yet_keeps_no_exchange_waiting(postgresql: None, application: Registered) -> None:
    """And what it stores meanwhile is not valid afterwards."""
    code, token = CodeFactory(application=application).raw, secrets.token_urlsafe(32)
    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        leak(application)
        assert pool.submit(closing(lambda: redeem(begin(application), code, token))).result(timeout=60)
    check_that_it_is_stored_and_refused(token, application)


def test_two_leaks_at_the_same_moment_are_both_listed(postgresql: None, application: Registered) -> None:
    """A leak that missed another would make the tokens of the other's secret valid again."""
    secret_rotation.rotate(application.row)
    first, second = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
    with first, second:
        with transaction.atomic():
            secret_states.lock(application.row)
            both = [
                pool.submit(
                    closing(lambda number=number: secret_states.revoke(application.row, number, is_leaked=True))
                )
                for pool, number in ((first, 1), (second, 2))
            ]
            wait_until_somebody_waits(both[0])
        for each in both:
            each.result(timeout=60)
    application.row.refresh_from_db()
    keys = sorted(application.row.secrets.values_list("pk", flat=True))
    assert application.row.leaked_secrets == f",{keys[0]},{keys[1]},"
