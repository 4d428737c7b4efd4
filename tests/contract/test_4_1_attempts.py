"""Specification 4.1, D8: one consent attempt, one code; a page whose code was redeemed offers nothing any more."""

from __future__ import annotations

from typing import Any

import pytest
from requests import Response

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


def used_up(driver: OAuthDriver, application: Registered) -> tuple[Response, str]:
    """The consent page of an attempt whose code was redeemed, and the access token."""
    page = driver.open(driver.authorization_url(application))
    code = driver.callback(driver.decide(page)).parameters["code"]
    return page, driver.exchange(application, code).json()["access_token"]


@pytest.mark.integration
@contract("D8.used-up", "D8.one", "D8.leads-on")
@pytest.mark.parametrize(
    ("start", "decision"), [("", "allow"), ("https://client.example/start?from=service", "refuse")]
)
def test_after_the_code_was_redeemed_the_page_says_so_and_leads_on(
    signed_in: OAuthDriver, application: Registered, start: str, decision: str
) -> None:
    application.row.initiate_login_uri = start
    application.row.save()
    page, token = used_up(signed_in, application)
    answer = signed_in.decide(page, decision, remember=True)
    assert answer.status_code == 200
    assert "You already signed in" in Page(answer).text
    # The application expects its state once, so a new attempt begins there.
    account = f"{signed_in.auth_url}/accounts/profile"
    assert Page(answer).links == [start or application.row.homepage, account]
    assert Page(answer).forms == []
    assert is_asked(signed_in, application), "nothing was remembered"
    fresh = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(signed_in.decide(fresh)).parameters["code"]
    assert signed_in.exchange(application, code).status_code == 200
    assert signed_in.userinfo(token).status_code == 200


@contract("D8.used-up")
@pytest.mark.parametrize("more", ["", "&notice=1"], ids=["Back or a reload", "an outdated form"])
def test_after_the_code_was_redeemed_the_address_of_the_page_issues_no_code_where_consent_is_remembered(
    signed_in: OAuthDriver, application: Registered, more: str
) -> None:
    page, token = used_up(signed_in, application)
    remember(signed_in, application)
    issued = AuthorizationCode.objects.filter(application=application.row)
    digests = set(issued.values_list("digest", flat=True))
    answer = signed_in.open(page.url + more)
    assert answer.status_code == 200
    assert "You already signed in" in Page(answer).text
    assert Page(answer).consent is None
    assert set(issued.values_list("digest", flat=True)) == digests
    assert signed_in.userinfo(token).status_code == 200


@contract("D8.used-up")
@pytest.mark.parametrize(("later", "decision"), [("nobody", "refuse"), ("mallory", "allow")])
def test_a_page_whose_code_was_redeemed_is_used_up_whoever_is_signed_in_by_now(
    signed_in: OAuthDriver,
    another_driver: OAuthDriver,
    application: Registered,
    mallory: Any,
    later: str,
    decision: str,
) -> None:
    form = Page(used_up(signed_in, application)[0]).consent
    assert form
    if later == "mallory":
        another_driver.signed_in(mallory.email, PASSWORD)
    token = Page(another_driver.open("/accounts/password/reset")).forms[0].fields["csrfmiddlewaretoken"]
    answer = another_driver.submit(form, button=("decision", decision), csrfmiddlewaretoken=token)
    assert "You already signed in" in Page(answer).text


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
