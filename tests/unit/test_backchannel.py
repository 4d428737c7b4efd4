"""Applications are told of each end of a sign-in, once they can be, and of nothing else. Back-Channel Logout 1.0."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import jwt
import pytest
from django.core.management import call_command
from django.db import OperationalError
from django.utils import timezone

from accounts.models import Session, User
from accounts.profile.deletion import delete_account
from accounts.sessions import credential_changes
from accounts.sessions.store import SessionStore
from oauth_bridge.maintenance import backchannel, purging
from oauth_bridge.models import ActivityRecord, Application, ApplicationSession
from oauth_bridge.storage import activity_counts, application_sessions, applications, consents, signing_keys
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.pages import browser_of
from tests.peers import HANGS, Receiver
from tests.server import free_port

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("receiver")]


def sign_in(person: User) -> SessionStore:
    """The session of a browser in which the person has just signed in."""
    return SessionStore(browser_of(person).session.session_key)


def begin(session: SessionStore, person: User, application: Registered, *, is_disconnected: bool = False) -> UUID:
    """The sign-in that the application knows. The person may disconnect it while the code is redeemed."""
    code = CodeFactory(application=application, user=person).row
    if is_disconnected:
        consents.disconnect(person, application.row)
    names = {"person_id": person.pk, "application_id": application.row.pk, "person_version": person.credentials_version}
    return UUID(application_sessions.begin(session["sign_in"], code_id=code.pk, **names))


def begin_and_end(application: Registered, person: User) -> UUID:
    session = sign_in(person)
    sid = begin(session, person, application)
    session.delete()
    return sid


def tell() -> None:
    """All that a worker's thread does while something is due."""
    backchannel._next_look = 0.0
    while backchannel.tell_next():
        pass


# What ends ------------------------------------------------------------------------------------------------------------

# By what ends it, which gets the browser's session, the person and the application.
ENDS: dict[str, Callable[[SessionStore, User, Application], Any]] = {
    "session": lambda session, _person, _application: session.delete(),
    "expired": lambda *_: Session.objects.update(expire_date=timezone.now()),
    "deactivated for a moment": lambda _session, person, _application: [
        credential_changes.set_active(person, is_active) for is_active in (False, True)
    ],
    "password": lambda session, person, _application: credential_changes.set_password(
        person, "another long password 17", except_session=session.session_key
    ),
    "account": lambda _session, person, _application: delete_account(person),
    "disconnected": lambda _session, person, application: consents.disconnect(person, application),
    "access": lambda _session, _person, application: applications.end_access(application),
}


@contract("I10.ends")
@pytest.mark.integration
@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_sign_in_is_told_once(end: str, told: Registered, receiver: Receiver, alice: User) -> None:
    session, sub = sign_in(alice), str(alice.pk)
    sid = begin(session, alice, told)
    tell()
    assert receiver.tokens == [], "it lives"
    ENDS[end](session, alice, told.row)
    tell()
    tell()
    [token] = receiver.tokens
    claims = verified(token, told)
    assert (claims["sub"], claims["sid"]) == (sub, str(sid))
    row = ApplicationSession.objects.get(pk=sid)
    assert (bool(row.told_at), row.due_at) == (True, None)
    assert end != "password" or Session.objects.filter(user=alice).exists(), "also in the browser where it was chosen"


def verified(token: str, application: Registered) -> dict[str, Any]:
    """As an application verifies it, with another library than the service's."""
    header = jwt.get_unverified_header(token)
    assert header["typ"] == "logout+jwt"
    keys = jwt.PyJWKSet.from_dict({"keys": signing_keys.published()})
    key = next(key for key in keys.keys if key.key_id == header["kid"])
    claims = jwt.decode(token, key, algorithms=[header["alg"]], audience=application.client_id)
    assert set(claims) == {"iss", "sub", "aud", "iat", "exp", "jti", "events", "sid"}
    assert claims["events"] == {"http://schemas.openid.net/event/backchannel-logout": {}}
    assert claims["exp"] - claims["iat"] == 120
    assert abs(claims["iat"] - time.time()) < 60
    return dict(claims)


@contract("I10.token")
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_logout_token_is_signed_as_the_id_tokens_are(
    receiver: Receiver, alice: User, algorithm: str, settings: Any
) -> None:
    application = ApplicationFactory(backchannel_logout_uri=receiver.url, id_token_alg=algorithm)
    begin_and_end(application, alice)
    tell()
    assert jwt.get_unverified_header(receiver.tokens[0])["alg"] == algorithm
    assert verified(receiver.tokens[0], application)["iss"] == settings.BASE_URL
    path, headers, form = receiver.requests[0]
    assert (path, headers["Content-Type"]) == ("/told?a=1", "application/x-www-form-urlencoded")
    assert list(form) == ["logout_token"]


