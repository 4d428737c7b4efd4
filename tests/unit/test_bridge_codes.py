"""A code belongs to an attempt, a person and an application: double clicks, mix-ups, and what was deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import RFC_4122, UUID, uuid4

import pytest
import time_machine
from django.db.models import Model
from django.utils import timezone

from config.infrastructure.errors import RequestError
from oauth_bridge.consent.pending_request import new_attempt
from oauth_bridge.credentials import code_redemption, codes, tokens
from oauth_bridge.credentials.random_values import digest_of, new_credential
from oauth_bridge.errors import OAuthFault
from oauth_bridge.management import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, TokenFactory, issue

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


def test_attempts_are_unique_and_in_the_order_of_time() -> None:
    with time_machine.travel("2026-11-21T12:00:00Z", tick=False) as clock:
        first, second = new_attempt(), new_attempt()
        assert first != second
        clock.shift(0.001)
        later = new_attempt()
    assert later > max(first, second)
    for attempt in (first, second, later):
        assert (UUID(attempt).version, UUID(attempt).variant) == (7, RFC_4122)
    assert int(first[:12], 16) == 1795262400000


def test_of_a_double_click_the_later_request_keeps_its_code_even_if_it_is_faster() -> None:
    application = ApplicationFactory()
    person, clicked = PersonFactory(), timezone.now()
    attempt = person, application.row, uuid4()
    code = issue(*attempt, clicked + timedelta(seconds=0.2))
    with pytest.raises(codes.AlreadyRedeemed):
        issue(*attempt, clicked)
    issue(PersonFactory(), application.row, attempt[2])  # another person who follows the same link
    with pytest.raises(codes.AlreadyRedeemed):  # nor is it replaced for another application
        issue(person, ApplicationFactory().row, attempt[2])
    row = AuthorizationCode.objects.get(user=person)
    assert row.digest == digest_of(code)
    # A clock that was set back is no double click.
    again = issue(*attempt, clicked - timedelta(seconds=5))
    row.refresh_from_db()
    assert row.digest == digest_of(again)


def vanish(row: Model) -> None:
    """As by a statement of an administrator's, past Django and what it would take along."""
    type(row)._default_manager.filter(pk=row.pk)._raw_delete("default")


@pytest.mark.parametrize("whose", ["user", "application"])
def test_a_token_without_its_person_or_application_is_refused(rewind: Callable[..., None], whose: str) -> None:
    token = TokenFactory()
    token.row.application.secrets.all().delete()
    vanish(getattr(token.row, whose))
    with pytest.raises(RequestError) as refused:
        tokens.read(token.raw)
    assert refused.value.fault is OAuthFault.TOKEN_REVOKED
    rewind(token.row, 3600)
    assert sum(rows for _table, rows in purging.batches(timezone.now())) == 1


def test_a_code_without_its_person_is_redeemed_by_nobody() -> None:
    code = CodeFactory()
    vanish(code.row.user)
    form = {"code": code.raw}
    assert not code_redemption.redeem(form, code.row.application_id, new_credential())
    refusal = code_redemption.explain(form, code.row.application_id)
    assert refusal
    assert refusal.fault is OAuthFault.CODE_UNKNOWN
    assert not AccessToken.objects.exists()
    for issued in (CodeFactory(), TokenFactory()):
        issued.row.user.delete()  # Django takes along what the person had
        assert not type(issued.row).objects.filter(pk=issued.row.pk).exists()
