"""Consent forms that are posted by another person or with changed fields. D5, D8."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from oauth_bridge.models import AuthorizationCode
from tests.contract_coverage import contract
from tests.driver import Form, OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, Registered

ALLOW = ("decision", "allow")


def consent_form(driver: OAuthDriver, application: Registered, **changes: str | None) -> Form:
    form = Page(driver.open(driver.authorization_url(application, **changes))).consent
    assert form
    return form


def codes_of(*applications: Registered) -> int:
    return AuthorizationCode.objects.filter(application__in=[each.row for each in applications]).count()


@contract("D5.hidden", "D5.pending")
def test_an_altered_pending_request_leads_nowhere(signed_in: OAuthDriver, application: Registered) -> None:
    form = consent_form(signed_in, application)
    pending = form.fields["pending"]
    head, _, tail = pending.partition(":")
    for altered in (
        "",
        "x",
        f"{'A' if pending[0] != 'A' else 'B'}{pending[1:]}",
        f"{pending[:-2]}{'A' if pending[-2] != 'A' else 'B'}{pending[-1]}",
        f"{head[: len(head) // 2]}{tail}",
        f"{tail}:{head}",
        f"{pending}A",
        pending.swapcase(),
    ):
        answer = signed_in.submit(form, button=ALLOW, pending=altered)
        assert answer.status_code == 400, altered
        assert "Location" not in answer.headers
    assert codes_of(application) == 0


@contract("D5.hidden", "D6.refusal")
@pytest.mark.parametrize("decision", ["allow", "refuse"])
def test_added_fields_change_nothing(signed_in: OAuthDriver, application: Registered, decision: str) -> None:
    hers = ApplicationFactory(redirect_uris="https://mallory.example/cb")
    form = consent_form(signed_in, application, state="mine")
    assert set(form.fields) == {"csrfmiddlewaretoken", "pending"}, "nothing is in clear"
    answer = signed_in.submit(
        form,
        button=("decision", decision),
        redirect_uri=hers.redirect_uri,
        client_id=hers.client_id,
        state="hers",
        scope="everything",
        user=str(hers.row.pk),
        next="https://mallory.example/",
    )
    callback = signed_in.callback(answer)
    assert callback.address == application.redirect_uri
    assert callback.parameters["state"] == "mine"
    assert codes_of(hers) == 0


@contract("D5.pending")
@pytest.mark.parametrize("owner", ["mallory", "alice"])
def test_a_page_of_another_browser_is_worth_nothing_in_that_of_alice(
    signed_in: OAuthDriver,
    another_driver: OAuthDriver,
    application: Registered,
    owner: str,
    request: pytest.FixtureRequest,
) -> None:
    """Whoever's it is: she is asked for herself."""
    person = request.getfixturevalue(owner)
    elsewhere = consent_form(another_driver.signed_in(person.email, PASSWORD), application)
    mine = consent_form(signed_in, application)
    answer = signed_in.submit(mine, button=ALLOW, pending=elsewhere.fields["pending"])
    assert "code=" not in answer.headers.get("Location", "")
    assert Page(answer).consent
    assert codes_of(application) == 0


@contract("D5.pending")
def test_a_page_of_before_the_account_was_switched_counts_for_nobody(
    signed_in: OAuthDriver, application: Registered, mallory: Any
) -> None:
    form = consent_form(signed_in, application)
    sign_out = next(each for each in Page(signed_in.open("/accounts/profile")).forms if "sign-out" in each.action)
    signed_in.submit(sign_out)
    signed_in.signed_in(mallory.email, PASSWORD)
    fresh = consent_form(signed_in, application)
    answer = signed_in.submit(form, button=ALLOW, csrfmiddlewaretoken=fresh.fields["csrfmiddlewaretoken"])
    assert "code=" not in answer.headers.get("Location", "")
    assert codes_of(application) == 0


@contract("D5.pending")
def test_what_a_link_carries_is_not_what_a_page_carries(
    driver: OAuthDriver, signed_in: OAuthDriver, application: Registered, another_driver: OAuthDriver
) -> None:
    """The signed request of a sign-in link is not bound to a person, so posting it must not count as a consent."""
    to_sign_in = another_driver.get(another_driver.authorization_url(application))
    onward = parse_qs(urlsplit(to_sign_in.headers["Location"]).query)["next"][0]
    form = consent_form(signed_in, application)
    undecided = signed_in.submit(form, follow=False).headers["Location"]
    for link in (onward, undecided):
        blob = parse_qs(urlsplit(link).query)["pending"][0]
        answer = signed_in.submit(form, button=ALLOW, pending=blob)
        assert "code=" not in answer.headers.get("Location", "")
        assert codes_of(application) == 0


@contract("D5.pending")
def test_without_a_session_a_page_leads_to_the_sign_in(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered
) -> None:
    form = consent_form(signed_in, application)
    strangers = Page(another_driver.open("/accounts/sign-in")).sign_in
    assert strangers
    token = strangers.fields["csrfmiddlewaretoken"]
    answer = another_driver.submit(form, button=ALLOW, csrfmiddlewaretoken=token)
    assert Page(answer).sign_in
    assert codes_of(application) == 0


@contract("D5.pending", "D19/forbidden")
@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
def test_a_post_from_another_site_gives_no_code(signed_in: OAuthDriver, application: Registered, origin: str) -> None:
    form = consent_form(signed_in, application)
    answer = post(signed_in, form, {**form.fields, "decision": "allow"}, headers={"Origin": origin})
    assert "code=" not in answer.headers.get("Location", "")
    assert codes_of(application) == 0
    assert answer.status_code != 403, "R13: the form again, not a bare 403"
    assert Page(signed_in.follow(answer)).consent


@contract("D5.repeated", "D12.repeated")
@pytest.mark.parametrize("decision", ["allow", "refuse"])
def test_a_repeated_field_is_refused_and_nothing_is_redirected(
    signed_in: OAuthDriver, application: Registered, decision: str
) -> None:
    form = consent_form(signed_in, application)
    fields = {**form.fields, "decision": decision, "remember": "on"}
    for repeated in fields:
        for value in (fields[repeated], ""):
            answer = post(signed_in, form, [(repeated, value), *fields.items()])
            assert answer.status_code == 400, repeated
            assert "Location" not in answer.headers
            assert f"The parameter {repeated} was sent more than once" in Page(answer).text
    assert codes_of(application) == 0
    assert Page(signed_in.open(signed_in.authorization_url(application))).consent, "nothing was remembered"


@contract("D5.repeated")
def test_a_field_in_the_url_or_of_another_media_type_is_refused(
    signed_in: OAuthDriver, application: Registered
) -> None:
    form = consent_form(signed_in, application)
    fields = {**form.fields, "decision": "allow"}
    token = {"X-CSRFToken": fields["csrfmiddlewaretoken"]}
    for answer in (
        post(signed_in, form, fields, params={"decision": "allow"}),
        post(signed_in, form, None, files={name: (None, value) for name, value in fields.items()}),
        post(signed_in, form, None, json=fields, headers=token),
        post(signed_in, form, {**fields, "decision": "al\x00low"}),
    ):
        assert answer.status_code == 400
        assert "Location" not in answer.headers
    assert codes_of(application) == 0
    assert signed_in.callback(post(signed_in, form, fields)).parameters["code"]


def post(driver: OAuthDriver, form: Form, data: Any, *, headers: dict[str, str] | None = None, **options: Any) -> Any:
    sent = {"Origin": driver.auth_url, **(headers or {})}
    return driver.browser.post(form.action, data=data, headers=sent, allow_redirects=False, timeout=10, **options)
