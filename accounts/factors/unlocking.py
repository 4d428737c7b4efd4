"""Unlock an account: reset its counts of failed sign-ins and failed second factors. D21."""

from __future__ import annotations

from django.db import transaction

from accounts import audit_trail, throttling
from accounts.factors import failures
from accounts.models import User
from config.infrastructure import events
from config.infrastructure.events import Event


@transaction.atomic
def unlock(person: User) -> None:
    """Allow the person to try again at once in every browser. The limits of network addresses do not change."""
    throttling.unlock_sign_in(person)
    failures.forget(person)
    events.write(Event.ACCOUNT_UNLOCKED, person=person.pk)
    audit_trail.write("account_unlocked", audit_trail.of_person(person))
