"""Codes and tokens whose person or application is gone: worth nothing, never a fault of ours, and purged when due."""

from __future__ import annotations

import pytest
from django.db.models import Model
from django.utils import timezone

from config.infrastructure.errors import RequestError
from oauth_bridge.errors import OAuthFault
from oauth_bridge.maintenance import purging
from oauth_bridge.models import AccessToken, AuthorizationCode
from oauth_bridge.random_values import new_credential
from oauth_bridge.storage import code_redemption, tokens
from tests.factories import CodeFactory, TokenFactory

pytestmark = pytest.mark.django_db


def vanish(row: Model) -> None:
    """As by a statement of an administrator's, past Django and what it would take along."""
    type(row)._default_manager.filter(pk=row.pk)._raw_delete("default")


@pytest.mark.parametrize("whose", ["user", "application"])
def test_a_token_without_its_person_or_application_is_refused(whose: str) -> None:
    token = TokenFactory()
    application = token.row.application
    application.secrets.all().delete()
    vanish(getattr(token.row, whose))
    with pytest.raises(RequestError) as refused:
        tokens.read(token.raw)
    assert refused.value.fault is OAuthFault.TOKEN_REVOKED


def test_a_code_without_its_person_is_redeemed_by_nobody() -> None:
    code = CodeFactory()
    vanish(code.row.user)
    form = {"code": code.raw}
    assert not code_redemption.redeem(form, code.row.application_id, new_credential())
    refusal = code_redemption.explain(form, code.row.application_id)
    assert refusal
    assert refusal.fault is OAuthFault.CODE_UNKNOWN
    assert not AccessToken.objects.exists()


def test_django_takes_codes_and_tokens_along_with_their_person(rewind) -> None:
    code, token = CodeFactory(), TokenFactory()
    code.row.user.delete()
    token.row.user.delete()
    assert not AuthorizationCode.objects.exists()
    assert not AccessToken.objects.exists()


def test_what_was_left_alone_is_purged_when_it_is_due(rewind) -> None:
    token = TokenFactory()
    vanish(token.row.user)
    rewind(token.row, 3600)
    assert sum(batch.rows for batch in purging.batches(timezone.now())) == 1
