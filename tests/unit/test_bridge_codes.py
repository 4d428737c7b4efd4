"""Codes: double clicks, and the second at which a code or page ends, also after the clock was set back. D5, D8, D13."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
import time_machine
from django.utils import timezone

from oauth_bridge.credentials import codes
from oauth_bridge.models import AccessToken, AuthorizationCode
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, digest_of, issue
from tests.grants import PAGE, answer, browser_at_pages, consent_page, read, redeem
from tests.pages import html_of

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
