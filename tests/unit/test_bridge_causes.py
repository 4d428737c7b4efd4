"""Every branch that refuses a request has a cause of its own, which no answer contains. D19, D24."""

from __future__ import annotations

import ast
import inspect
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
from accounts.models import AuditEntry
from config.infrastructure.errors import RequestError
from oauth_bridge.activity_causes import FIXES, fix_of
from oauth_bridge.activity_models import ActivityRecord, Step
from oauth_bridge.activity_titles import title_of
from oauth_bridge.errors import OAuthFault
from oauth_bridge.maintenance import purging
from oauth_bridge.models import Application, WithdrawnCode
from oauth_bridge.protocol import authorization_request, token_exchange
from oauth_bridge.random_values import new_credential
from oauth_bridge.storage import applications, client_secrets, code_redemption, codes, consents, tokens
from tests.factories import ApplicationFactory, CodeFactory, Issued, Registered, TokenFactory

pytestmark = pytest.mark.django_db

VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
WRONG, ANOTHERS, RIGHT, MISSING, PUBLIC = "wrong", "another's", "right", "", Application.CLIENT_PUBLIC
NOT_AUTHENTICATED = OAuthFault.CLIENT_NOT_AUTHENTICATED
NO_SECRET = OAuthFault.CLIENT_SECRET_MISSING

CLIENTS: dict[str, tuple[OAuthFault, str, dict[str, Any], dict[str, str]]] = {
    # cause: the fault, the secret that is sent, what the application is like, what else is sent
    "client_unknown": (NOT_AUTHENTICATED, WRONG, {}, {"client_id": "feed" * 8}),
    "client_deleted": (NOT_AUTHENTICATED, WRONG, {"is_deleted": True}, {}),
    "client_disabled": (NOT_AUTHENTICATED, WRONG, {"is_enabled": False}, {}),
    "secret_wrong": (NOT_AUTHENTICATED, WRONG, {}, {}),
    "secret_of_another": (NOT_AUTHENTICATED, ANOTHERS, {}, {}),
    "secret_none_left": (NOT_AUTHENTICATED, WRONG, {"ended": {"is_revoked": True}}, {}),
    "public_with_secret": (NOT_AUTHENTICATED, WRONG, {"client_type": PUBLIC}, {}),
    "public_without_verifier": (NO_SECRET, MISSING, {"client_type": PUBLIC}, {}),
    "verifier_instead_of_secret": (NO_SECRET, MISSING, {}, {"code_verifier": VERIFIER}),
    "secret_missing": (NO_SECRET, MISSING, {}, {}),
    "secret_revoked": (OAuthFault.CLIENT_SECRET_EXPIRED, RIGHT, {"ended": {"is_revoked": True}}, {}),
    "secret_expired": (OAuthFault.CLIENT_SECRET_EXPIRED, RIGHT, {"ended": {}}, {}),
}

FIELDS = ("is_enabled", "client_type")
UNKNOWN = ("client_unknown", "client_deleted")


def deleted(application: Registered) -> None:
    with audit_trail.by_command():
        applications.delete(application.row)


def refused(call: Callable[[], object]) -> RequestError:
    with pytest.raises(RequestError) as error:
        call()
    return error.value


def failed_authentication(
    secret: str, made: dict[str, Any], sent: dict[str, str]
) -> tuple[Registered, RequestError, list[str]]:
    ended = made.get("ended")
    application = ApplicationFactory(**{name: value for name, value in made.items() if name in FIELDS})
    if ended is not None:
        application.row.secrets.update(expires_at=timezone.now() - timedelta(seconds=90), **ended)
    secrets = {WRONG: new_credential(), ANOTHERS: ApplicationFactory().client_secret, RIGHT: application.client_secret}
    if "is_deleted" in made:
        deleted(application)
    form = {"client_id": application.client_id} | ({"client_secret": secrets[secret]} if secret else {}) | sent
    with CaptureQueriesContext(connection) as captured:
        error = refused(lambda: client_secrets.authenticate(form))
    return application, error, [query["sql"] for query in captured]


@pytest.mark.parametrize("cause", CLIENTS)
def test_a_failed_authentication_knows_its_cause_and_reads_the_same_for_all(cause: str) -> None:
    fault, secret, made, sent = CLIENTS[cause]
    application, error, statements = failed_authentication(secret, made, sent)
    assert (error.fault, error.cause) == (fault, cause)
    assert error.description == fault.describe()
    assert getattr(error.client, "client_id", None) == (None if cause in UNKNOWN else application.client_id)
    assert ["LEFT JOIN (" in sql for sql in statements] == [False, True]


