"""Check the password of an account. Only the log contains the reason of a failure."""

from __future__ import annotations

from django.http import HttpRequest

from accounts import throttling
from accounts.errors import AccountFault, refuse, refused
from accounts.models import User


def authenticate(request: HttpRequest, email: str, password: str) -> User | None:
    """Return the account with this address and password, even if inactive. Otherwise count a failure, and return None.

    The function replaces allauth's limits, by which six wrong passwords from any network lock the owner out. Raises
    FormError: a limit of failed sign-ins is reached. Raises HashingBusy.
    """
    seconds, limit, owner = throttling.sign_in_wait(request, email)
    if seconds:
        fault = AccountFault.SIGN_IN_LIMITED
        raise refused(fault, "throttled", person=owner, cause=limit, login=email, seconds=seconds)
    person, cause = check(email, password)
    if not cause:
        return person
    throttling.count_failed_sign_in(request, email)
    is_typed_again = request.user.is_authenticated
    fault = AccountFault.PRESENT_PASSWORD_WRONG if is_typed_again else AccountFault.PASSWORD_WRONG
    refuse(fault, person=person.pk if person else None, cause=cause, login=email)
    return None


def check(email: str, password: str) -> tuple[User | None, str]:
    """Return the account with the address or None, and the cause of a failure, which is "" for the right password.

    Every call runs one SQL statement and computes one hash, so its time reveals no account. Raises HashingBusy.
    """
    person = User.objects.filter(email=email).first()
    if person is None:
        User().set_password(password)
        return None, "account_unknown"
    if person.check_password(password):
        return person, ""
    if not person.is_active:
        return person, "account_inactive"
    return person, "password_wrong" if person.has_usable_password() else "account_without_password"
