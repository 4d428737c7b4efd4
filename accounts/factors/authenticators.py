"""Read and change a person's authenticators: authenticator apps, passkeys and recovery codes."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from allauth.account.authentication import get_authentication_records
from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from accounts import audit_trail, throttling
from accounts.factors import failures
from accounts.mail import composing
from accounts.models import User
from accounts.sessions.credential_changes import end_credentials
from config.infrastructure import events, sealing
from config.infrastructure.events import Event
from config.infrastructure.network import is_ip_address

MOST_PASSKEYS = 20  # a page sends their IDs to the browser
_SECOND_FACTORS = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
HOST = "host"  # the name of the value in a passkey's `data["credential"]` that says for which host it was made
_REMEMBERED = 10  # used codes of an app; at most three codes are valid at a time
_USED = "used_codes"
_APP_CODE_LENGTH = 6  # recovery codes are longer


def overview(person: AbstractBaseUser) -> dict[str, Any]:
    rows = list(Authenticator.objects.filter(user_id=person.pk).order_by("created_at"))
    return {
        "passkeys": [(row, other_host(row)) for row in rows if row.type == Authenticator.Type.WEBAUTHN],
        "unusable_passkeys": sum(1 for row in rows if other_host(row)),
        "passkeys_are_possible": passkeys_are_possible(),
        "totp": next((row for row in rows if row.type == Authenticator.Type.TOTP), None),
        "is_asked": any(row.type in _SECOND_FACTORS for row in rows),
        "codes_left": next((_unused(row) for row in rows if row.type == Authenticator.Type.RECOVERY_CODES), None),
    }


def codes_left(person: User) -> int:
    return sum(map(_unused, Authenticator.objects.filter(user=person, type=Authenticator.Type.RECOVERY_CODES)))


def _unused(row: Authenticator) -> int:
    return int(app_settings.RECOVERY_CODE_COUNT) - int(row.data["used_mask"]).bit_count()


def described(person: User) -> list[dict[str, Any]]:
    rows = Authenticator.objects.filter(user=person).order_by("created_at")
    return [
        {"type": row.type, "name": str(row), "created_at": row.created_at, "last_used_at": row.last_used_at}
        for row in rows
    ]


def has_confirmed(request: HttpRequest) -> bool:
    """Return whether the person has an app or passkey, and has used a second factor in this browser session."""
    records = get_authentication_records(request, request.user)
    return any(record.get("method") == "mfa" for record in records) and has_any(request.user)


def has_any(person: AbstractBaseUser | AnonymousUser) -> bool:
    """Return whether the person has an app, or a passkey of the present host."""
    return bool(types_of(person) - {Authenticator.Type.RECOVERY_CODES})


def confirm_path(person: AbstractBaseUser | AnonymousUser) -> str:
    """Return the URL of the page that asks for a code of the app, or for a passkey if the person has no app."""
    has_app = Authenticator.Type.TOTP in types_of(person)
    return reverse("mfa_reauthenticate" if has_app else "mfa_reauthenticate_webauthn")


def types_of(person: AbstractBaseUser | AnonymousUser) -> set[str]:
    """Return the types of the person's authenticators that are usable: no passkey of another host, no used-up codes."""
    rows = Authenticator.objects.filter(user_id=person.pk)
    is_code = Authenticator.Type.RECOVERY_CODES
    return {row.type for row in rows if (_unused(row) if row.type == is_code else not other_host(row))}


def other_hosts(person: AbstractBaseUser | AnonymousUser) -> list[str]:
    """Return the hosts, other than that of AUTH_URL, for which the person's passkeys were made."""
    rows = Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.WEBAUTHN)
    return sorted({other_host(row) for row in rows} - {""})


def of_other_hosts() -> QuerySet[Authenticator]:
    passkeys = Authenticator.objects.filter(type=Authenticator.Type.WEBAUTHN, data__credential__has_key=HOST)
    others: QuerySet[Authenticator] = passkeys.exclude(**{f"data__credential__{HOST}": passkey_host()})
    return others


