"""The statement that redeems a code and the function that explains why it did not agree on every request. D13."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

import pytest
from django.contrib.auth.models import Group
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from oauth_bridge.applications import registry
from oauth_bridge.credentials import code_redemption
from oauth_bridge.credentials.code_redemption import challenge_of
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.models import AccessToken, Application, AuthorizationCode
from tests.factories import ApplicationFactory, CodeFactory, Issued

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CALLBACK = "https://client.example/callback"
AGES = [timedelta(seconds=-30), timedelta(0), timedelta(seconds=2), timedelta(minutes=5)]


class Drawn(NamedTuple):
    """A code as it stands in the database, and a request for it."""

    has_challenge: bool
    verifier: str | None
    redirect_uri: str | None
    redeemed_ago: timedelta | None = None
    is_expired: bool = False
    is_person_active: bool = True
    is_person_ended: bool = False
    is_application_ended: bool = False
    is_restricted: bool = False
    is_member: bool = False
    is_application_there: bool = True
    is_own: bool = True
    is_known: bool = True


# The values that a request or a code can have besides the right one.
OTHERS: dict[str, list[object]] = {
    **{name: [not right] for name, right in Drawn._field_defaults.items()},
    "redeemed_ago": [*AGES],
    "verifier": [None, VERIFIER, VERIFIER.lower()],
    "redirect_uri": [CALLBACK + "/"],
}


@st.composite
def requests(draw: st.DrawFn) -> Drawn:
    """A right request for a right code, with two changes at most: more of them would hide each other."""
    has_challenge = draw(st.booleans())
    right = Drawn(has_challenge, VERIFIER if has_challenge else None, draw(st.sampled_from([None, CALLBACK])))
    changed = draw(st.lists(st.sampled_from(sorted(OTHERS)), max_size=2, unique=True))
    return right._replace(**{name: draw(st.sampled_from(OTHERS[name])) for name in changed})


def stored(drawn: Drawn) -> Issued:
    code: Issued = CodeFactory(code_challenge=challenge_of(VERIFIER) if drawn.has_challenge else "")
    row, now = code.row, timezone.now()
    if drawn.redeemed_ago is not None:
        row.redeemed_at, row.token_digest = now - drawn.redeemed_ago, bytes(32)
    if drawn.is_expired:
        row.expires_at = now - timedelta(seconds=1)
    row.save()
    type(row.user).objects.filter(pk=row.user.pk).update(
        is_active=drawn.is_person_active, credentials_version=int(drawn.is_person_ended)
    )
    chosen, other = (Group.objects.create(name=name) for name in ("chosen", "other"))
    registry.set_groups(row.application, [chosen] if drawn.is_restricted else [])
    row.user.groups.set([chosen, other] if drawn.is_member else [other])
    Application.objects.filter(pk=row.application_id).update(credentials_version=int(drawn.is_application_ended))
    if not drawn.is_application_there:
        Application.objects.filter(pk=row.application_id)._raw_delete("default")
    return code


@pytest.mark.django_db
@pytest.mark.integration
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(drawn=requests())
def test_a_code_is_redeemed_exactly_when_no_fault_is_found(drawn: Drawn) -> None:
    with transaction.atomic():
        code = stored(drawn)
        application_id = code.row.application_id if drawn.is_own else ApplicationFactory().row.pk
        form = {"code": code.raw if drawn.is_known else new_credential()}
        form |= {"code_verifier": drawn.verifier} if drawn.verifier else {}
        form |= {"redirect_uri": drawn.redirect_uri} if drawn.redirect_uri else {}

        with CaptureQueriesContext(connection) as captured:
            refusal, _ = code_redemption.explain(form, application_id)
        redemption = code_redemption.redeem(form, application_id, new_credential())

        event(refusal.fault.name if redemption is None else "redeemed")
        assert (redemption is not None) is (refusal.cause == "reason_unknown")
        assert [query["sql"].split()[0] for query in captured] == ["SELECT"] * (1 if drawn.is_known else 3)
        assert AccessToken.objects.count() == int(redemption is not None)
        if redemption:
            assert AccessToken.objects.filter(user=redemption.person_id, attempt=code.row.attempt).exists()
            assert AuthorizationCode.objects.get(pk=code.row.pk).redeemed_at is not None
            assert redemption == (code.row.user_id, code.row.scope, None)
        transaction.set_rollback(True)