def test_of_a_deleted_application_the_name_and_who_deleted_it_are_known_privately() -> None:
    _, error, _ = failed_authentication(WRONG, {"is_deleted": True}, {})
    entry = AuditEntry.objects.get()
    assert (error.private["deleted_name"], error.private["deleted_by"]) == (entry.name, entry.actor_name)
    assert error.private["deleted_at"] == f"{entry.at:%Y-%m-%d %H:%M} UTC"
    assert fix_of("client_deleted", error.private).startswith(f"The application {entry.name} was deleted on 2")
    assert fix_of("client_deleted") == FIXES["client_deleted"]


def test_a_right_secret_of_a_disabled_application_has_a_sentence_of_its_own() -> None:
    _, error, _ = failed_authentication(RIGHT, {"is_enabled": False}, {})
    assert (error.fault, error.cause) == (OAuthFault.CLIENT_SWITCHED_OFF, "client_disabled")


def test_an_expired_secret_of_a_disabled_application_is_told_as_a_wrong_one() -> None:
    _, error, _ = failed_authentication(RIGHT, {"is_enabled": False, "ended": {}}, {})
    assert (error.fault, error.cause) == (NOT_AUTHENTICATED, "client_disabled")


def test_the_owner_of_a_secret_and_its_expiry_are_known_privately() -> None:
    _, error, _ = failed_authentication(ANOTHERS, {}, {})
    assert error.private["secret_of"] == Application.objects.latest("pk").pk
    application, error, _ = failed_authentication(RIGHT, {"ended": {}}, {})
    assert error.private["secret_row"] == application.row.secrets.get().pk
    assert 90 <= float(str(error.private["expired_seconds"])) < 120


def test_the_table_has_every_cause_of_a_failed_authentication() -> None:
    tree = ast.parse(inspect.getsource(client_secrets._cause))
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    chosen = [
        part for each in returned for part in ((each.body, each.orelse) if isinstance(each, ast.IfExp) else (each,))
    ]
    causes = {each.value for each in chosen if isinstance(each, ast.Constant)}
    assert causes | {"client_unknown", "client_deleted"} == set(CLIENTS)


def end_person(code: Issued, **changes: Any) -> None:
    type(code.row.user).objects.filter(pk=code.row.user_id).update(**changes)


def end_application(code: Issued, **changes: Any) -> None:
    Application.objects.filter(pk=code.row.application_id).update(**changes)


def change(code: Issued, **changes: Any) -> None:
    type(code.row).objects.filter(pk=code.row.pk).update(**changes)


def replaced(code: Issued) -> None:
    row = code.row
    application = Application.objects.get(pk=row.application_id)
    codes.issue(codes.Attempt(row.attempt, application, row.redirect_uri, row.scope, ""), row.user)


def ago(**units: int) -> Any:
    return timezone.now() - timedelta(**units)


# By cause: the fault, what happened to the code, what is sent
CODES: dict[str, tuple[OAuthFault, Callable[[Issued], object], dict[str, str]]] = {
    "code_unknown": (OAuthFault.CODE_UNKNOWN, lambda code: None, {"code": new_credential()}),
    "code_misshapen": (OAuthFault.CODE_UNKNOWN, lambda code: None, {"code": "cut"}),
    "code_replaced": (OAuthFault.CODE_UNKNOWN, lambda code: replaced(code), {}),
    "code_withdrawn": (OAuthFault.CODE_UNKNOWN, lambda code: codes.discard(code.row.attempt, code.row.user_id), {}),
    "code_of_another": (
        OAuthFault.CODE_OF_ANOTHER,
        lambda code: change(code, application_id=ApplicationFactory().row.pk),
        {},
    ),
    "verifier_malformed": (OAuthFault.VERIFIER_MALFORMED, lambda code: None, {"code_verifier": "short"}),
    "verifier_missing": (OAuthFault.VERIFIER_MISSING, lambda code: change(code, code_challenge="x" * 43), {}),
    "verifier_wrong": (
        OAuthFault.VERIFIER_WRONG,
        lambda code: change(code, code_challenge="x" * 43),
        {"code_verifier": VERIFIER},
    ),
    "verifier_unasked": (OAuthFault.VERIFIER_UNASKED, lambda code: None, {"code_verifier": VERIFIER}),
    "code_raced": (OAuthFault.CODE_RACED, lambda code: change(code, redeemed_at=ago(seconds=1)), {}),
    "code_spent": (OAuthFault.CODE_SPENT, lambda code: change(code, redeemed_at=ago(minutes=1)), {}),
    "code_expired": (OAuthFault.CODE_EXPIRED, lambda code: change(code, expires_at=ago(seconds=1)), {}),
    "person_deactivated": (OAuthFault.CODE_PERSON_AWAY, lambda code: end_person(code, is_active=False), {}),
    "code_ended_person": (OAuthFault.CODE_REVOKED, lambda code: end_person(code, credentials_version=7), {}),
    "code_ended_application": (OAuthFault.CODE_REVOKED, lambda code: end_application(code, credentials_version=7), {}),
    "code_ended_group": (OAuthFault.CODE_REVOKED, lambda code: end_application(code, is_restricted=True), {}),
    "code_redirect_uri": (OAuthFault.CODE_REDIRECT_URI, lambda code: None, {"redirect_uri": "https://x.example/"}),
}


