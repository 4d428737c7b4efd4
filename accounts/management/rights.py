"""Implement `manage.py account make-administrator`.

The operator's interface in the contract defines this command.
"""

from __future__ import annotations

from difflib import get_close_matches

from django.contrib import admin
from django.contrib.auth.models import Permission
from django.core.management.base import CommandError

from accounts import administrators
from accounts.administrators import LastAdministrator
from accounts.models import User

MOST_OFFERED = 3


def make_administrator(person: User, names: list[str]) -> str:
    """Make the person an administrator and return a sentence about the result.

    Raises CommandError: a named permission does not exist, or the last administrator would lose rights.
    """
    try:
        ended = administrators.make(person, _permissions(names))
    except LastAdministrator:
        raise CommandError(
            "--permission: this is the last administrator with every right. Make another one first."
        ) from None
    rights = "has every right" if not names else f"may use {', '.join(sorted(set(names)))}"
    owned = f" The person owned {ended} application{'s'[: ended != 1]}, and owns none now." if ended else ""
    return f"{person.email} is an administrator now and {rights}.{owned}"


def _permissions(names: list[str]) -> list[Permission]:
    offered = {
        f"{each.content_type.app_label}.{each.codename}": each
        for each in administrators.offered_permissions(admin.site).select_related("content_type")
    }
    for name in names:
        if name not in offered:
            close = get_close_matches(name, offered, MOST_OFFERED) or sorted(offered)
            raise CommandError(f"--permission: there is no permission {name!r}. Did you mean {', '.join(close)}?")
    return [offered[name] for name in dict.fromkeys(names)]
