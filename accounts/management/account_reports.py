"""Write the output of `manage.py account list` and `account show`.

The operator's interface in the contract defines this output.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db.models import Q
from django.utils import timezone

from accounts.email_addresses import looked_up_email
from accounts.factors import authenticators as factors
from accounts.factors import passkey_host
from accounts.models import User
from config.infrastructure.command_errors import command_error, shown
from config.infrastructure.validators import refuse_control_characters

LISTED = 100
_BATCH = 1_000


def add_list_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--search", default="", metavar="TEXT", help="in the address or nickname, or a user ID")
    parser.add_argument(
        "--unusable-passkeys", action="store_true", help="only accounts with a passkey of another host than AUTH_URL's"
    )
    parser.add_argument("--limit", type=int, default=LISTED, metavar="N", help=f"{LISTED} unless given")


class Listing:
    """At most `--limit` accounts, ordered by e-mail address. Rows are read in batches while accounts are printed."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Raises CommandError: an option is malformed. The message names the option."""
        self.limit, search = options["limit"], options["search"].strip()
        if not 1 <= self.limit < 2**31:
            raise CommandError("--limit: a number of 1 or more is needed.")
        try:
            refuse_control_characters(search)
        except ValidationError as problem:
            raise command_error(ValidationError({"--search": problem.messages})) from None
        self.has_more = False
        self._people = User.objects.order_by("email")
        self.note = ""
        if search:
            self._people = self._people.filter(_matches(search))
        if options["unusable_passkeys"]:
            self._people = self._people.filter(pk__in=factors.of_other_hosts().values("user"))
            stranded = sum(not factors.types_of(person) for person in self._people.iterator(chunk_size=_BATCH))
            self.note = (
                f"Accounts with a passkey of another host than {passkey_host.host()}: {self._people.count()}. "
                f"Those of them without a second factor that works: {stranded}."
            )

    def __iter__(self) -> Iterator[dict[str, Any]]:
        people = self._people[: self.limit + 1].iterator(chunk_size=_BATCH)
        yield from (brief(person) for person in islice(people, self.limit))
        self.has_more = next(people, None) is not None


def _matches(search: str) -> Q:
    found = Q(email__icontains=search) | Q(email=looked_up_email(search)) | Q(nickname__icontains=search)
    try:
        return found | Q(pk=UUID(search))
    except ValueError:
        return found


def brief(person: User) -> dict[str, Any]:
    return {
        "sub": str(person.pk),
        "email": person.email,
        "nickname": person.nickname,
        "active": person.is_active,
        "confirmed": person.email_verified_at is not None,
        "administrator": person.is_staff,
        "superuser": person.is_superuser,
    }


def described(person: User) -> dict[str, Any]:
    """Return the values of `brief` and more details for the operator, without secrets and sessions."""
    return {
        **brief(person),
        "permissions": sorted(
            f"{label}.{codename}"
            for label, codename in person.user_permissions.values_list("content_type__app_label", "codename")
        ),
        "groups": sorted(person.groups.values_list("name", flat=True)),
        "owns": list(person.owned_applications.order_by("name", "pk").values("client_id", "name")),
        "created": person.created_at.isoformat(),
        "last_sign_in": person.last_login and person.last_login.isoformat(),
        "second_factors": sorted(factors.types_of(person)),
        "unusable_passkeys": factors.other_hosts(person),
        "browsers": person.sessions.filter(expire_date__gt=timezone.now()).count(),
    }


def line(each: dict[str, Any]) -> str:
    """Return a result of `brief` as one line of text."""
    notes = [] if each["active"] else ["deactivated"]
    if not each["confirmed"]:
        notes.append("not confirmed")
    if each["administrator"]:
        notes.append("superuser" if each["superuser"] else "administrator")
    parts = [each["sub"], each["email"], each["nickname"], f"({', '.join(notes)})" if notes else ""]
    return shown("  ".join(part for part in parts if part))


def lines(each: dict[str, Any]) -> str:
    """Return a result of `described` as text with one value in each line."""
    return "\n".join(f"{name + ':':18} {shown(_word(value))}" for name, value in each.items())


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_word(each) for each in value) or "none"
    if isinstance(value, dict):
        return " ".join(value.values())
    return str(value or "none")