@pytest.mark.parametrize("cause", CODES)
def test_a_refused_exchange_knows_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens, sent = CODES[cause]
    application = ApplicationFactory()
    code = CodeFactory(application=application)
    happens(code)
    form = {"grant_type": "authorization_code", "code": code.raw, "client_id": application.client_id}
    form |= {"client_secret": application.client_secret} | sent
    error = refused(lambda: token_exchange.exchange_code(form, "192.0.2.1"))
    assert (error.fault, error.cause) == (fault, cause)
    assert getattr(error.client, "client_id", "") == application.client_id
    is_nobodys = "code" in sent or cause in ("verifier_malformed", "code_withdrawn")
    assert error.person == (None if is_nobodys else code.row.user_id)
    assert error.private.get("attempt") == (None if is_nobodys else code.row.attempt)


def test_a_code_for_whose_refusal_no_reason_is_left_has_a_cause_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_redemption, "redeem", lambda *_, **__: None)
    application = ApplicationFactory()
    form = {"grant_type": "authorization_code", "code": CodeFactory(application=application).raw}
    form |= {"client_id": application.client_id, "client_secret": application.client_secret}
    error = refused(lambda: token_exchange.exchange_code(form, "192.0.2.1"))
    assert (error.fault, error.cause) == (OAuthFault.CODE_RACED, "reason_unknown")


TOKENS: dict[str, tuple[OAuthFault, Callable[[Issued], object]]] = {
    "token_expired": (OAuthFault.TOKEN_EXPIRED, lambda token: change(token, expires_at=ago(seconds=1))),
    "token_revoked": (OAuthFault.TOKEN_REVOKED, lambda token: change(token, revoked_at=ago(seconds=1))),
    "token_ended_replay": (OAuthFault.TOKEN_REVOKED, lambda token: tokens.revoke(token.row.digest)),
    "token_ended_consent": (
        OAuthFault.TOKEN_REVOKED,
        lambda token: consents.disconnect(token.row.user, token.row.application),
    ),
    "person_deactivated": (OAuthFault.TOKEN_REVOKED, lambda token: end_person(token, is_active=False)),
    "token_ended_person": (OAuthFault.TOKEN_REVOKED, lambda token: end_person(token, credentials_version=7)),
    "token_ended_application": (OAuthFault.TOKEN_REVOKED, lambda token: end_application(token, credentials_version=7)),
    "token_ended_group": (OAuthFault.TOKEN_REVOKED, lambda token: end_application(token, is_restricted=True)),
    "client_disabled": (OAuthFault.TOKEN_REVOKED, lambda token: end_application(token, is_enabled=False)),
    "token_ended_secret": (OAuthFault.TOKEN_REVOKED, lambda token: end_application(token, leaked_secrets=",7,")),
}


@pytest.mark.parametrize("cause", TOKENS)
def test_a_refused_token_knows_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens = TOKENS[cause]
    token = TokenFactory()
    happens(token)
    error = refused(lambda: tokens.read(token.raw))
    assert (error.fault, error.cause, error.person) == (fault, cause, token.row.user_id)
    assert getattr(error.client, "client_id", "") == token.row.application.client_id


def test_every_end_that_a_statement_tells_apart_is_in_a_table() -> None:
    told = {name for sql in (code_redemption.FIND_CODE, tokens.FIND_TOKEN) for name in sql.split("'")[1::2]}
    assert told <= {*CODES, *TOKENS}


