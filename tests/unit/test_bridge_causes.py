"""Every refused step is one record with a cause of its own, which no answer contains. D19, D24."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import jwt
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit_trail
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.credentials import code_redemption, tokens
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.errors import OAuthFault as Fault
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord
from tests.factories import ApplicationFactory, CodeFactory, Issued, TokenFactory, issue
from tests.grants import HTML, read
from tests.unit.test_activity import Tried

pytestmark = [pytest.mark.django_db, pytest.mark.integration]

OTHER, PROOF = "x" * 43, {"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}
WRONG, ANOTHERS, RIGHT, MISSING = "wrong", "another's", "right", None
OFF, PUBLIC = {"is_enabled": False}, {"client_type": Application.CLIENT_PUBLIC}
ENDED = {"expires_at": timezone.now() - timedelta(seconds=90)}
REVOKED = {**ENDED, "is_revoked": True}


def deleted(tried: Tried) -> Tried:
    with audit_trail.by_command():
        registry.delete(tried.application.row)
    return tried


def check(answer: Any, step: str, cause: str, client_id: str, person: object = None) -> ActivityRecord:
    record = ActivityRecord.objects.exclude(outcome="succeeded").get()
    assert (record.step, record.cause, record.reference) == (step, cause, answer["X-Reference"])
    assert (record.client_id, record.person_id, record.address) == (client_id, person, "127.0.0.1")
    return record


def says(answer: Any, fault: Fault) -> bool:
    return bool(answer.json()["error_description"].startswith(fault.problem.partition("{")[0]))


def sent_as_json(tried: Tried) -> Any:
    sent = {"grant_type": "authorization_code", "client_id": tried.application.client_id, "code": "x"}
    return Client().post("/oauth/token", sent, "application/json")


def sent_by_basic(tried: Tried) -> Any:
    header = base64.b64encode(f"{tried.application.client_id}:\x07".encode()).decode()
    sent = "grant_type=authorization_code", "application/x-www-form-urlencoded"
    return Client().post("/oauth/token", *sent, HTTP_AUTHORIZATION=f"Basic {header}")


def from_elsewhere(tried: Tried) -> Any:
    tried.browser = Client(enforce_csrf_checks=True)
    form = tried.form(decision="allow")
    return tried.browser.post("/oauth/authorize", form, headers={"Origin": "https://mallory.example"})


def link(**changes: str) -> Callable[[Tried], Any]:
    return lambda tried: tried.get(**changes)


def exchange(**changes: str | None) -> Callable[[Tried], Any]:
    return lambda tried: tried.exchange(**changes)


# By cause: the step, who is known (application, person, the attempt of the application's link), and the request.
REFUSED: dict[str, tuple[str, str, Callable[[Tried], Any]]] = {
    "client_id_missing": ("authorize", "", link(client_id="")),
    "client_disabled": ("authorize", "apt", lambda tried: tried.signed_in().change(is_enabled=False).get()),
    "redirect_uri_mismatch": ("authorize", "apt", lambda tried: tried.signed_in().get(redirect_uri="https://x.test/")),
    "client_unknown": ("authorize", "t", link(client_id="feed" * 8)),
    "client_deleted": ("authorize", "t", lambda tried: deleted(tried).get()),
    "redirect_uri_missing": ("authorize", "at", link(redirect_uri="")),
    "response_type_missing": ("authorize", "at", link(response_type="")),
    "response_type": ("authorize", "at", link(response_type="token")),
    "challenge_plain": ("authorize", "at", link(code_challenge=OTHER, code_challenge_method="plain")),
    "challenge_method_missing": ("authorize", "at", link(code_challenge=OTHER)),
    "challenge_method_other": ("authorize", "at", link(code_challenge=OTHER, code_challenge_method="s256")),
    "challenge_malformed": ("authorize", "at", link(code_challenge="x", code_challenge_method="S256")),
    "challenge_missing": ("authorize", "at", link(code_challenge_method="S256")),
    "challenge_needed": ("authorize", "at", lambda tried: tried.change(**PUBLIC).get()),
    "link_cut": ("authorize", "", lambda tried: tried.browser.get("/oauth/authorize?pending=cut", **HTML)),
    "link_not_ours": ("authorize", "", lambda tried: tried.browser.get("/oauth/authorize?pending=a:b:c", **HTML)),
    "password_wrong": ("sign_in", "apt", lambda tried: tried.sign_in(password="wrong")),
    "account_unknown": ("sign_in", "at", lambda tried: tried.sign_in(login="nobody@example.com")),
    "no_verified_email": ("consent", "apt", lambda tried: tried.signed_in(email_verified_at=None).get()),
    "not_admitted": ("consent", "apt", lambda tried: tried.signed_in().change(is_restricted=True).get()),
    "csrf_origin": ("consent", "at", from_elsewhere),
    "refused": ("consent", "apt", lambda tried: tried.answer(decision="refuse")),
    "client_id_not_in_form": ("exchange", "", exchange(client_id=None)),
    "code_missing": ("exchange", "a", exchange(code=None)),
    "grant_type_missing": ("exchange", "a", exchange(code=None, grant_type=None)),
    "grant_type": ("exchange", "a", exchange(code=None, grant_type="refresh_token")),
    "media_type": ("exchange", "a", sent_as_json),
    "padded": ("exchange", "a", exchange(code=None, client_secret="wrong ")),
    "basic_malformed": ("exchange", "a", sent_by_basic),
    "token_missing": ("profile", "", lambda tried: Client().get("/oauth/userinfo")),
    "token_in_url": ("profile", "", lambda tried: Client().get("/oauth/userinfo?access_token=x")),
    "token_of_another_kind": ("profile", "", lambda tried: read("eyJ.e30.x")),
    "token_unknown": ("profile", "", lambda tried: read("x" * 43)),
}


@pytest.mark.parametrize("cause", REFUSED)
def test_a_refused_step_is_one_record_with_its_cause(cause: str) -> None:
    step, known, refuse = REFUSED[cause]
    tried = Tried()
    client_id, person = "a" in known and tried.application.client_id, tried.person.pk if "p" in known else None
    record = check(refuse(tried), step, cause, client_id or "", person)
    assert bool(record.attempt) == ("t" in known)


@pytest.mark.parametrize("sent", ["[" * 8000, "[]", '{"client_id": 7}', '{"client_id": "\\u0000"}', "long"])
def test_a_json_body_that_names_no_application_is_recorded_without_one(sent: str) -> None:
    if sent == "long":
        sent = json.dumps({"client_id": Tried().application.client_id, "code": "x" * 8192})
    check(Client().post("/oauth/token", sent, "application/json"), "exchange", "media_type", "")


CLIENTS: list[tuple[str, Fault, str | None, dict[str, Any], dict[str, str]]] = [
    # the cause, the fault, the secret that is sent, columns of the application or its secret, what else is sent
    ("client_unknown", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, {}, {"client_id": "feed" * 8}),
    ("client_deleted", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, {}, {}),
    ("client_disabled", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, OFF, {}),
    ("client_disabled", Fault.CLIENT_NOT_AUTHENTICATED, RIGHT, OFF | ENDED, {}),
    ("client_disabled", Fault.CLIENT_SWITCHED_OFF, RIGHT, OFF, {}),
    ("secret_wrong", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, {}, {}),
    ("secret_of_another", Fault.CLIENT_NOT_AUTHENTICATED, ANOTHERS, {}, {}),
    ("secret_none_left", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, REVOKED, {}),
    ("public_with_secret", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, PUBLIC, {}),
    ("public_without_verifier", Fault.CLIENT_SECRET_MISSING, MISSING, PUBLIC, {}),
    ("verifier_instead_of_secret", Fault.CLIENT_SECRET_MISSING, MISSING, {}, PROOF),
    ("secret_missing", Fault.CLIENT_SECRET_MISSING, MISSING, {}, {}),
    ("secret_revoked", Fault.CLIENT_SECRET_EXPIRED, RIGHT, REVOKED, {}),
    ("secret_expired", Fault.CLIENT_SECRET_EXPIRED, RIGHT, ENDED, {}),
]


@pytest.mark.parametrize(("cause", "fault", "secret", "made", "sent"), CLIENTS)
def test_a_failed_authentication_has_its_cause_and_reads_the_same_for_all(
    cause: str, fault: Fault, secret: str | None, made: dict[str, Any], sent: dict[str, str]
) -> None:
    tried, another = Tried(**{name: made[name] for name in (*OFF, *PUBLIC) if name in made}), ApplicationFactory()
    if secret_columns := {name: made[name] for name in REVOKED if name in made}:
        tried.application.row.secrets.update(**secret_columns)
    if cause == "client_deleted":
        deleted(tried)
    secrets = {WRONG: new_credential(), ANOTHERS: another.secret, RIGHT: tried.application.secret}
    with CaptureQueriesContext(connection) as captured:
        answer = tried.exchange(client_secret=secrets.get(secret or ""), **sent)
    client_id = "" if cause in ("client_unknown", "client_deleted") else tried.application.client_id
    detail = check(answer, "exchange", cause, client_id).detail
    assert says(answer, fault)
    if fault is not Fault.CLIENT_SWITCHED_OFF:
        assert ["LEFT JOIN (" in query["sql"] for query in captured][:2] == [False, True]
    if cause == "secret_of_another":
        assert detail["secret_of"] == another.row.pk


def change(row: Any, **changes: Any) -> None:
    type(row)._base_manager.filter(pk=row.pk).update(**changes)


def ago(**units: int) -> Any:
    return timezone.now() - timedelta(**units)


# By cause: the fault, what happened to the code, what is sent
CODES: dict[str, tuple[Fault, Callable[[Issued], object] | None, dict[str, str]]] = {
    "code_unknown": (Fault.CODE_UNKNOWN, None, {"code": new_credential()}),
    "code_misshapen": (Fault.CODE_UNKNOWN, None, {"code": "cut"}),
    "code_replaced": (Fault.CODE_UNKNOWN, lambda it: issue(it.row.user, it.row.application, it.row.attempt), {}),
    "code_withdrawn": (Fault.CODE_UNKNOWN, lambda it: consents.disconnect(it.row.user, it.row.application), {}),
    "code_of_another": (Fault.CODE_OF_ANOTHER, lambda it: change(it.row, application=ApplicationFactory().row), {}),
    "verifier_malformed": (Fault.VERIFIER_MALFORMED, None, {"code_verifier": "short"}),
    "verifier_missing": (Fault.VERIFIER_MISSING, lambda it: change(it.row, code_challenge=OTHER), {}),
    "verifier_wrong": (Fault.VERIFIER_WRONG, lambda it: change(it.row, code_challenge=OTHER), PROOF),
    "verifier_unasked": (Fault.VERIFIER_UNASKED, None, PROOF),
    "code_raced": (Fault.CODE_RACED, lambda it: change(it.row, redeemed_at=ago()), {}),
    "code_spent": (Fault.CODE_SPENT, lambda it: change(it.row, redeemed_at=ago(minutes=1)), {}),
    "code_expired": (Fault.CODE_EXPIRED, lambda it: change(it.row, expires_at=ago(seconds=1)), {}),
    "person_deactivated": (Fault.CODE_PERSON_AWAY, lambda it: change(it.row.user, is_active=False), {}),
    "code_ended_person": (Fault.CODE_REVOKED, lambda it: change(it.row.user, credentials_version=7), {}),
    "code_ended_application": (Fault.CODE_REVOKED, lambda it: change(it.row.application, credentials_version=7), {}),
    "code_ended_group": (Fault.CODE_REVOKED, lambda it: change(it.row.application, is_restricted=True), {}),
    "code_redirect_uri": (Fault.CODE_REDIRECT_URI, None, {"redirect_uri": "https://x.example/"}),
}


@pytest.mark.parametrize("cause", CODES)
def test_a_refused_code_has_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens, sent = CODES[cause]
    tried = Tried()
    code = CodeFactory(application=tried.application)
    if happens:
        happens(code)
    answer = tried.exchange(**{"code": code.raw} | sent)
    is_nobodys = "code" in sent or cause == "code_withdrawn"
    record = check(answer, "exchange", cause, tried.application.client_id, None if is_nobodys else code.row.user_id)
    assert record.attempt == (None if is_nobodys else code.row.attempt)
    assert says(answer, fault)


def test_a_code_for_whose_refusal_no_reason_is_left_has_a_cause_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_redemption, "redeem", lambda *_, **__: None)
    tried = Tried()
    code = CodeFactory(application=tried.application)
    answer = tried.exchange(code=code.raw)
    check(answer, "exchange", "reason_unknown", tried.application.client_id, code.row.user_id)
    assert says(answer, Fault.CODE_RACED)


TOKENS: dict[str, tuple[Fault, Callable[[Issued], object]]] = {
    "token_expired": (Fault.TOKEN_EXPIRED, lambda it: change(it.row, expires_at=ago(seconds=1))),
    "token_revoked": (Fault.TOKEN_REVOKED, lambda it: change(it.row, revoked_at=ago(seconds=1))),
    "token_ended_replay": (Fault.TOKEN_REVOKED, lambda it: tokens.revoke(it.row.digest)),
    "token_ended_consent": (Fault.TOKEN_REVOKED, lambda it: consents.disconnect(it.row.user, it.row.application)),
    "person_deactivated": (Fault.TOKEN_REVOKED, lambda it: change(it.row.user, is_active=False)),
    "token_ended_person": (Fault.TOKEN_REVOKED, lambda it: change(it.row.user, credentials_version=7)),
    "token_ended_application": (Fault.TOKEN_REVOKED, lambda it: change(it.row.application, credentials_version=7)),
    "token_ended_group": (Fault.TOKEN_REVOKED, lambda it: change(it.row.application, is_restricted=True)),
    "client_disabled": (Fault.TOKEN_REVOKED, lambda it: change(it.row.application, is_enabled=False)),
}


@pytest.mark.parametrize("cause", TOKENS)
def test_a_refused_token_has_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens = TOKENS[cause]
    token = TokenFactory()
    happens(token)
    answer = read(token.raw)
    record = check(answer, "profile", cause, token.row.application.client_id, token.row.user_id)
    assert record.attempt == token.row.attempt
    assert says(answer, fault)


@pytest.mark.parametrize(
    ("cause", "is_named", "sent"),
    [
        ("logout_hint_key_unknown", False, {"id_token_hint": jwt.encode({}, "k" * 32, headers={"kid": "x"})}),
        ("logout_hint_invalid", True, {"id_token_hint": "x"}),
        ("logout_client_id_missing", False, {"post_logout_redirect_uri": "https://app.example/after"}),
        ("logout_address", True, {"post_logout_redirect_uri": "https://app.example/secret"}),
        ("client_unknown", False, {"client_id": "feed" * 8}),
    ],
)
def test_a_refused_sign_out_has_its_cause_and_its_client(cause: str, is_named: bool, sent: dict[str, str]) -> None:
    client_id = ApplicationFactory().client_id if is_named else ""
    check(
        Client().get("/oauth/logout", ({"client_id": client_id} if is_named else {}) | sent), "logout", cause, client_id
    )