@contract("I10.ends")
def test_a_changed_key_and_what_others_do_end_nothing(told: Registered, receiver: Receiver, alice: User) -> None:
    mallory, session = PersonFactory(), sign_in(alice)
    begin(session, alice, told)
    session.cycle_key()
    sids = {str(begin_and_end(told, mallory)), str(begin_and_end(told, alice))}
    consents.disconnect(mallory, told.row)
    consents.disconnect(alice, ApplicationFactory().row)
    tell()
    assert {jwt.decode(each, options={"verify_signature": False})["sid"] for each in receiver.tokens} == sids


@contract("I10.sid")
def test_a_sign_in_after_the_end_has_a_new_sid(told: Registered, receiver: Receiver, alice: User) -> None:
    session = sign_in(alice)
    first = begin(session, alice, told)
    assert begin(session, alice, told) == first
    consents.disconnect(alice, told.row)
    second = begin(session, alice, told)
    tell()
    assert first != second
    assert len(receiver.tokens) == 1
    credential_changes.set_password(alice, "another long password 17", except_session=session.session_key)
    assert begin(session, alice, told) != second, "also before anybody has looked"


def test_what_ended_is_kept_for_a_week_and_what_nobody_is_told_goes_with_its_session(
    told: Registered, alice: User
) -> None:
    def kept(at: timedelta) -> set[UUID]:
        list(purging.batches(timezone.now() + at))
        return set(ApplicationSession.objects.values_list("pk", flat=True))

    other = ApplicationFactory()
    living, gone, sid = begin(sign_in(alice), alice, other), begin_and_end(other, alice), begin_and_end(told, alice)
    assert kept(timedelta(hours=23)) == {living, gone, sid}
    assert kept(timedelta(hours=25)) == {living, sid}
    ApplicationSession.objects.filter(pk=living).delete()
    assert kept(timedelta(days=2)) == {sid}, "it has not been told yet"
    tell()
    assert kept(timedelta(days=6, hours=23)) == {sid}
    assert kept(timedelta(days=7, minutes=1)) == set()


@contract("I10.ends")
@pytest.mark.parametrize("is_told", [True, False])
def test_whoever_disconnects_while_a_code_is_redeemed_is_signed_out_there(
    told: Registered, receiver: Receiver, alice: User, is_told: bool
) -> None:
    application, session = told if is_told else ApplicationFactory(), sign_in(alice)
    row = ApplicationSession.objects.get(pk=begin(session, alice, application, is_disconnected=True))
    assert (bool(row.ended_at), bool(row.due_at)) == (True, is_told)
    tell()
    assert len(receiver.tokens) == is_told
    again = begin(session, alice, application)
    assert again != row.pk
    assert not ApplicationSession.objects.get(pk=again).ended_at
    session.delete()
    tell()
    late = begin(session, alice, application)
    tell()
    assert bool(ApplicationSession.objects.get(pk=late).told_at) is is_told, "a code of before the sign-out"


# Attempts: what is not told at once is told later, or it is recorded that it was not ---------------------------------

Ended = Callable[[Receiver | str], ApplicationSession]


@pytest.fixture
def ended(alice: User) -> Ended:
    """A sign-in that ended, of an application with this receiver."""

    def make(receiver: Receiver | str) -> ApplicationSession:
        url = receiver if isinstance(receiver, str) else receiver.url
        sid = begin_and_end(ApplicationFactory(backchannel_logout_uri=url), alice)
        application_sessions.end_gone()
        return ApplicationSession.objects.get(pk=sid)

    return make


def make_due(**changes: Any) -> None:
    ApplicationSession.objects.filter(due_at__isnull=False).update(due_at=timezone.now(), **changes)


def make_last() -> None:
    """The next attempt is the last one of a day."""
    application_sessions.end_gone()
    make_due(ended_at=timezone.now() - backchannel.TRIED_FOR, attempts=12)


@contract("I10.again")
def test_an_application_that_fails_or_is_left_in_the_middle_is_told_at_a_later_attempt(ended: Ended) -> None:
    with Receiver(500, 503).listening() as receiver:
        row = ended(receiver)
        for attempts in (1, 2):
            tell()
            row.refresh_from_db()
            assert (len(receiver.tokens), row.attempts, row.told_at) == (attempts, attempts, None)
            assert row.due_at
            pause = row.due_at - timezone.now()
            assert timedelta(seconds=20) < pause <= timedelta(seconds=30 * attempts)
            tell()  # it waits
            make_due()
        backchannel.wake()
        assert application_sessions.claim(backchannel.LEASE)  # and then the process is killed
        tell()
        assert len(receiver.tokens) == 2
        make_due()
        tell()
    row.refresh_from_db()
    assert (bool(row.told_at), row.attempts) == (True, 4)
    names = {jwt.decode(each, options={"verify_signature": False})["jti"] for each in receiver.tokens}
    assert (len(receiver.tokens), len(names)) == (3, 1)
    assert not ActivityRecord.objects.filter(step="logout").exists()


