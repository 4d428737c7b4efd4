"""Specification 4.1, D8: one consent attempt, one code; a page whose code was redeemed offers nothing any more."""

from __future__ import annotations

from typing import Any

import pytest

from accounts.models import Session
from oauth_bridge.models import AuthorizationCode
from tests.contract.test_4_1_consent import is_asked, remember
from tests.contract_coverage import contract
from tests.driver import OAuthDriver, Page, error_of
from tests.factories import PASSWORD, Registered


@pytest.mark.integration
@contract("D8.second-post", "D8.one", "D8.leads-on")
def test_a_second_post_of_the_same_page_gives_a_code_that_works_and_voids_the_first(
    signed_in: OAuthDriver, application: Registered
) -> None:
    """Also after a refusal, and of a page that was loaded again."""
    page = signed_in.open(signed_in.authorization_url(application, state="s"))
    signed_in.decide(page, "refuse")
    page = signed_in.open(page.url)
    first = signed_in.callback(signed_in.decide(page)).parameters["code"]
    second = signed_in.callback(signed_in.decide(page)).parameters
    assert second["state"] == "s"
    assert AuthorizationCode.objects.filter(application=application.row).count() == 1
    error_of(signed_in.exchange(application, first), 400, "invalid_grant")
    token = signed_in.exchange(application, second["code"]).json()["access_token"]
    error_of(signed_in.exchange(application, first), 400, "invalid_grant")
    assert signed_in.userinfo(token).status_code == 200, "the first code revokes nothing"


@pytest.mark.integration
@contract("D8.used-up", "D8.one", "D8.leads-on")
@pytest.mark.parametrize("start", ["", "https://client.example/start?from=service"])
def test_after_the_code_was_redeemed_the_page_offers_nothing_whoever_asks_and_leads_on(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered, mallory: Any, start: str
) -> None:
    application.row.initiate_login_uri = start
    application.row.save()
    page = signed_in.open(signed_in.authorization_url(application))
    form = Page(page).consent
    assert form
    code = signed_in.callback(signed_in.decide(page)).parameters["code"]
    token = signed_in.exchange(application, code).json()["access_token"]
    answers = [signed_in.decide(page, each, remember=True) for each in ("allow", "refuse")]
    assert is_asked(signed_in, application), "nothing was remembered"
    for answer in answers:
        # The application expects its state once, so a new attempt begins there.
        account = f"{signed_in.auth_url}/accounts/profile"
        assert Page(answer).links == [start or application.row.homepage, account]
        assert Page(answer).forms == []
    for person, decision in ((None, "refuse"), (mallory, "allow")):
        if person:
            another_driver.signed_in(person.email, PASSWORD)
        csrf = Page(another_driver.open("/accounts/password/reset")).forms[0].fields["csrfmiddlewaretoken"]
        answers.append(another_driver.submit(form, button=("decision", decision), csrfmiddlewaretoken=csrf))
    remember(signed_in, application)
    issued = AuthorizationCode.objects.filter(application=application.row)
    digests = set(issued.values_list("digest", flat=True))
    answers += [signed_in.open(page.url + more) for more in ("", "&notice=1")]  # Back or a reload, an outdated form
    for answer in answers:
        assert answer.status_code == 200
        assert "You already signed in" in Page(answer).text
        assert Page(answer).consent is None
    assert set(issued.values_list("digest", flat=True)) == digests
    fresh = signed_in.callback(signed_in.open(signed_in.authorization_url(application)))
    assert signed_in.exchange(application, fresh.parameters["code"]).status_code == 200
    assert signed_in.userinfo(token).status_code == 200


@contract("D8.used-up", "D8.one")
@pytest.mark.parametrize("is_signed_out", [False, True])
def test_a_refusal_voids_the_code_of_the_page_even_after_a_sign_out(
    signed_in: OAuthDriver, application: Registered, alice: Any, is_signed_out: bool
) -> None:
    page = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(signed_in.decide(page)).parameters["code"]
    if is_signed_out:
        Session.objects.filter(user=alice).delete()
    assert signed_in.callback(signed_in.decide(page, "refuse")).parameters["error"] == "access_denied"
    error_of(signed_in.exchange(application, code), 400, "invalid_grant")
