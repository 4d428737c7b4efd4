"""The state of an unfinished sign-in, which the session keeps to notice changes of the account."""

from __future__ import annotations

from typing import cast

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest

from accounts.errors import AccountFault, refuse
from accounts.models import User

_KEY = "sign_in_begun"


def begin(request: HttpRequest, user: AbstractBaseUser) -> None:
    request.session[_KEY] = _state(user)


def is_current(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Return whether the account is active and its `credentials_version` has not changed during this sign-in."""
    return request.session.get(_KEY) == _state(user) and user.is_active


def delete(request: HttpRequest) -> None:
    request.session.pop(_KEY, None)


def report_ended(request: HttpRequest, user: AbstractBaseUser | None) -> None:
    """Report that the account has changed during the sign-in, and tell the person on the next page."""
    refuse(AccountFault.SIGN_IN_ENDED, person=user.pk if user else None)
    messages.warning(request, AccountFault.SIGN_IN_ENDED.translate())


def _state(user: AbstractBaseUser) -> list[str | int]:
    return [str(user.pk), cast(User, user).credentials_version]