RECEIVERS: dict[str, Callable[[], Receiver | str]] = {
    "logout_redirected": lambda: Receiver(302, location="http://127.0.0.1:1/"),
    "logout_not_accepted": lambda: Receiver(400),
    "logout_timed_out": lambda: Receiver(HANGS),
    "logout_unreachable": lambda: f"http://127.0.0.1:{free_port()}/",
    "logout_address_internal": lambda: "https://10.1.2.3/",
}


@contract("I10.again")
@pytest.mark.parametrize("cause", RECEIVERS)
def test_what_fails_for_a_day_is_given_up_and_recorded(ended: Ended, alice: User, cause: str) -> None:
    receiver = RECEIVERS[cause]()
    row, person = ended(receiver), alice.pk
    if cause == "logout_address_internal":
        delete_account(alice)
        person = None
    make_last()
    with nullcontext() if isinstance(receiver, str) else receiver.listening():
        tell()
    row.refresh_from_db()
    assert (row.due_at, row.told_at) == (None, None)
    record = ActivityRecord.objects.get(step="logout")
    assert (record.outcome, record.cause, record.client_id) == ("failed", cause, row.application.client_id)
    assert record.person_id == person, "nobody who is gone"
    assert "token" not in str(record.detail)


def test_without_a_key_that_signs_no_other_waits_and_the_end_is_recorded(
    told: Registered, receiver: Receiver, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a folder of keys that has none for the algorithm. While the database is away, nothing is given up."""
    broken = ApplicationFactory(backchannel_logout_uri=receiver.url, id_token_alg="ES256")
    for application in (broken, broken, told):
        begin_and_end(application, alice)
    signer = signing_keys.signer
    monkeypatch.setattr(signing_keys, "signer", lambda algorithm: signer(algorithm) if algorithm == "RS256" else 1 / 0)
    tell()
    assert len(receiver.tokens) == 1
    unsigned = ApplicationSession.objects.filter(application=broken.row)
    assert all(row.due_at and row.due_at > timezone.now() and not row.told_at for row in unsigned)
    make_last()
    backchannel._behind.clear()
    with monkeypatch.context() as patch:
        patch.setattr(signing_keys, "signer", away)
        with pytest.raises(OperationalError):
            tell()
    assert unsigned.filter(due_at__isnull=False).count() == 2
    backchannel._behind.clear()
    make_last()
    tell()
    assert not unsigned.filter(due_at__isnull=False).exists()
    record = ActivityRecord.objects.filter(step="logout", cause="logout_token_unsigned").first()
    assert record
    assert (record.client_id, record.person_id) == (broken.client_id, alice.pk)


def away(_algorithm: str) -> None:
    raise OperationalError


def test_an_application_that_is_away_keeps_no_other_waiting(told: Registered, receiver: Receiver, alice: User) -> None:
    away = ApplicationFactory(backchannel_logout_uri=f"http://127.0.0.1:{free_port()}/")
    for _ in range(3):
        begin_and_end(away, alice)
    begin_and_end(told, alice)
    tell()
    assert len(receiver.tokens) == 1
    rows = ApplicationSession.objects.filter(application=away.row)
    assert sorted(rows.values_list("attempts", flat=True)) == [0, 0, 1], "the others wait without an attempt"
    begin_and_end(away, alice)
    tell()
    assert sorted(rows.values_list("attempts", flat=True)) == [0, 0, 0, 1], "also those that end meanwhile"


def test_an_application_that_is_not_to_be_told_any_more_is_not(ended: Ended, receiver: Receiver) -> None:
    for change in ({"is_enabled": False}, {"backchannel_logout_uri": ""}, None):
        rows = Application.objects.filter(pk=ended(receiver).application_id)
        rows.update(**change) if change else rows.get().delete()
        tell()
        assert receiver.tokens == []
        assert not ApplicationSession.objects.exclude(due_at=None, told_at=None).exists()


def test_the_command_lists_and_tells_which_is_counted(
    ended: Ended, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(activity_counts, "count", lambda _at, *given: counted.append(given))
    row, out = ended(receiver), StringIO()
    call_command("deliver", "--list", stdout=out)
    assert "sign-outs: 1 waiting" in out.getvalue()
    call_command("deliver", "--once")
    assert len(receiver.tokens) == 1
    assert (row.application.client_id, "logout", "succeeded") in counted
