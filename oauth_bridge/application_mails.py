"""E-mails about what happened between a person and an application. They are sent by `accounts.mail.outbox`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.sessions.user_agents import browser_name
from oauth_bridge.models import Application, Consent

if TYPE_CHECKING:
    from accounts.models import User


def consent_given(request: HttpRequest, person: User, application: Application, attempt: str) -> None:
    """Tell the person that they allowed the application, if no consent to it is stored yet.

    Call it before the consent is stored. A second post of the same consent page, `attempt`, sends nothing.
    """
    once = f"application_allowed {person.pk} {attempt}"
    if application.client_id.startswith(Application.TWIN):  # the administrator's own test
        return
    if Consent.objects.filter(user=person, application=application).exists() or outbox.is_known(once):
        return
    browser = browser_name(request.headers.get("User-Agent", ""))
    _tell("application_allowed", person, application.name, once, browser=browser, user_id=str(person.pk))


def code_replayed(person_id: UUID, application_id: int) -> None:
    """Tell the person that a code of theirs was sent twice and its token revoked. D13.

    At most once in `outbox.NOTICE_LIFETIME` for each person and application, however many codes are replayed.
    """
    once = f"code_replayed {person_id} {application_id}"
    if outbox.is_known(once):
        return
    person = get_user_model().objects.filter(pk=person_id, is_active=True, email_verified_at__isnull=False).first()
    name = Application.objects.filter(pk=application_id).values_list("name", flat=True).first()
    if person and name:
        _tell("code_replayed", person, name, once, language=person.language)


def _tell(kind: str, person: User, application: str, once: str, *, language: str = "", **context: Any) -> None:
    facts = {
        "now": timezone.now(),
        "nickname": person.display_name,
        "application": application,
        "applications_address": f"{settings.AUTH_URL}{reverse('connected_applications')}",
    }
    outbox.add_notice(kind, compose(kind, person.email, facts | context, language), once=once)
