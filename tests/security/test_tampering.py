"""Consent forms that another person posts or that are changed; hints and tokens of others, or of nobody."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from joserfc import jws

from oauth_bridge.models import AuthorizationCode
from oauth_bridge.oauth import revocation_introspection
from oauth_bridge.openid import id_token, signing_keys
from tests.contract.test_openid import exchanged
from tests.contract.test_openid_prompts import ask, error
from tests.contract_coverage import contract
from tests.driver import Form, OAuthDriver, Page
from tests.factories import PASSWORD, ApplicationFactory, Registered, TokenFactory
from tests.pages import encoded

ALLOW = ("decision", "allow")


def consent_form(driver: OAuthDriver, application: Registered, **changes: str | None) -> Form:
    form = Page(driver.open(driver.authorization_url(application, **changes))).consent
    assert form
    return form


def codes_of(*applications: Registered) -> int:
    return AuthorizationCode.objects.filter(application__in=[each.row for each in applications]).count()


@contract("D5.hidden", "D5.pending")
def test_an_altered_pending_request_or_that_of_a_link_gives_no_code(
    signed_in: OAuthDriver, another_driver: OAuthDriver, application: Registered
) -> None:
    """The signed request of a link is not bound to a person, so posting it must not count as a consent."""
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
        assert (answer.status_code, answer.headers.get("Location")) == (400, None), altered
    to_sign_in = another_driver.get(another_driver.authorization_url(application))
    onward = parse_qs(urlsplit(to_sign_in.headers["Location"]).query)["next"][0]
    undecided = signed_in.submit(form, follow=False).headers["Location"]
    for link in (onward, undecided):
        sealed = parse_qs(urlsplit(link).query)["pending"][0]
        assert "code=" not in signed_in.submit(form, button=ALLOW, pending=sealed).headers.get("Location", "")
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
    assert (callback.address, callback.parameters["state"]) == (application.redirect_uri, "mine")
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
    mine = consent_form(signed_in, application)
    [own, *_] = Page(another_driver.open("/accounts/sign-in")).forms
    answer = another_driver.submit(mine, button=ALLOW, csrfmiddlewaretoken=own.fields["csrfmiddlewaretoken"])
    assert Page(answer).sign_in
    person = request.getfixturevalue(owner)
    elsewhere = consent_form(another_driver.signed_in(person.email, PASSWORD), application)
    answer = signed_in.submit(mine, button=ALLOW, pending=elsewhere.fields["pending"])
    assert "code=" not in answer.headers.get("Location", "")
    assert Page(answer).consent
    assert codes_of(application) == 0


@contract("D5.pending", "D19/forbidden", "D5.repeated", "D12.repeated")
@pytest.mark.parametrize("decision", ["allow", "refuse"])
def test_a_form_of_another_shape_is_refused(signed_in: OAuthDriver, application: Registered, decision: str) -> None:
    form = consent_form(signed_in, application)
    fields = {**form.fields, "decision": decision, "remember": "on"}
    token = {"X-CSRFToken": fields["csrfmiddlewaretoken"]}
    for repeated in fields:
        for value in (fields[repeated], ""):
            answer = post(signed_in, form, [(repeated, value), *fields.items()])
            assert (answer.status_code, answer.headers.get("Location")) == (400, None), repeated
            assert f"The parameter {repeated} was sent more than once" in Page(answer).text
    for answer in (
        post(signed_in, form, fields, params={"decision": decision}),
        post(signed_in, form, None, files={name: (None, value) for name, value in fields.items()}),
        post(signed_in, form, None, json=fields, headers=token),
        post(signed_in, form, {**fields, "decision": "al\x00low"}),
    ):
        assert (answer.status_code, answer.headers.get("Location")) == (400, None)
    for origin in ("https://evil.example", "null"):
        answer = post(signed_in, form, fields, headers={"Origin": origin})
        assert "code=" not in answer.headers.get("Location", "")
        assert Page(signed_in.follow(answer)).consent
    assert codes_of(application) == 0
    assert Page(signed_in.open(signed_in.authorization_url(application))).consent, "nothing was remembered"
    assert signed_in.callback(post(signed_in, form, fields)).parameters.keys() & {"code", "error"}


def post(driver: OAuthDriver, form: Form, data: Any, *, headers: dict[str, str] | None = None, **options: Any) -> Any:
    sent = {"Origin": driver.auth_url, **(headers or {})}
    return driver.browser.post(form.action, data=data, headers=sent, allow_redirects=False, timeout=10, **options)


def content_of(part: Any) -> bytes:
    return part if isinstance(part, bytes) else json.dumps(part).encode()


HEADERS = [
    [],
    None,
    "x",
    {"alg": "none"},
    {"alg": 1, "kid": "x"},
    {"alg": "RS256", "kid": "\x00"},
    {"alg": "RS256", "kid": "\ud800"},
    {"alg": "RS256", "kid": ["x"]},
    {"alg": "RS256", "kid": "x", "crit": ["b64"], "b64": False},
    {"alg": "RS256", "kid": "k" * 32_000},
    b"[" * 1500,
    b"\xff\xfe",
    b'{"kid": NaN}',
    b'{"alg": "RS256", "kid": ' + b"9" * 5000 + b"}",
]


@pytest.mark.django_db
def test_no_header_and_no_signed_content_of_a_hint_makes_an_error_of_the_service() -> None:
    for header, body in itertools.product(HEADERS, ({"sub": "x"}, [], b"[" * 1500)):
        for signature in ("", "AAAA", "!"):
            hint = f"{encoded(content_of(header))}.{encoded(content_of(body))}.{signature}"
            assert id_token.hinted(hint) == "", header
    signer = signing_keys.signer("ES256")
    for body in ([], None, 1, b"", b"[" * 4000, {"iss": 1}, b'{"exp": NaN}'):
        token = jws.serialize_compact({"alg": "ES256", "kid": signer.kid}, content_of(body), signer.key, ["ES256"])
        assert id_token.hinted(token) == "", body


def test_the_longest_id_token_is_a_hint(driver: OAuthDriver, application: Registered, alice: Any) -> None:
    asked = json.dumps({"id_token": dict.fromkeys(["name", "nickname", "picture", "avatar", "email"])})
    token = exchanged(driver, application, alice, nonce="\u00e9" * 512, claims=asked)["id_token"]
    assert len(token) > 2000
    assert Page(ask(driver, application, id_token_hint=token)).consent
    assert error(driver, ask(driver, application, id_token_hint=token + "x" * 8000)) == "invalid_request"


@contract("I8.others")
@pytest.mark.django_db
@pytest.mark.parametrize("operation", [revocation_introspection.introspect, revocation_introspection.revoke])
def test_a_token_of_another_application_runs_the_statements_of_an_unknown_one(operation: Callable[..., Any]) -> None:
    application = ApplicationFactory()

    def ran(token: str) -> list[str]:
        form = {"client_id": application.client_id, "client_secret": application.client_secret, "token": token}
        with CaptureQueriesContext(connection) as captured:
            assert operation(form, "192.0.2.1") in (None, {"active": False})
        return [query["sql"].split()[0] for query in captured]

    ran("first")  # notes the use of the secret
    assert ran(secrets.token_urlsafe(32)) == ran(TokenFactory().raw) != []
