"""Record the errors and events of a request in the activity log, after the response is made. Specification 7."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import Error
from django.http import HttpRequest

from accounts import return_path
from accounts.email_addresses import looked_up_email
from accounts.sessions import user_agents
from config.infrastructure import network
from config.infrastructure.errors import RequestError, subject
from config.infrastructure.events import Event, Member
from config.infrastructure.network import client_address
from oauth_bridge.activity import counts
from oauth_bridge.activity.causes import CAUSES, FACTOR_AWAITED, UNCONFIRMED
from oauth_bridge.activity.counts import Kind
from oauth_bridge.activity.reading import login_marks
from oauth_bridge.callback_addresses.difference import compare
from oauth_bridge.callback_addresses.masking import masked
from oauth_bridge.consent.pending_request import PendingRequest
from oauth_bridge.credentials import code_history
from oauth_bridge.models.activity import ActivityRecord, Outcome, Step
from oauth_bridge.models.application import MISTYPED_CLIENT_ID
from oauth_bridge.oauth.authorization import FRAME, SCRIPT
from oauth_bridge.oauth.parameters import Parameters, of_query

logger = logging.getLogger(__name__)

# The names of the details that a record copies from its error. Texts are cut to DETAIL_LENGTH characters.
DETAILS = (
    *("name", "scheme", "age", "given", "seconds", "secret_row", "secret_of", "expired_seconds", "code_of"),
    *("deleted_name", "deleted_at", "deleted_by"),
)
DETAIL_LENGTH = 100
# The values of these parameters of authorize are recorded if they match SHOWN_VALUE. No credential matches, because
# credentials are longer.
SHOWN_PARAMETERS = {"response_type", "client_id", "scope", "code_challenge_method", "prompt", "ui_locales"}
SHOWN_VALUE = re.compile(rf"[A-Za-z][A-Za-z0-9 ._-]{{0,31}}|{MISTYPED_CLIENT_ID}")
MOST_PARAMETERS = 12
COUNTED = {Event.CODE_ISSUED: Step.CONSENT, Event.CODE_REDEEMED: Step.EXCHANGE}
# The events that get a record, with its step and cause. With a cause, the step waits for the person.
RECORDED = {
    Event.SIGNED_IN: (Step.SIGN_IN, ""),
    Event.SECOND_FACTOR_USED: (Step.SECOND_FACTOR, ""),
    Event.ADDRESS_CODE_SENT: (Step.SIGN_IN, UNCONFIRMED),
    Event.SECOND_FACTOR_ASKED: (Step.SECOND_FACTOR, FACTOR_AWAITED),
}
SERVER_ERRORS = 500
# The step of each page of a sign-in in `accounts`, by the name of the page's route. The views of this package set
# their step themselves.
SIGN_IN_ROUTES = (
    *("account_login", "mfa_login_webauthn", "account_signup", "account_signup_by_passkey", "mfa_signup_webauthn"),
    *("account_email_verification_sent", "send_code", "account_reset_password", "account_reset_password_from_key"),
)
STEPS_OF_ROUTES = dict.fromkeys(SIGN_IN_ROUTES, Step.SIGN_IN) | {"mfa_authenticate": Step.SECOND_FACTOR}


def record(request: HttpRequest, written: Sequence[tuple[Event, dict[str, Member]]]) -> None:
    """Record or count the errors in `subject().errors` and the events `written` during the request. Never raises."""
    try:
        for error in subject().errors:
            _record_error(request, error)
        for event, members in written:
            _note_event(request, event, members)
    except Error as error:
        logger.error("activity not recorded", extra={"error": type(error).__name__})
    except Exception:
        logger.exception("activity not recorded")


def note_account_page(request: HttpRequest) -> None:
    """In `subject()`, note the step, application and attempt of a sign-in page of `accounts`. Never raises."""
    match = request.resolver_match
    try:
        if match and (step := STEPS_OF_ROUTES.get(match.url_name or "")):
            subject().step = step
            if pending := _pending(request):
                pending.note()
    except Exception:
        logger.exception("application not named")


def _record_error(request: HttpRequest, error: RequestError) -> None:
    known = subject()
    # A cause such as a rule of passwords has no row of its own.
    cause = error.cause if error.cause in CAUSES else error.fault.name.lower()
    if not known.step or cause not in CAUSES or (cause in (SCRIPT, FRAME) and not known.client_id):
        return
    step, client_id, person, attempt = Step(known.step), known.client_id, known.person, known.attempt
    # The digest of the code, and the client_id, if an exchange was refused before it read the code.
    presented: Any = error.private.get("presented") if attempt is None else None
    is_read = presented and not client_id and cause not in ("client_unknown", "client_deleted")
    if is_read:  # the budget is that of the application
        attempt, person, client_id = code_history.presented(*presented)
    has_room = counts.has_room(client_id, *_caller(request, step))
    if has_room and presented and not is_read:
        attempt, person, found = code_history.presented(*presented)
        client_id = client_id or found
    outcome = Outcome.FAILED if error.fault.status >= SERVER_ERRORS else Outcome.REFUSED
    made = _record_of(request, step, outcome, cause, attempt=attempt, client_id=client_id, person_id=person)
    counts.count(made.at, client_id, step, outcome, cause)
    if not has_room:
        return
    # A text that is no e-mail address may be a password.
    login = looked_up_email(str(error.private.get("login", "")))
    made.login_mark = login_marks(login)[0] if login and not person else None
    made.detail, made.is_proven = _detail(request, step, error), known.is_proven
    made.save(force_insert=True)


def _record_of(request: HttpRequest, step: Step, outcome: Outcome, cause: str, **known: Any) -> ActivityRecord:
    return ActivityRecord(
        at=request.received_at,  # type: ignore[attr-defined]
        step=step,
        outcome=outcome,
        cause=cause,
        reference=network.reference.get(),
        address=client_address(request),
        browser=user_agents.describe(request.headers.get("User-Agent", "")),
        **known,
    )


def _note_event(request: HttpRequest, event: Event, members: dict[str, Member]) -> None:
    """Count an issued or redeemed code. Record that a sign-in or second factor succeeded or waits for the person."""
    if step := COUNTED.get(event):
        counts.count(request.received_at, str(members["client_id"]), step, Outcome.SUCCEEDED)  # type: ignore[attr-defined]
    is_new_address = event is Event.ADDRESS_CODE_SENT and request.user.is_authenticated
    if event not in RECORDED or is_new_address or not members.get("is_sign_in", True):
        return
    step, cause = RECORDED[event]
    pending = _pending(request)
    if cause == FACTOR_AWAITED and pending is None:  # no later record would show that the person typed the code
        return
    known = {"attempt": UUID(pending.attempt), "client_id": pending.client_id} if pending else {}
    outcome = Outcome.UNFINISHED if cause else Outcome.SUCCEEDED
    counts.add_later(_record_of(request, step, outcome, cause, person_id=members["person"], **known))


def _pending(request: HttpRequest) -> PendingRequest | None:
    return PendingRequest.of_path(return_path.found(request))


def _caller(request: HttpRequest, step: Step) -> tuple[Kind, str]:
    if subject().is_proven:
        return "proven", client_address(request)
    # Programs request an exchange or a profile without a cookie, so nobody is signed in.
    person = None if step in (Step.EXCHANGE, Step.PROFILE) else getattr(request, "user", None)
    if person is not None and person.is_authenticated:
        return "person", str(person.pk)
    return "stranger", client_address(request)


def _detail(request: HttpRequest, step: Step, error: RequestError) -> dict[str, Any]:
    known = {**error.private, **error.details}
    detail: dict[str, Any] = {name: known[name] for name in DETAILS if name in known}
    detail = {
        name: value if isinstance(value, int | float) else str(value)[:DETAIL_LENGTH] for name, value in detail.items()
    }
    if step is Step.AUTHORIZE:
        detail["parameters"] = _parameters(of_query(request))
    if "sent_client_id" in error.private:
        sent_client_id = str(error.private["sent_client_id"])
        is_id = re.fullmatch(MISTYPED_CLIENT_ID, sent_client_id)
        detail["parameters"] = {"client_id": sent_client_id if is_id else str(len(sent_client_id))}
    sent = error.private.get("redirect_uri")
    if isinstance(sent, str):
        detail["sent"] = masked(sent)
        registered = error.private.get("registered")
        if isinstance(registered, list):
            nearest, differs = compare(sent, registered, is_public=bool(error.private.get("is_public")))
            detail |= {"nearest": nearest, "differs": differs}
    return detail


def _parameters(sent: Parameters) -> dict[str, str]:
    names = [name for name in sent.names()[:MOST_PARAMETERS] if name.isprintable()]
    return {name[:DETAIL_LENGTH]: _parameter(name, sent.text(name)) for name in names}


def _parameter(name: str, value: str) -> str:
    """Return what to record: the value if it cannot be a credential, otherwise its length. `redirect_uri` is masked."""
    if name == "redirect_uri":
        return masked(value)
    return value if name in SHOWN_PARAMETERS and SHOWN_VALUE.fullmatch(value) else str(len(value))
