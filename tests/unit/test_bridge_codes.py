"""A code belongs to an attempt, a person and an application: double clicks, mix-ups, and what was deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models import Model
from django.utils import timezone

from config.infrastructure.errors import RequestError
from oauth_bridge.credentials import codes, tokens
from oauth_bridge.credentials.random_values import digest_of
from oauth_bridge.errors import OAuthFault
from oauth_bridge.management import purging
from oauth_bridge.models import AuthorizationCode
from tests.factories import ApplicationFactory, PersonFactory, TokenFactory, issue

pytestmark = [pytest.mark.django_db, pytest.mark.integration]


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
