"""Applications are told of each end of a sign-in, once they can be, and of nothing else. Back-Channel Logout 1.0."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

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


@pytest.fixture
def told(receiver: Receiver) -> Registered:
    """An application that is told."""
    application: Registered = ApplicationFactory(backchannel_logout_uri=receiver.url)
    return application


@pytest.fixture
def alice() -> User:
    return PersonFactory()


# What ends ------------------------------------------------------------------------------------------------------------


def delete_session(session: SessionStore, _person: User, _application: Application) -> None:
    session.delete()


def expire(_session: SessionStore, person: User, _application: Application) -> None:
    Session.objects.filter(user=person).update(expire_date=timezone.now())


def deactivate(_session: SessionStore, person: User, _application: Application) -> None:
    credential_changes.set_active(person, False)


def flicker(_session: SessionStore, person: User, _application: Application) -> None:
    credential_changes.set_active(person, False)
    credential_changes.set_active(person, True)


def new_password(session: SessionStore, person: User, _application: Application) -> None:
    """Also in the browser in which it was chosen, whose session stays."""
    credential_changes.set_password(person, "another long password 17", except_session=session.session_key)
    assert Session.objects.filter(user=person).exists()


def delete_person(_session: SessionStore, person: User, _application: Application) -> None:
    delete_account(person)


def disconnect(_session: SessionStore, person: User, application: Application) -> None:
    consents.disconnect(person, application)


def end_access(_session: SessionStore, _person: User, application: Application) -> None:
    applications.end_access(application)


ENDS: list[Callable[[SessionStore, User, Application], None]] = [
    delete_session,
    expire,
    deactivate,
    flicker,
    new_password,
    delete_person,
    disconnect,
    end_access,
]


@contract("I10.ends")
@pytest.mark.parametrize("end", ENDS)
def test_each_end_of_a_sign_in_is_told_once(
    end: Callable[[SessionStore, User, Application], None], told: Registered, receiver: Receiver, alice: User
) -> None:
    session, sub = sign_in(alice), str(alice.pk)
    sid = begin(session, alice, told)
    tell()
    assert receiver.tokens == [], "it lives"
    end(session, alice, told.row)
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
    session = sign_in(alice)
    begin(session, alice, application)
    session.delete()
    tell()
    assert jwt.get_unverified_header(receiver.tokens[0])["alg"] == algorithm
    assert verified(receiver.tokens[0], application)["iss"] == settings.BASE_URL
    path, headers, form = receiver.requests[0]
    assert (path, headers["Content-Type"], list(form)) == (
        "/told?a=1",
        "application/x-www-form-urlencoded",
        ["logout_token"],
    )


@contract("I10.ends")
def test_a_changed_key_ends_nothing(told: Registered, receiver: Receiver, alice: User) -> None:
    session = sign_in(alice)
    begin(session, alice, told)
    session.cycle_key()
    tell()
    assert receiver.tokens == []


def test_what_others_do_ends_nothing(told: Registered, receiver: Receiver, alice: User) -> None:
    mallory = PersonFactory()
    begin(sign_in(alice), alice, told)
    hers, elsewhere = sign_in(mallory), sign_in(alice)
    sids = {str(begin(hers, mallory, told)), str(begin(elsewhere, alice, told))}
    hers.delete()
    elsewhere.delete()
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


def test_a_code_that_is_redeemed_after_the_sign_out_is_followed_by_the_news(
    told: Registered, receiver: Receiver, alice: User
) -> None:
    session = sign_in(alice)
    assert session["sign_in"]  # which reads the session
    session.delete()
    tell()
    sid = begin(session, alice, told)
    tell()
    assert verified(receiver.tokens[0], told)["sid"] == str(sid)


def test_without_an_address_nothing_is_told(alice: User, django_assert_num_queries: Any) -> None:
    application, session = ApplicationFactory(), sign_in(alice)
    sid = begin(session, alice, application)
    session.delete()
    consents.disconnect(alice, application.row)
    tell()
    row = ApplicationSession.objects.get(pk=sid)
    assert (row.due_at, row.told_at) == (None, None)
    assert row.ended_at


# Purging --------------------------------------------------------------------------------------------------------------


def purge(at: timedelta) -> set[UUID]:
    list(purging.batches(timezone.now() + at))
    return set(ApplicationSession.objects.values_list("pk", flat=True))


def test_what_ended_is_kept_for_a_week(told: Registered, alice: User) -> None:
    sid = begin_and_end(told, alice)
    assert purge(timedelta(days=2)) == {sid}, "it has not been told yet"
    tell()
    assert purge(timedelta(days=6, hours=23)) == {sid}
    assert purge(timedelta(days=7, minutes=1)) == set()


def test_what_nobody_is_told_goes_with_its_session(alice: User) -> None:
    application, session = ApplicationFactory(), sign_in(alice)
    living, gone = begin(session, alice, application), begin_and_end(application, alice)
    assert purge(timedelta(hours=23)) == {living, gone}
    assert purge(timedelta(hours=25)) == {living}


def test_a_row_that_is_taken_by_two_names_is_none(alice: User) -> None:
    """Two processes that look at once end each row once: the second finds it ended."""
    application = ApplicationFactory(backchannel_logout_uri="https://app.example/told")
    begin_and_end(application, alice)
    assert (application_sessions.end_gone(), application_sessions.end_gone()) == (1, 0)
    assert not ApplicationSession.objects.filter(sign_in=uuid4()).exists()


@contract("I10.ends")
@pytest.mark.parametrize("is_told", [True, False])
def test_whoever_disconnects_while_a_code_is_redeemed_is_signed_out_there(
    told: Registered, receiver: Receiver, alice: User, is_told: bool
) -> None:
    application = told if is_told else ApplicationFactory()
    session, code = sign_in(alice), CodeFactory(application=application, user=alice).row
    consents.disconnect(alice, application.row)
    names = {"person_id": alice.pk, "application_id": application.row.pk, "person_version": alice.credentials_version}
    sid = application_sessions.begin(session["sign_in"], code_id=code.pk, **names)
    row = ApplicationSession.objects.get(pk=sid)
    assert row.ended_at
    assert bool(row.due_at) is is_told
    tell()
    assert len(receiver.tokens) == is_told
    code = CodeFactory(application=application, user=alice).row
    again = application_sessions.begin(session["sign_in"], code_id=code.pk, **names)
    assert again != sid
    assert not ApplicationSession.objects.get(pk=again).ended_at
