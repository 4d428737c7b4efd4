"""Compose e-mails from the templates `account/email/NAME_subject.txt` and `account/email/NAME_message.txt`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from accounts import audit_trail
from accounts.mail import outbox
from accounts.mail.outbox import Email
from accounts.models import User
from accounts.sessions import user_agents
from config.infrastructure.network import client_address

_SIGNATURE = "-- "  # RFC 3676 §4.3


def compose(name: str, to: str, context: dict[str, Any], language: str = "") -> Email:
    common = {
        "email": to,
        "service_name": settings.SERVICE_NAME,
        "service_url": settings.AUTH_URL,
        "password_reset_address": f"{settings.AUTH_URL}{reverse('account_reset_password')}",
        "security_address": f"{settings.AUTH_URL}{reverse('security')}",
    }
    with translation.override(language or translation.get_language()):
        context = {**context, **common}
        subject = " ".join(render_to_string(f"account/email/{name}_subject.txt", context).split())
        text = render_to_string(f"account/email/{name}_message.txt", context).strip()
        html = render_to_string("account/email/_html.html", {"subject": subject, "paragraphs": list(paragraphs(text))})
    return Email(to, subject, text, html)


def paragraphs(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each paragraph. The kind is "link", "code", "signature" or ""."""
    # Only URLs of this service are links, because nicknames and names of applications may contain other URLs.
    own_url = re.compile(re.escape(settings.AUTH_URL) + r"(/\S*)?")
    body, _separator, signature = text.partition(f"\n{_SIGNATURE}\n")
    for block in re.split(r"\n\s*\n", body.strip("\n")):
        for is_link, lines in groupby(block.splitlines(), lambda line: own_url.fullmatch(line) is not None):
            if is_link:
                yield from (("link", line) for line in lines)
            else:
                part = "\n".join(lines)
                yield "code" if part.startswith("    ") else "", part.strip()
    if signature:
        yield "signature", signature.strip()


def new_browser(request: HttpRequest, person: User) -> None:
    today = f"{timezone.now():%Y-%m-%d}"
    names = [f"new_browser {person.pk} {today} {number}" for number in range(settings.NEW_BROWSER_MAILS_PER_DAY)]
    if free := outbox.unknown(names):
        tell(request, person, "new_browser", free[0])


def account_deleted(request: HttpRequest, person: User) -> None:
    kind = "account_deleted" if request.user.pk == person.pk else "account_deleted_by_administrator"
    if person.email_verified_at:  # otherwise its owner may be a stranger
        tell(request, person, kind, f"account_deleted {person.pk}")


def factors_removed(person: User) -> None:
    if person.email_verified_at:
        mail = compose("factors_removed", person.email, {"nickname": person.display_name}, person.language)
        outbox.add_notice("factors_removed", mail)


def address_corrected(person: User) -> None:
    outbox.add_notice("address_corrected", compose("address_corrected", person.email, {}, person.language))


def invitation(request: HttpRequest, person: User, url: str) -> str:
    """E-mail the URL to the person. Return the message that the next page shows."""
    context = {"invitation_url": url, "expires_at": person.invitation_ends_at}
    until = timezone.now() + timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT)
    mail = compose("invitation", person.email, context, person.language)
    outbox.send_now("invitation", mail, until, client_address(request), partial(report, request, until))
    return _("An invitation goes to %(email)s.") % {"email": person.email}


def tell(request: HttpRequest, person: User, kind: str, once: str = "", **facts: Any) -> None:
    with translation.override(person.language or translation.get_language()):
        browser = user_agents.browser_name(request.headers.get("User-Agent", ""))
        facts |= {"now": timezone.now(), "nickname": person.display_name, "browser": browser}
        outbox.add_notice(kind, compose(kind, person.email, facts), once=once)


def report(request: HttpRequest, expires_at: datetime, outcome: outbox.Outcome) -> None:
    if outcome is outbox.Outcome.LATER:
        text = _("The mail could not be sent yet. We keep trying until %(time)s.")
        messages.warning(request, text % {"time": f"{expires_at:{audit_trail.TIME_FORMAT}}"})
    elif outcome is outbox.Outcome.GIVEN_UP:
        messages.error(request, _("The mail could not be sent: the mail server of that address did not take it."))
    elif outcome is outbox.Outcome.ON_ITS_WAY:
        messages.info(request, _("The mail is on its way. It can take a few minutes."))
