"""Send e-mails about applications: to the people who use them, and to their owners."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.models import User
from accounts.sessions.user_agents import browser_name
from oauth_bridge.models import Application, ApplicationSecret, Consent

MOST_OWNERS = 20  # recipients of an e-mail to the owners of an application
# Owners get an e-mail when a secret ends within 7 days, and another when it ends within 1 day. If both are due at once,
# only the e-mail of the last day is sent.
TOLD_BEFORE = (1, 7)


def consent_given(
    request: HttpRequest, person: User, application: Application, attempt: str, facts: Sequence[dict[str, str]]
) -> None:
    """Tell the person by e-mail that the application may read `facts`, unless a consent is already stored.

    Call this before you store the consent. A second post of the same consent page (`attempt`) sends no e-mail.
    """
    once = f"application_allowed {person.pk} {attempt}"
    if Consent.objects.filter(user=person, application=application).exists() or not outbox.unknown([once]):
        return
    browser = browser_name(request.headers.get("User-Agent", ""))
    _tell("application_allowed", person, application.name, once, browser=browser, facts=facts)


def code_replayed(person_id: UUID, application_id: int) -> None:
    """Tell the person and owners that a code was used again: each once per application in `outbox.NOTICE_LIFETIME`."""
    application = Application.objects.filter(pk=application_id).first()
    if application is None:
        return
    once = f"code_replayed {person_id} {application_id}"
    person = User.objects.filter(pk=person_id, is_active=True, email_verified_at__isnull=False).first()
    if person and outbox.unknown([once]):
        _tell("code_replayed", person, application.name, once, language=person.language)
    _tell_owners("code_replayed_owner", application, f"code_replayed_owner {application_id}")


def tell_of_ending_secrets(now: datetime) -> int:
    """Send owners the due e-mails about secrets that end soon (TOLD_BEFORE). Return the number of secrets."""
    told = 0
    for days in TOLD_BEFORE:
        ends = Q(is_revoked=False, expires_at__gt=now, expires_at__lte=now + timedelta(days=days))
        untold = ApplicationSecret.objects.filter(ends, Q(told_days=None) | Q(told_days__gt=days))
        for secret in untold.filter(application__is_enabled=True).select_related("application"):
            with transaction.atomic():
                # Of two processes at once, only one marks the secret.
                if untold.filter(pk=secret.pk).update(told_days=days):
                    facts = {"number": secret.number, "ends_at": secret.expires_at, "used_at": secret.last_used_at}
                    _tell_owners("secret_ends", secret.application, "", **facts)
                    told += 1
    return told


def owners_of(application: Application) -> list[User]:
    """Return the owners who are administrators; if there are none, the superusers. All are active and confirmed."""
    reachable = User.objects.filter(is_active=True, email_verified_at__isnull=False)
    named = application.owners.values("pk")
    people = reachable.filter(pk__in=named, is_staff=True).order_by("created_at", "pk")[:MOST_OWNERS]
    return list(people) or list(reachable.filter(is_superuser=True).order_by("created_at", "pk")[:MOST_OWNERS])


def _tell_owners(kind: str, application: Application, once: str, **context: Any) -> None:
    """Send an e-mail to each of `owners_of`. If `once` names an event, each owner gets at most one e-mail about it."""
    people = {f"{once} {person.pk}": person for person in owners_of(application)}
    address = reverse("admin:application", args=[application.pk])
    facts = {"application": application.name, "secrets_address": f"{settings.AUTH_URL}{address}", **context}
    for name in outbox.unknown(list(people)) if once else people:
        mail = _composed(kind, people[name], people[name].language or settings.LANGUAGE_CODE, facts)
        outbox.add_notice(kind, mail, once=name if once else "", is_limited=False)


def _tell(kind: str, person: User, application: str, once: str, *, language: str = "", **context: Any) -> None:
    address = f"{settings.AUTH_URL}{reverse('connected_applications')}"
    mail = _composed(kind, person, language, {"application": application, "applications_address": address, **context})
    outbox.add_notice(kind, mail, once=once, about=application, is_limited=kind != "code_replayed")


def _composed(kind: str, person: User, language: str, facts: dict[str, Any]) -> outbox.Email:
    return compose(kind, person.email, {"now": timezone.now(), "nickname": person.display_name, **facts}, language)
