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
from tests.peers import HANGS, Receiver
from tests.server import free_port
from tests.unit.sign_outs import begin, begin_and_end, make_due, sign_in, tell

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("receiver")]


# What ends ------------------------------------------------------------------------------------------------------------


def flicker(_session: SessionStore, person: User, _application: Application) -> None:
    credential_changes.set_active(person, False)
    credential_changes.set_active(person, True)


def new_password(session: SessionStore, person: User, _application: Application) -> None:
    """Also in the browser in which it was chosen, whose session stays."""
    credential_changes.set_password(person, "another long password 17", except_session=session.session_key)
    assert Session.objects.filter(user=person).exists()


ENDS: dict[str, Callable[[SessionStore, User, Application], Any]] = {
    "session": lambda session, _person, _application: session.delete(),
    "expired": lambda _session, person, _application: Session.objects.filter(user=person).update(
        expire_date=timezone.now()
    ),
    "deactivated": lambda _session, person, _application: credential_changes.set_active(person, False),
    "flicker": flicker,
    "password": new_password,
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
    assert row.told_at
    assert row.due_at is None


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
    new_password(session, alice, told.row)
    assert begin(session, alice, told) != second, "also before anybody has looked"


def test_without_an_address_nothing_is_told(alice: User) -> None:
    application = ApplicationFactory()
    sid = begin_and_end(application, alice)
    consents.disconnect(alice, application.row)
    tell()
    row = ApplicationSession.objects.get(pk=sid)
    assert (row.due_at, row.told_at, bool(row.ended_at)) == (None, None, True)


def test_what_ended_is_kept_for_a_week_and_what_nobody_is_told_goes_with_its_session(
    told: Registered, alice: User
) -> None:
    def kept(at: timedelta) -> set[UUID]:
        list(purging.batches(timezone.now() + at))
        return set(ApplicationSession.objects.values_list("pk", flat=True))

    other = ApplicationFactory()
    living, gone = begin(sign_in(alice), alice, other), begin_and_end(other, alice)
    sid = begin_and_end(told, alice)
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
    application = told if is_told else ApplicationFactory()
    session, code = sign_in(alice), CodeFactory(application=application, user=alice).row
    consents.disconnect(alice, application.row)
    names = {"person_id": alice.pk, "application_id": application.row.pk, "person_version": alice.credentials_version}
    row = ApplicationSession.objects.get(pk=application_sessions.begin(session["sign_in"], code_id=code.pk, **names))
    assert row.ended_at
    assert bool(row.due_at) is is_told
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


@pytest.fixture
def ended(alice: User) -> Callable[[Receiver | str], ApplicationSession]:
    """A sign-in that ended, of an application with this receiver."""

    def make(receiver: Receiver | str) -> ApplicationSession:
        url = receiver if isinstance(receiver, str) else receiver.url
        application = ApplicationFactory(backchannel_logout_uri=url)
        return ApplicationSession.objects.get(pk=begin_and_end(application, alice))

    return make


@contract("I10.again")
def test_an_application_that_fails_twice_is_told_at_the_third_attempt(
    ended: Callable[[Receiver], ApplicationSession],
) -> None:
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
        tell()
    row.refresh_from_db()
    assert row.told_at
    names = {jwt.decode(each, options={"verify_signature": False})["jti"] for each in receiver.tokens}
    assert (len(receiver.tokens), len(names)) == (3, 1)
    assert not ActivityRecord.objects.filter(step="logout").exists()


@contract("I10.again")
def test_a_process_that_ends_in_the_middle_leaves_the_row(ended: Callable[[Receiver], ApplicationSession]) -> None:
    with Receiver().listening() as receiver:
        row = ended(receiver)
        backchannel.wake()
        application_sessions.end_gone()
        assert application_sessions.claim(backchannel.LEASE)  # and then it is killed
        tell()
        assert receiver.tokens == []
        make_due()
        tell()
        assert len(receiver.tokens) == 1
    row.refresh_from_db()
    assert row.attempts == 2


RECEIVERS = {
    "logout_redirected": lambda: Receiver(302, location="http://127.0.0.1:1/"),
    "logout_not_accepted": lambda: Receiver(400),
    "logout_timed_out": lambda: Receiver(HANGS),
}
URLS = {
    "logout_unreachable": lambda: f"http://127.0.0.1:{free_port()}/",
    "logout_address_internal": lambda: "https://10.1.2.3/",
}


@contract("I10.again")
@pytest.mark.parametrize("cause", [*RECEIVERS, *URLS])
def test_what_fails_for_a_day_is_given_up_and_recorded(
    ended: Callable[[Receiver | str], ApplicationSession], alice: User, cause: str
) -> None:
    receiver = RECEIVERS[cause]() if cause in RECEIVERS else None
    row = ended(receiver or URLS[cause]())
    give_up()
    with receiver.listening() if receiver else nullcontext():
        tell()
    row.refresh_from_db()
    assert (row.due_at, row.told_at) == (None, None)
    record = ActivityRecord.objects.get(step="logout")
    assert (record.outcome, record.cause, record.client_id) == ("failed", cause, row.application.client_id)
    assert record.person_id == alice.pk
    assert "token" not in str(record.detail)


def give_up() -> None:
    """At the next attempt, which is the last one of a day."""
    application_sessions.end_gone()
    ApplicationSession.objects.update(
        ended_at=timezone.now() - backchannel.TRIED_FOR, due_at=timezone.now(), attempts=12
    )


def test_a_record_names_nobody_who_is_gone(ended: Callable[[str], ApplicationSession], alice: User) -> None:
    ended("https://10.1.2.3/")
    delete_account(alice)
    give_up()
    tell()
    assert ActivityRecord.objects.get(step="logout").person_id is None


def test_without_a_key_that_signs_no_other_waits_and_the_end_is_recorded(
    told: Registered, receiver: Receiver, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a folder of keys that has none for the algorithm."""
    broken = ApplicationFactory(backchannel_logout_uri=receiver.url, id_token_alg="ES256")
    for application in (broken, broken, told):
        begin_and_end(application, alice)
    signer = signing_keys.signer
    monkeypatch.setattr(signing_keys, "signer", lambda algorithm: signer(algorithm) if algorithm == "RS256" else 1 / 0)
    tell()
    assert len(receiver.tokens) == 1
    unsigned = ApplicationSession.objects.filter(application=broken.row)
    assert all(row.due_at and row.due_at > timezone.now() and not row.told_at for row in unsigned)
    give_up()
    tell()
    assert not unsigned.filter(due_at__isnull=False).exists()
    record = ActivityRecord.objects.filter(step="logout", cause="logout_token_unsigned").first()
    assert record
    assert (record.client_id, record.person_id) == (broken.client_id, alice.pk)


def test_while_the_database_is_away_nothing_is_given_up(
    ended: Callable[[Receiver], ApplicationSession], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ended(receiver)

    def away(_algorithm: str) -> None:
        raise OperationalError

    monkeypatch.setattr(signing_keys, "signer", away)
    with pytest.raises(OperationalError):
        tell()
    row.refresh_from_db()
    assert row.due_at


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


CHANGES: list[Callable[[Application], Any]] = [
    lambda row: Application.objects.filter(pk=row.pk).update(is_enabled=False),
    lambda row: Application.objects.filter(pk=row.pk).update(backchannel_logout_uri=""),
    lambda row: row.delete(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_an_application_that_is_not_to_be_told_any_more_is_not(
    ended: Callable[[Receiver], ApplicationSession], receiver: Receiver, change: Callable[[Application], Any]
) -> None:
    row = ended(receiver)
    application_sessions.end_gone()
    change(row.application)
    tell()
    assert receiver.tokens == []
    assert not ApplicationSession.objects.exclude(due_at=None, told_at=None).exists()


def test_the_command_lists_and_tells_which_is_counted(
    ended: Callable[[Receiver], ApplicationSession], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []
    monkeypatch.setattr(activity_counts, "count", lambda _at, *given: counted.append(given))
    row = ended(receiver)
    application_sessions.end_gone()
    out = StringIO()
    call_command("deliver", "--list", stdout=out)
    assert "sign-outs: 1 waiting" in out.getvalue()
    call_command("deliver", "--once")
    assert len(receiver.tokens) == 1
    assert (row.application.client_id, "logout", "succeeded") in counted
