"""Applications are told of each end of a sign-in, once they can be, and of nothing else. Back-Channel Logout 1.0."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import jwt
import pytest
from django.utils import timezone

from accounts.models import Session, User
from accounts.profile.deletion import delete_account
from accounts.sessions import credential_changes
from accounts.sessions.store import SessionStore
from oauth_bridge.maintenance import purging
from oauth_bridge.models import Application, ApplicationSession
from oauth_bridge.storage import application_sessions, applications, consents, signing_keys
from tests.contract_coverage import contract
from tests.factories import ApplicationFactory, CodeFactory, PersonFactory, Registered
from tests.logout_receiver import Receiver
from tests.sign_outs import begin, begin_and_end, sign_in, tell

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
