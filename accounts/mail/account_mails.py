"""Compose e-mails about events of an account, and show a message on the next page if an e-mail is not sent yet.

The e-mails are in the person's language. `accounts.mail.outbox` sends them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest
from django.utils import timezone, translation
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from accounts.mail import outbox
from accounts.mail.composing import compose
from accounts.models import User
from accounts.sessions import user_agents


def new_browser(request: HttpRequest, person: User) -> None:
    """Tell the person about a sign-in with a new browser, unless the mails of today have reached their limit. E5."""
    today = f"{timezone.now():%Y-%m-%d}"
    names = [f"new_browser {person.pk} {today} {number}" for number in range(settings.NEW_BROWSER_MAILS_PER_DAY)]
    if free := outbox.unknown(names):
        tell(request, person, "new_browser", free[0])


def account_deleted(request: HttpRequest, person: User) -> None:
    """Tell the person about the deletion. An unconfirmed address gets no e-mail: its owner may be a stranger."""
    kind = "account_deleted" if request.user.pk == person.pk else "account_deleted_by_administrator"
    if person.email_verified_at:
        tell(request, person, kind, f"account_deleted {person.pk}")


def factors_removed(person: User) -> None:
    """Tell the person that an operator removed all second factors and passkeys, in a command or the administration."""
    if person.email_verified_at:
        mail = compose("factors_removed", person.email, {"nickname": person.display_name}, person.language)
        outbox.add_notice("factors_removed", mail)


def tell(request: HttpRequest, person: User, kind: str, once: str = "", **facts: Any) -> None:
    """Send the notice after the transaction is committed. If `once` names the event, send only one notice of it."""
    with translation.override(person.language or translation.get_language()):
        browser = user_agents.browser_name(request.headers.get("User-Agent", ""))
        facts |= {"now": timezone.now(), "nickname": person.display_name, "browser": browser}
        outbox.add_notice(kind, compose(kind, person.email, facts), once=once)


def report(request: HttpRequest, expires_at: datetime, outcome: outbox.Outcome) -> None:
    """If an e-mail with a code or link is not sent yet, show a message on the next page."""
    if outcome is outbox.Outcome.LATER:
        text = _("The mail could not be sent yet. We keep trying until %(time)s UTC.")
        messages.warning(request, text % {"time": date_format(expires_at, "TIME_FORMAT")})
    elif outcome is outbox.Outcome.GIVEN_UP:
        messages.error(request, _("The mail could not be sent: the mail server of that address did not take it."))
    elif outcome is outbox.Outcome.ON_ITS_WAY:
        messages.info(request, _("The mail is on its way. It can take a few minutes."))
