"""Specification 4.1, D7 and D8: the consent page, remembered consents, old pages that continue, one code an attempt."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from accounts.models import Session
from oauth_bridge.models import Application, AuthorizationCode, Consent
from tests.contract_coverage import contract
from tests.driver import Form, OAuthDriver, Page, error_of
from tests.factories import PASSWORD, ApplicationFactory, Registered


def is_asked(driver: OAuthDriver, application: Registered) -> bool:
    return Page(driver.open(driver.authorization_url(application))).consent is not None


def remember(driver: OAuthDriver, application: Registered) -> None:
    driver.decide(driver.open(driver.authorization_url(application)), remember=True)
    assert not is_asked(driver, application)


def button(driver: OAuthDriver, name: str, application: Registered) -> Form | None:
    """The form with this button for the application, on the page of the person's applications."""
    forms = Page(driver.open("/accounts/applications")).forms
    return next((form for form in forms if (name, application.client_id) in form.buttons), None)


def press(driver: OAuthDriver, name: str, application: Registered) -> None:
    form = button(driver, name, application)
    assert form
    driver.submit(form, button=(name, application.client_id))


@pytest.mark.integration
@contract("D7.asked", "D7.remembered", "1.2")
def test_consent_is_asked_every_time_until_the_person_allows_this_application_with_the_box_ticked(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered, alice: Any, mallory: Any
) -> None:
    for decision, is_ticked in (("allow", False), ("refuse", True)):
        page = signed_in.open(signed_in.authorization_url(application))
        signed_in.callback(signed_in.decide(page, decision, remember=is_ticked))
    page = signed_in.open(signed_in.authorization_url(application))
    form = Page(page).consent
    assert form
    assert form.types["remember"] == "checkbox"
    assert form.checked == set()
    signed_in.decide(page, remember=True)

    answer = signed_in.get(signed_in.authorization_url(application))
    assert answer.status_code == 302
    code = signed_in.callback(answer).parameters["code"]
    assert signed_in.exchange(application, code).status_code == 200
    assert is_asked(signed_in, ApplicationFactory())
    assert is_asked(OAuthDriver(signed_in.base_url).signed_in(mallory.email, PASSWORD), application)
    answer = another_driver.consent_page(application, alice.email, PASSWORD)
    assert answer.status_code == 200
    assert Page(answer).refresh, "after a password it goes on by a page of our own"
    assert another_driver.callback(answer).address == application.redirect_uri


@contract("D7.changed", "D7.aged")
def test_a_remembered_consent_ends_when_the_application_changes_and_after_180_days(
    signed_in: OAuthDriver, application: Registered, rewind: Callable[..., None]
) -> None:
    for field, value in (
        ("name", "Photo Printer Pro"),
        ("homepage", "https://other.example/"),
        ("redirect_uris", "https://client.example/callback\nhttps://other.example/callback"),
    ):
        remember(signed_in, application)
        setattr(application.row, field, value)
        application.row.save()
        assert is_asked(signed_in, application), field
    remember(signed_in, application)
    row = Consent.objects.get(application=application.row)
    rewind(row, (row.expires_at - timezone.now() - timedelta(hours=1)).total_seconds())
    assert not is_asked(signed_in, application)
    rewind(row, timedelta(hours=1).total_seconds())
    assert is_asked(signed_in, application)


@contract("D7.revoked")
def test_a_remembered_consent_ends_when_the_person_revokes_it(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered, mallory: Any
) -> None:
    token = signed_in.token(application, remember=True)
    another_driver.signed_in(mallory.email, PASSWORD)
    remember(another_driver, application)
    press(another_driver, "ask_again", application)
    assert is_asked(another_driver, application)
    assert not is_asked(signed_in, application)

    press(signed_in, "ask_again", application)
    assert is_asked(signed_in, application)
    assert signed_in.userinfo(token).status_code == 200
    assert button(signed_in, "ask_again", application) is None
    assert button(signed_in, "disconnect", application)


@pytest.mark.integration
@contract("D7.revoked")
@pytest.mark.parametrize("is_remembered", [True, False])
def test_to_disconnect_an_application_ends_its_consent_its_codes_and_its_tokens(
    signed_in: OAuthDriver, application: Registered, is_remembered: bool
) -> None:
    other = ApplicationFactory()
    kept = signed_in.token(other, remember=True)
    ended = [signed_in.token(application, remember=is_remembered and number == 1) for number in range(2)]
    page = signed_in.open(signed_in.authorization_url(application))
    code = signed_in.callback(page if is_remembered else signed_in.decide(page)).parameters["code"]

    press(signed_in, "disconnect", application)
    error_of(signed_in.exchange(application, code), 400, "invalid_grant")
    assert [signed_in.userinfo(token).status_code for token in ended] == [401, 401]
    assert button(signed_in, "disconnect", application) is None
    assert signed_in.userinfo(kept).status_code == 200
    assert not is_asked(signed_in, other)

    assert is_asked(signed_in, application)
    assert signed_in.userinfo(signed_in.token(application)).status_code == 200
    assert button(signed_in, "disconnect", application)