def other_host(row: Authenticator) -> str:
    """Return the host of a passkey that was made for another host than AUTH_URL's; "" for every other authenticator."""
    here = passkey_host()
    host = row.data.get("credential", {}).get(HOST, here) if row.type == Authenticator.Type.WEBAUTHN else here
    return "" if host == here else str(host)


def is_enough_by_link(request: HttpRequest, person: User) -> bool:
    """Return whether a mailed link replaces the second factor in this sign-in, because none can be used any more.

    Never for administrators: whoever reads their mails would administer the service.
    """
    records = get_authentication_records(request, person)
    is_by_link = any(record.get("method") == "password_reset" for record in records)
    is_administrator = person.is_staff or person.is_superuser
    return is_by_link and not is_administrator and is_asked_after_password(person) and not types_of(person)


def is_asked_after_password(person: AbstractBaseUser | AnonymousUser | None) -> bool:
    """Return whether the person has an app or a passkey, usable or not; False for None, which is a deleted person."""
    if person is None:
        return False
    asked: bool = Authenticator.objects.filter(user_id=person.pk, type__in=_SECOND_FACTORS).exists()
    return asked


def number_of_passkeys(person: AbstractBaseUser | AnonymousUser) -> int:
    return int(Authenticator.objects.filter(user_id=person.pk, type=Authenticator.Type.WEBAUTHN).count())


@transaction.atomic
def remove_all(person: User) -> None:
    """Remove the person's authenticators, end all credentials, and tell the person if there were authenticators."""
    end_credentials(person)
    if Authenticator.objects.filter(user=person).delete()[0]:
        composing.factors_removed(person)
    events.write(Event.FACTORS_CHANGED, person=person.pk, change="all_removed")
    audit_trail.write("factors_removed", audit_trail.of_person(person))


@transaction.atomic
def mark_used(person: AbstractBaseUser | AnonymousUser, code: str) -> bool:
    """Store the use of a valid code of the app, and return True. Return False if it was used before or there is no app.

    RFC 6238 §5.2. allauth itself remembers a used code for only one period and, without Redis, in only one worker.
    """
    apps = Authenticator.objects.select_for_update().filter(user_id=person.pk, type=Authenticator.Type.TOTP)
    row = apps.first()
    if row is None or _is_used(row.data, code):
        return False
    row.data[_USED] = [*row.data.get(_USED, []), _digests(code)[0]][-_REMEMBERED:]
    row.save(update_fields=["data"])
    return True


def was_used(person: User, code: str) -> bool:
    apps = Authenticator.objects.filter(user=person, type=Authenticator.Type.TOTP)
    return any(_is_used(data, code) for data in apps.values_list("data", flat=True))


def _is_used(data: dict[str, Any], code: str) -> bool:
    return not set(_digests(code)).isdisjoint(data.get(_USED, []))


def is_of_an_app(code: str) -> bool:
    return len(_digits(code)) == _APP_CODE_LENGTH


def _digits(code: str) -> str:
    return re.sub(r"[^0-9]", "", code)  # allauth accepts any punctuation and white space in a code


def _digests(code: str) -> list[str]:
    return sealing.digests("accounts.factors.used_codes", _digits(code))


@transaction.atomic
def unlock(person: User) -> None:
    """Forget the person's failed sign-ins and second factors in all browsers. Counts of network addresses stay."""
    throttling.unlock_sign_in(person)
    failures.forget(person)
    events.write(Event.ACCOUNT_UNLOCKED, person=person.pk)
    audit_trail.write("account_unlocked", audit_trail.of_person(person))


def passkey_host() -> str:
    """Return WebAuthn's relying party ID."""
    return urlsplit(settings.AUTH_URL).hostname or ""


def passkeys_are_possible() -> bool:
    """Return whether browsers make passkeys for the host of AUTH_URL. Browsers refuse IP addresses."""
    return not is_ip_address(passkey_host())
