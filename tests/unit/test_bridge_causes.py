"""Every branch that refuses a request has a cause of its own, which no answer contains. D19, D24."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from config.infrastructure.errors import RequestError, Subject, of_subject, subject
from oauth_bridge.activity.causes import CAUSES, fix_of
from oauth_bridge.applications import registry
from oauth_bridge.consent import consents
from oauth_bridge.credentials import client_secrets, code_redemption, codes, tokens
from oauth_bridge.credentials.random_values import new_credential
from oauth_bridge.errors import OAuthFault as Fault
from oauth_bridge.management import purging
from oauth_bridge.models import Application, WithdrawnCode
from oauth_bridge.models.activity import ActivityRecord, Step
from oauth_bridge.oauth import authorization, exchange
from tests.factories import ApplicationFactory, CodeFactory, Issued, Registered, TokenFactory, issue

pytestmark = [pytest.mark.django_db, pytest.mark.integration]

OTHER, PROOF = "x" * 43, {"code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"}
WRONG, ANOTHERS, RIGHT, MISSING = "wrong", "another's", "right", ""
ENDED, REVOKED, OFF = {"ended": {}}, {"ended": {"is_revoked": True}}, {"is_enabled": False}
DELETED, PUBLIC = {"is_deleted": True}, {"client_type": Application.CLIENT_PUBLIC}

CLIENTS: list[tuple[str, Fault, str, dict[str, Any], dict[str, str]]] = [
    # the cause, the fault, the secret that is sent, what the application is like, what else is sent
    ("client_unknown", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, {}, {"client_id": "feed" * 8}),
    ("client_deleted", Fault.CLIENT_NOT_AUTHENTICATED, WRONG, DELETED, {}),
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
UNKNOWN = ("client_unknown", "client_deleted")


@pytest.fixture(autouse=True)
def no_subject() -> Iterator[None]:
    yield
    of_subject.set(None)


def made_as(made: dict[str, Any]) -> Registered:
    application: Registered = ApplicationFactory(
        **{name: value for name, value in made.items() if name in ("is_enabled", "client_type")}
    )
    if "ended" in made:
        application.row.secrets.update(expires_at=timezone.now() - timedelta(seconds=90), **made["ended"])
    if "is_deleted" in made:
        with audit_trail.by_command():
            registry.delete(application.row)
    return application


def refused(call: Callable[[], object]) -> RequestError:
    """The error; `subject()` then has what is known of the request."""
    of_subject.set(Subject())
    with pytest.raises(RequestError) as error:
        call()
    return error.value


def failed_authentication(
    secret: str, made: dict[str, Any], sent: dict[str, str]
) -> tuple[Registered, RequestError, list[str]]:
    application = made_as(made)
    secrets = {WRONG: new_credential(), ANOTHERS: ApplicationFactory().client_secret, RIGHT: application.client_secret}
    form = {"client_id": application.client_id} | ({"client_secret": secrets[secret]} if secret else {}) | sent
    with CaptureQueriesContext(connection) as captured:
        error = refused(lambda: client_secrets.authenticate(form))
    return application, error, [query["sql"] for query in captured]


@pytest.mark.parametrize(("cause", "fault", "secret", "made", "sent"), CLIENTS)
def test_a_failed_authentication_knows_its_cause_and_reads_the_same_for_all(
    cause: str, fault: Fault, secret: str, made: dict[str, Any], sent: dict[str, str]
) -> None:
    application, error, statements = failed_authentication(secret, made, sent)
    assert (error.fault, error.cause) == (fault, cause)
    assert error.description == fault.describe()
    assert subject().client_id == ("" if cause in UNKNOWN else application.client_id)
    if fault is not Fault.CLIENT_SWITCHED_OFF:
        assert ["LEFT JOIN (" in sql for sql in statements] == [False, True]


def test_of_what_was_deleted_or_expired_or_is_anothers_more_is_known_privately() -> None:
    _, error, _ = failed_authentication(WRONG, DELETED, {})
    entry = AuditEntry.objects.get()
    assert (error.private["deleted_name"], error.private["deleted_by"]) == (entry.name, entry.actor_name)
    assert error.private["deleted_at"] == f"{entry.at:%Y-%m-%d %H:%M} UTC"
    assert fix_of("client_deleted", error.private).startswith(f"The application {entry.name} was deleted on 2")
    assert fix_of("client_deleted") == CAUSES["client_deleted"].fix
    _, error, _ = failed_authentication(ANOTHERS, {}, {})
    assert error.private["secret_of"] == Application.objects.latest("pk").pk
    application, error, _ = failed_authentication(RIGHT, ENDED, {})
    assert error.private["secret_row"] == application.row.secrets.get().pk
    assert 90 <= float(str(error.private["expired_seconds"])) < 690


def change(row: Any, **changes: Any) -> None:
    type(row)._base_manager.filter(pk=row.pk).update(**changes)


def replaced(code: Issued) -> None:
    row = code.row
    issue(row.user, row.application, row.attempt)


def ago(**units: int) -> Any:
    return timezone.now() - timedelta(**units)


# By cause: the fault, what happened to the code, what is sent
CODES: dict[str, tuple[Fault, Callable[[Issued], object] | None, dict[str, str]]] = {
    "code_unknown": (Fault.CODE_UNKNOWN, None, {"code": new_credential()}),
    "code_misshapen": (Fault.CODE_UNKNOWN, None, {"code": "cut"}),
    "code_replaced": (Fault.CODE_UNKNOWN, replaced, {}),
    "code_withdrawn": (Fault.CODE_UNKNOWN, lambda it: codes.discard(it.row.attempt, it.row.user_id), {}),
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


def refused_exchange(application: Registered, code: Issued, sent: dict[str, str]) -> RequestError:
    form = {"grant_type": "authorization_code", "code": code.raw, "client_id": application.client_id}
    form |= {"client_secret": application.client_secret} | sent
    return refused(lambda: exchange.exchange_code(form, "192.0.2.1"))


@pytest.mark.parametrize("cause", CODES)
def test_a_refused_exchange_knows_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens, sent = CODES[cause]
    application = ApplicationFactory()
    code = CodeFactory(application=application)
    if happens:
        happens(code)
    error = refused_exchange(application, code, sent)
    assert (error.fault, error.cause) == (fault, cause)
    assert subject().client_id == application.client_id
    is_nobodys = "code" in sent or cause in ("verifier_malformed", "code_withdrawn")
    assert subject().person == (None if is_nobodys else code.row.user_id)
    assert subject().attempt == (None if is_nobodys else code.row.attempt)


def test_a_code_for_whose_refusal_no_reason_is_left_has_a_cause_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_redemption, "redeem", lambda *_, **__: None)
    application = ApplicationFactory()
    error = refused_exchange(application, CodeFactory(application=application), {})
    assert (error.fault, error.cause) == (Fault.CODE_RACED, "reason_unknown")


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
def test_a_refused_token_knows_its_cause_its_client_and_its_person(cause: str) -> None:
    fault, happens = TOKENS[cause]
    token = TokenFactory()
    happens(token)
    error = refused(lambda: tokens.read(token.raw))
    assert (error.fault, error.cause, subject().person) == (fault, cause, token.row.user_id)
    assert subject().client_id == token.row.application.client_id


LINKS: dict[str, tuple[dict[str, Any], dict[str, str | None]]] = {
    # cause: what the application is like; what the link has, None for what it leaves out
    "client_unknown": ({}, {"client_id": "feed" * 8}),
    "client_deleted": (DELETED, {}),
    "client_disabled": (OFF, {}),
    "redirect_uri_missing": ({}, {"redirect_uri": None}),
    "redirect_uri_mismatch": ({}, {"redirect_uri": "https://x.example/"}),
    "response_type_missing": ({}, {"response_type": None}),
    "response_type": ({}, {"response_type": "token"}),
    "challenge_plain": ({}, {"code_challenge": OTHER, "code_challenge_method": "plain"}),
    "challenge_method_missing": ({}, {"code_challenge": OTHER}),
    "challenge_method_other": ({}, {"code_challenge": OTHER, "code_challenge_method": "s256"}),
    "challenge_malformed": ({}, {"code_challenge": "x", "code_challenge_method": "S256"}),
    "challenge_needed": (PUBLIC, {}),
    "challenge_missing": ({}, {"code_challenge_method": "S256"}),
}


@pytest.mark.parametrize("cause", LINKS)
def test_a_refused_link_knows_its_cause_and_its_client(cause: str) -> None:
    made, changes = LINKS[cause]
    application = made_as(made)
    right = {"client_id": application.client_id, "redirect_uri": application.redirect_uri, "response_type": "code"}
    parameters = {name: value for name, value in (right | changes).items() if value is not None}
    error = refused(lambda: authorization.verify(authorization.AuthorizationRequest(parameters)))
    assert error.cause == cause
    assert subject().client_id == ("" if cause in UNKNOWN else application.client_id)


@pytest.mark.parametrize("ending", [consents.disconnect, codes.delete_all])
def test_a_code_that_its_person_withdrew_is_told_apart_until_it_is_purged(ending: Callable[..., None]) -> None:
    code, expired = CodeFactory(), CodeFactory(issued_at=ago(seconds=601))
    for each in (code, expired):
        ending(each.row.user, each.row.application)
    causes = [code_redemption.explain({"code": each.raw}, 1) for each in (code, expired)]
    assert [each and each.cause for each in causes] == ["code_withdrawn", ""]
    stored = WithdrawnCode.objects.get()
    for minutes, is_kept in ((59, True), (60, False)):
        list(purging.batches(stored.expires_at + timedelta(minutes=minutes)))
        assert WithdrawnCode.objects.exists() is is_kept


def test_the_code_of_an_attempt_that_another_application_sends_is_not_told_as_its_own() -> None:
    code, other = CodeFactory(), ApplicationFactory()
    replaced(code)
    refusal = code_redemption.explain({"code": code.raw}, other.row.pk)
    assert refusal
    assert (refusal.fault, refusal.cause) == (Fault.CODE_UNKNOWN, "code_replaced")
    assert refusal.code
    assert refusal.code.application_id == code.row.application_id


LOGOUTS: dict[str, dict[str, str]] = {
    # cause: what the link has
    "logout_hint_key_unknown": {"id_token_hint": jwt.encode({}, "k" * 32, headers={"kid": "x"})},
    "logout_hint_invalid": {"client_id": "{client_id}", "id_token_hint": "x"},
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
    assert record.client_id == (application.client_id if "{client_id}" in LOGOUTS[cause].values() else "")
