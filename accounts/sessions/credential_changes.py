"""End a person's credentials, set passwords, and activate or deactivate accounts."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.db import transaction
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone

from accounts import audit_trail
from accounts.errors import AccountFault, refuse
from accounts.models import User
from accounts.rights import keep_one
from accounts.sessions.store import digest
from config.infrastructure import events
from config.infrastructure.events import Event


class AccountChanged(Exception):
    """After the account was read, it was deleted or its address was changed."""


@transaction.atomic
def end_credentials(user: User, *, except_session: str | None = None) -> None:
    """End the person's sessions, codes, access tokens and remembered consents. The person's browsers become unknown.

    A new `credentials_version` ends all these. The session `except_session` is not deleted, so the caller can renew it.
    """
    User.objects.filter(pk=user.pk).update(credentials_version=F("credentials_version") + 1)
    user.refresh_from_db(fields=["credentials_version"])
    sessions = user.sessions.all()
    if except_session:
        sessions = sessions.exclude(session_key=digest(except_session))
    sessions.delete()


def set_password(user: User, password: str, *, except_session: str | None = None) -> None:
    """Set the password and call `end_credentials`. Raises HashingBusy or AccountChanged before it stores anything."""
    user.set_password(password)
    user.password_changed_at = timezone.now()
    with transaction.atomic():
        # The owner of a former address may not set a password.
        same = User.objects.filter(pk=user.pk, email=user.email)
        if not same.update(password=user.password, password_changed_at=user.password_changed_at):
            raise AccountChanged
        end_credentials(user, except_session=except_session)
    events.write(Event.PASSWORD_CHANGED, person=user.pk)
    audit_trail.write("password_set", audit_trail.of_person(user))


@transaction.atomic
def set_active(user: User, is_active: bool) -> None:
    """Activate or deactivate the account. A change ends the person's credentials. Raises LastAdministrator."""
    if not is_active:
        deactivate_all(User.objects.filter(pk=user.pk))
    elif User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
        end_credentials(user)
        events.write(Event.ACCOUNT_ACTIVATED, person=user.pk)
        audit_trail.write("account_activated", audit_trail.of_person(user))
    user.is_active = is_active


@transaction.atomic
def deactivate_all(people: QuerySet[User]) -> int:
    """Deactivate the active accounts of the queryset, and return their number. Raises LastAdministrator."""
    keep_one(people)
    active = User.objects.filter(pk__in=people, is_active=True)
    keys = list(active.order_by("pk").values_list("pk", flat=True))
    # The rows of the sessions stay: from such a row, the sign-in page learns that the account is deactivated.
    active.update(is_active=False, credentials_version=F("credentials_version") + 1)
    for key in keys:
        events.write(Event.ACCOUNT_DEACTIVATED, person=key)
    audit_trail.write_all("account_deactivated", [audit_trail.Subject("person", str(key), "") for key in keys])
    return len(keys)


# The state of an unfinished sign-in: the next step compares it with the account ---------------------------------------

_STATE = "sign_in_begun"


def begin_sign_in(request: HttpRequest, user: User) -> None:
    request.session[_STATE] = _state(user)


def is_sign_in_current(request: HttpRequest, user: User) -> bool:
    """Return whether the account is active and its `credentials_version` has not changed during this sign-in."""
    return request.session.get(_STATE) == _state(user) and user.is_active


def end_sign_in(request: HttpRequest) -> None:
    request.session.pop(_STATE, None)


def report_changed(request: HttpRequest, user: User | None) -> None:
    refuse(AccountFault.SIGN_IN_ENDED, person=user.pk if user else None)
    messages.warning(request, AccountFault.SIGN_IN_ENDED.translate())


def _state(user: User) -> list[str | int]:
    return [str(user.pk), user.credentials_version]


# The keys of reset links --------------------------------------------------------------------------------------------


class ResetTokenGenerator(PasswordResetTokenGenerator):
    """Makes keys of reset links without SQL, so the time reveals no account. A new `credentials_version` ends them."""

    def _make_hash_value(self, user: User, timestamp: int) -> str:
        return f"{super()._make_hash_value(user, timestamp)}{user.credentials_version}"

    def check_token(self, user: User | None, token: str | None) -> bool:
        return super().check_token(user, token) and bool(user and user.is_active)