LINKS: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
    # cause: what the application is like; what the link has, None for what it leaves out
    "client_unknown": ({}, {"client_id": "feed" * 8}),
    "client_deleted": ({"is_deleted": True}, {}),
    "client_disabled": ({"is_enabled": False}, {}),
    "redirect_uri_missing": ({}, {"redirect_uri": None}),
    "redirect_uri_mismatch": ({}, {"redirect_uri": "https://x.example/"}),
    "response_type_missing": ({}, {"response_type": None}),
    "response_type": ({}, {"response_type": "token"}),
    "challenge_plain": ({}, {"code_challenge": "x" * 43, "code_challenge_method": "plain"}),
    "challenge_method_missing": ({}, {"code_challenge": "x" * 43}),
    "challenge_method_other": ({}, {"code_challenge": "x" * 43, "code_challenge_method": "s256"}),
    "challenge_malformed": ({}, {"code_challenge": "x", "code_challenge_method": "S256"}),
    "challenge_needed": ({"client_type": PUBLIC}, {}),
    "challenge_missing": ({}, {"code_challenge_method": "S256"}),
}


@pytest.mark.parametrize("cause", LINKS)
def test_a_refused_link_knows_its_cause_and_its_client(cause: str) -> None:
    made, changes = LINKS[cause]
    application = ApplicationFactory(**{name: value for name, value in made.items() if name in FIELDS})
    if "is_deleted" in made:
        deleted(application)
    right = {"client_id": application.client_id, "redirect_uri": application.redirect_uri, "response_type": "code"}
    parameters = {name: value for name, value in (right | changes).items() if value is not None}
    error = refused(lambda: authorization_request.verify(authorization_request.AuthorizationRequest(parameters)))
    assert error.cause == cause
    assert getattr(error.client, "client_id", None) == (None if cause in UNKNOWN else application.client_id)


@pytest.mark.parametrize("ending", [consents.disconnect, codes.delete_all])
def test_a_code_that_its_person_withdrew_is_told_apart_until_it_is_purged(ending: Callable[..., None]) -> None:
    code, expired = CodeFactory(), CodeFactory(issued_at=ago(seconds=601))
    for each in (code, expired):
        ending(each.row.user, each.row.application)
    causes = [code_redemption.explain({"code": each.raw}, 1) for each in (code, expired)]
    assert [each and each.cause for each in causes] == ["code_withdrawn", ""]
    stored = WithdrawnCode.objects.get()
    list(purging.batches(stored.expires_at + timedelta(minutes=59)))
    assert WithdrawnCode.objects.exists()
    list(purging.batches(stored.expires_at + timedelta(minutes=60)))
    assert not WithdrawnCode.objects.exists()


def test_the_code_of_an_attempt_that_another_application_sends_is_not_told_as_its_own() -> None:
    code, other = CodeFactory(), ApplicationFactory()
    replaced(code)
    refusal = code_redemption.explain({"code": code.raw}, other.row.pk)
    assert refusal
    assert (refusal.fault, refusal.cause) == (OAuthFault.CODE_UNKNOWN, "code_replaced")
    assert refusal.code
    assert refusal.code.application_id == code.row.application_id


LOGOUTS: dict[str, dict[str, str]] = {
    # cause: what the link has
    "logout_hint_key_unknown": {"id_token_hint": jwt.encode({}, "k" * 32, headers={"kid": "x"})},
    "logout_hint_invalid": {"id_token_hint": "x"},
    "logout_client_id_missing": {"post_logout_redirect_uri": "https://app.example/after"},
    "logout_address": {"client_id": "{client_id}", "post_logout_redirect_uri": "https://app.example/secret"},
    "client_unknown": {"client_id": "feed" * 8},
}


@pytest.mark.parametrize("cause", LOGOUTS)
def test_a_refused_sign_out_is_recorded_with_its_cause_and_client(cause: str) -> None:
    application = ApplicationFactory()
    sent = {name: value.format(client_id=application.client_id) for name, value in LOGOUTS[cause].items()}
    assert Client().get("/oauth/logout", sent).status_code == 400
    record = ActivityRecord.objects.get(step=Step.LOGOUT)
    assert record.cause == cause
    assert record.client_id == (application.client_id if "client_id" in sent and cause != "client_unknown" else "")
    assert cause in FIXES
    assert title_of(cause) != cause
