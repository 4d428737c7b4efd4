"""A person leaves the groups of an application while it redeems a code. D23."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction

from config.infrastructure.errors import RequestError
from oauth_bridge.models import AccessToken
from oauth_bridge.storage import applications, code_redemption, tokens
from tests.factories import CodeFactory, PersonFactory, Registered
from tests.faults.test_concurrent_disconnect import wait_until_somebody_waits


def test_a_redemption_that_has_begun_leaves_no_token_that_works(postgresql: None, application: Registered) -> None:
    """The other transaction leaves the group after the redemption has read it, and before its token is stored."""
    person, group = PersonFactory(), Group.objects.create(name=secrets.token_hex(8))
    applications.set_groups(application.row, [group])
    person.groups.add(group)
    code, token = CodeFactory(application=application, user=person).raw, secrets.token_urlsafe(32)

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        assert code_redemption.redeem({"code": code}, application.row.pk, token, is_restricted=True)
        pool.submit(closing(lambda: person.groups.remove(group))).result(timeout=60)
    assert AccessToken.objects.filter(user=person).count() == 1
    with pytest.raises(RequestError) as refused:
        tokens.read(token)
    assert refused.value.cause == "token_ended_group"


def test_a_redemption_that_waited_for_its_code_leaves_no_token_that_works(
    postgresql: None, application: Registered
) -> None:
    """It may read the groups before it waits: then its token is refused."""
    person, group = PersonFactory(), Group.objects.create(name=secrets.token_hex(8))
    applications.set_groups(application.row, [group])
    person.groups.add(group)
    code, token = CodeFactory(application=application, user=person), secrets.token_urlsafe(32)

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            type(code.row).objects.filter(pk=code.row.pk).update(scope="profile")  # locks the code
            redemption = pool.submit(
                closing(
                    lambda: code_redemption.redeem({"code": code.raw}, application.row.pk, token, is_restricted=True)
                )
            )
            wait_until_somebody_waits(redemption)
            person.groups.remove(group)
        redemption.result(timeout=60)
    with pytest.raises(RequestError):
        tokens.read(token)


def closing(call: Any) -> Any:
    """The call, which closes its thread's connection at the end."""

    def run() -> Any:
        try:
            return call()
        finally:
            connection.close()

    return run
