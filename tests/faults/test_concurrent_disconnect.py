"""A person disconnects an application while it redeems a code. D7."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from django.db import connection, transaction

from oauth_bridge.consent import remembered
from oauth_bridge.models import AccessToken, ApplicationSession, AuthorizationCode, Consent
from oauth_bridge.storage import application_sessions, code_redemption, consents
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered


def test_a_redemption_that_has_begun_leaves_no_token_that_works(postgresql: None, application: Registered) -> None:
    person = PersonFactory()
    remembered.remember(person, application.row)
    code = CodeFactory(application=application, user=person).raw

    def disconnect() -> None:
        try:
            consents.disconnect(person, application.row)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            assert code_redemption.redeem({"code": code}, application.row.pk, secrets.token_urlsafe(32))
            ended = pool.submit(disconnect)
            wait_until_somebody_waits(ended)
        ended.result(timeout=60)
    mine: dict[str, Any] = {"user": person, "application": application.row}
    assert [token.revoked_at is not None for token in AccessToken.objects.filter(**mine)] == [True]
    assert not AuthorizationCode.objects.filter(**mine).exists()
    assert not Consent.objects.filter(**mine).exists()


def test_a_sign_in_that_is_stored_meanwhile_has_ended(postgresql: None) -> None:
    application = ApplicationFactory(backchannel_logout_uri="https://client.example/sign-out")
    person = PersonFactory()
    code = CodeFactory(application=application, user=person).row

    def begin() -> str:
        try:
            return application_sessions.begin(
                str(uuid4()),
                code_id=code.pk,
                person_id=person.pk,
                application_id=application.row.pk,
                person_version=person.credentials_version,
            )
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            consents.disconnect(person, application.row)
            begun = pool.submit(begin)
            wait_until_somebody_waits(begun)
        sid = begun.result(timeout=60)
    row = ApplicationSession.objects.get(pk=sid)
    assert row.ended_at
    assert row.due_at


def wait_until_somebody_waits(ended: Any) -> None:
    """Until a statement waits for a row that this connection holds."""
    with connection.cursor() as cursor:
        while not ended.done():
            cursor.execute("SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))")
            if cursor.rowcount:
                return
