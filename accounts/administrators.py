"""The last administrator stays: the one rule for all ways to delete, deactivate or demote one. P16."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.utils.translation import gettext_lazy as _

from accounts.models import User

# What makes somebody an administrator who can make others.
REQUIRED = ("is_active", "is_staff", "is_superuser")
ADVICE = _("Nobody could administer the service then. Make somebody else an administrator with superuser status first.")

_administrators = User.objects.filter(**dict.fromkeys(REQUIRED, True)).order_by("pk")


class LastAdministrator(Exception):
    """Nobody else could administer the service."""


def keep_one(leaving: Iterable[UUID]) -> None:
    """Lock the people who leave until the transaction ends, and all administrators if one of them leaves.

    Administrators are always locked in the same order, so of the last two only one can leave. Raises LastAdministrator:
    no administrator would remain.
    """
    going = set(leaving)
    locked = _lock_all() if _administrators.filter(pk__in=going).exists() else set()
    people = User.objects.filter(pk__in=going).order_by("pk").select_for_update(no_key=True)
    if {each.pk for each in people if all(getattr(each, name) for name in REQUIRED)} - locked:  # just made one
        locked = _lock_all()
    if locked and locked <= going:
        raise LastAdministrator


def _lock_all() -> set[UUID]:
    return {each.pk for each in _administrators.select_for_update(no_key=True)}
