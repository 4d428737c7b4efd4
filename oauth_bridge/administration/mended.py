"""Whether the cause of a refused request is gone, by the present state of the application and of the person."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.utils import timezone

from accounts.models import AuditEntry, User
from oauth_bridge.activity.causes import UNCONFIRMED
from oauth_bridge.callback_addresses.masking import MASK
from oauth_bridge.credentials import admission
from oauth_bridge.models import Application
from oauth_bridge.models.activity import ActivityRecord, Step

OF_NO_APPLICATION = {"client_unknown", "client_deleted"}
# The limits that end when an administrator unlocks the account.
OF_THE_ACCOUNT = {"sign_in_limited_account", "factor_limited"}

OF_THE_PERSON: dict[str, Callable[[User], bool]] = {
    "account_inactive": lambda person: person.is_active,
    "person_deactivated": lambda person: person.is_active,
    "no_verified_email": lambda person: person.email_verified_at is not None,
    UNCONFIRMED: lambda person: person.email_verified_at is not None,
}
OF_THE_APPLICATION: dict[str, Callable[[Application], bool]] = {
    "client_disabled": lambda application: application.is_enabled,
    "challenge_needed": lambda application: not application.is_public,
    "secret_none_left": lambda application: any(secret.works for secret in application.secrets.all()),
}


def is_mended(entry: ActivityRecord, application: Application | None) -> bool | None:
    """Return None if no state shows it, because the cause is in what was sent. `application`: the one of the entry."""
    if entry.cause in OF_NO_APPLICATION:  # the record of an exchange belongs to the application whose code was sent
        client_id = entry.detail.get("parameters", {}).get("client_id", "")
        return Application.objects.filter(client_id=client_id).exists()
    if entry.step in (Step.SIGN_IN, Step.SECOND_FACTOR) and (end := limit_ends_at(entry)):
        return end <= timezone.now() or _is_unlocked(entry)
    person = get_user_model().objects.filter(pk=entry.person_id).first() if entry.person_id else None
    if state_of_person := OF_THE_PERSON.get(entry.cause):
        return person is not None and state_of_person(person)
    if entry.cause == "not_admitted":
        return person is not None and application is not None and admission.is_admitted(person, application)
    if state_of_application := OF_THE_APPLICATION.get(entry.cause):
        return application is not None and state_of_application(application)
    sent = entry.detail.get("sent", MASK)
    if entry.cause == "redirect_uri_mismatch" and MASK not in sent:
        return application is not None and application.is_callback(sent)
    return None


def is_limit(cause: str) -> bool:
    return "limited" in cause or cause.startswith("throttled")


def limit_ends_at(entry: ActivityRecord) -> datetime | None:
    """Return the end of the limit that refused the request; None for another cause."""
    seconds = entry.detail.get("seconds")
    return entry.at + timedelta(seconds=seconds) if isinstance(seconds, int) and is_limit(entry.cause) else None


def _is_unlocked(entry: ActivityRecord) -> bool:
    unlocked = AuditEntry.objects.filter(action="account_unlocked", kind="person", key=str(entry.person_id))
    return entry.cause in OF_THE_ACCOUNT and unlocked.filter(at__gt=entry.at).exists()