@contract("D7.trusted", "D20.referrer", "D20.no-store", "D20.form-action")
def test_after_a_password_a_page_of_our_own_leads_to_a_trusted_application_and_brings_a_fault(
    driver: OAuthDriver, another_driver: OAuthDriver, alice: Any
) -> None:
    """The other application became a public one while the person typed the password."""
    trusted, changed = ApplicationFactory(is_trusted=True), ApplicationFactory()
    answer = driver.consent_page(trusted, alice.email, PASSWORD, state='a&b"c')
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    page = Page(answer)
    assert f"Continuing to {trusted.row.name}" in page.text
    assert page.refresh in page.links
    callback = driver.callback(answer)
    assert callback.parameters["state"] == 'a&b"c'
    assert driver.exchange(trusted, callback.parameters["code"]).status_code == 200
    sign_in = another_driver.open(driver.authorization_url(changed))
    Application.objects.filter(pk=changed.row.pk).update(client_type=Application.CLIENT_PUBLIC)
    answer = another_driver.sign_in(sign_in, alice.email, PASSWORD)
    assert (answer.status_code, driver.callback(answer).parameters["error"]) == (200, "invalid_request")


@contract("D7.client")
def test_a_client_cannot_skip_consent_by_a_parameter(signed_in: OAuthDriver, application: Registered) -> None:
    form = Page(signed_in.open(signed_in.authorization_url(application))).consent
    assert form
    pending = form.fields["pending"]
    for extra in (
        {"prompt": "none"},
        {"approval_prompt": "auto"},
        {"skip_authorization": "true", "trusted": "1"},
        {"is_trusted": "on", "remember": "on"},
        {"allow": "true"},
        {"decision": "allow"},
        {"decision": "allow", "pending": pending},
        {"decision": "allow", "request": pending},
    ):
        answer = signed_in.open(signed_in.authorization_url(application, **extra))
        assert "code=" not in answer.headers.get("Location", ""), extra
    assert AuthorizationCode.objects.filter(application=application.row).count() == 0


@contract("D8.leads-on", "D5.state")
def test_two_tabs_keep_their_requests_at_the_sign_in(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    other = ApplicationFactory(redirect_uris="https://other.example/cb")
    tabs = [
        (each, state, driver.open(driver.authorization_url(each, state=state)))
        for each, state in ((application, "one"), (other, "two"))
    ]
    pages = []
    for _application, _state, page in tabs:
        answer = driver.sign_in(page, alice.email, PASSWORD)
        pages.append(driver.sign_in(answer, alice.email, PASSWORD) if Page(answer).sign_in else answer)
    callbacks = [driver.callback(driver.decide(page)) for page in pages]
    for (each, state, _page), callback in zip(tabs, callbacks, strict=True):
        assert (callback.address, callback.parameters["state"]) == (each.redirect_uri, state)
        assert driver.exchange(each, callback.parameters["code"]).status_code == 200


@contract("D8.leads-on", "D5.pending")
def test_after_sign_out_elsewhere_a_page_leads_on(signed_in: OAuthDriver, application: Registered, alice: Any) -> None:
    page = signed_in.open(signed_in.authorization_url(application, state="kept"))
    Session.objects.filter(user=alice).delete()
    answer = signed_in.decide(page)
    assert Page(answer).sign_in
    answer = signed_in.sign_in(answer, alice.email, PASSWORD)
    callback = signed_in.callback(signed_in.decide(answer))
    assert callback.parameters["state"] == "kept"
    assert signed_in.exchange(application, callback.parameters["code"]).status_code == 200


@contract("D8.leads-on", "D19/forbidden")
def test_a_post_with_no_decision_or_an_old_token_asks_again(signed_in: OAuthDriver, application: Registered) -> None:
    form = Page(signed_in.open(signed_in.authorization_url(application, state="s"))).consent
    assert form
    assert Page(signed_in.submit(form)).consent
    assert Page(signed_in.submit(form, button=("decision", "perhaps"))).consent
    answer = signed_in.submit(form, button=("decision", "allow"), csrfmiddlewaretoken="x" * 64)
    assert AuthorizationCode.objects.filter(application=application.row).count() == 0
    assert signed_in.callback(signed_in.decide(answer)).parameters["state"] == "s"


@contract("D8.leads-on")
def test_not_you_leads_to_a_new_sign_in_and_back(signed_in: OAuthDriver, application: Registered, mallory: Any) -> None:
    page = Page(signed_in.open(signed_in.authorization_url(application, state="s")))
    switch = next(form for form in page.forms if "/accounts/sign-out" in form.action)
    answer = signed_in.submit(switch)
    if not Page(answer).sign_in:
        confirm = next(form for form in Page(answer).forms if "csrfmiddlewaretoken" in form.fields)
        answer = signed_in.submit(confirm)
    assert f"Sign in to continue to {application.row.name}" in Page(answer).text
    answer = signed_in.sign_in(answer, mallory.email, PASSWORD)
    assert mallory.email in Page(answer).text
    assert signed_in.callback(signed_in.decide(answer)).parameters["state"] == "s"


@pytest.mark.integration
@contract("D8.second-post", "D8.one", "D8.leads-on")
def test_a_second_post_gives_a_code_and_voids_the_first(signed_in: OAuthDriver, application: Registered) -> None:
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
