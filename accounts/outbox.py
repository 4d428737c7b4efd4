"""E-mails are rows until the mail server has taken them: across restarts, and while the mail server is away. D15.

A row is written in the transaction of its cause, so a rollback sends nothing. Its content may be a credential: it is
encrypted with a key derived from SECRET_KEY, and deleted once it is sent or once the credential has expired.
"""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import Count, Max, Min
from django.utils import timezone

from accounts.emails import Email
from accounts.models import OutgoingMail
from config.infrastructure import leases, sealing

logger = logging.getLogger(__name__)

# Longer than an attempt: EMAIL_TIMEOUT applies to each of about ten steps of SMTP.
LEASE = timedelta(minutes=3)
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=4)
LONGEST_PAUSE_WHILE_SOMEBODY_WAITS = timedelta(minutes=2)
NOTICE_LIFETIME = timedelta(days=3)
_PURPOSE = "accounts.outbox"


class Outcome(enum.Enum):
    """The result of an attempt to send."""

    SENT = enum.auto()
    LATER = enum.auto()  # it is tried again
    GIVEN_UP = enum.auto()


def add_notice(kind: str, mail: Email, *, once: str = "") -> None:
    """Send the e-mail once the transaction is committed.

    `once` names the event. No second e-mail with that name is stored for NOTICE_LIFETIME.
    """
    row = _row(kind, mail, timezone.now() + NOTICE_LIFETIME, once=once)
    OutgoingMail.objects.bulk_create([row], ignore_conflicts=bool(once))
    transaction.on_commit(wake)


def is_known(once: str) -> bool:
    """Whether a notice with that name was stored within NOTICE_LIFETIME."""
    return OutgoingMail.objects.filter(once=_digest(once)).exists()


def send_now(kind: str, mail: Email, expires_at: datetime, report: Callable[[Outcome], None]) -> None:
    """Send an e-mail for which a person waits, after the transaction, in this thread. `report` gets the outcome.

    It is tried until `expires_at`, when the credential in it expires.
    """
    row = _row(kind, mail, expires_at, holds_credential=True)
    row.due_at, row.attempts = timezone.now() + LEASE, 1
    row.save(force_insert=True)
    transaction.on_commit(lambda: report(_attempt(row)))


def deliver_next() -> bool:
    """Claim an e-mail that is due and try to send it. False when none is due."""
    row = leases.claim(OutgoingMail, LEASE)
    if row is None:
        return False
    _attempt(row)
    return True


def drop_credentials() -> int:
    """Delete the e-mails with codes and links, and return their number."""
    return OutgoingMail.objects.filter(holds_credential=True).delete()[0]


def waiting() -> list[dict[str, Any]]:
    """For each kind of e-mail that waits: the number, the time of the oldest, and the most attempts."""
    rows = OutgoingMail.objects.exclude(sealed=b"").values("kind").order_by("kind")
    return list(rows.annotate(number=Count("pk"), oldest=Min("created_at"), attempts=Max("attempts")))


# The thread of a web worker ------------------------------------------------------------------------------------------

_thread: leases.Worker | None = None


def start() -> None:
    """Start the thread that sends, once in a process, after the fork."""
    global _thread
    _thread = leases.Worker("outbox", deliver_next)
    _thread.start()


def stop() -> None:
    if _thread:
        _thread.stop()


def wake() -> None:
    """Tell the thread of this process that an e-mail was committed. Others find it when they look next."""
    if _thread:
        _thread.wake()


# Attempts ------------------------------------------------------------------------------------------------------------


def _attempt(row: OutgoingMail) -> Outcome:
    log = {"mail": row.kind, "attempts": row.attempts}
    if row.expires_at <= timezone.now():
        if row.sealed:
            logger.error("mail given up: it has expired", extra=log)
        return _give_up(row)
    mail = _open(row)
    if mail is None:
        logger.error("mail given up: SECRET_KEY has changed", extra=log)
        return _give_up(row)
    try:
        _message(row, mail).send()
    except Exception as error:  # a mail that cannot be sent must not keep others from being sent
        code = _refusal(error)
        due_at = min(timezone.now() + _pause(row, code), row.expires_at)
        is_last = bool(code) and due_at == row.expires_at
        log |= {"error": type(error).__name__, "smtp_code": code or None}
        logger.error("mail given up: it was refused" if is_last else "mail not sent, tried again later", extra=log)
        if is_last:
            return _give_up(row)
        OutgoingMail.objects.filter(pk=row.pk, attempts=row.attempts).update(due_at=due_at)
        return Outcome.LATER
    if row.once:  # kept without its content, so that no second one is stored
        OutgoingMail.objects.filter(pk=row.pk).update(sealed=b"", due_at=row.expires_at)
    else:
        OutgoingMail.objects.filter(pk=row.pk).delete()
    return Outcome.SENT


def _give_up(row: OutgoingMail) -> Outcome:
    OutgoingMail.objects.filter(pk=row.pk).delete()
    return Outcome.GIVEN_UP


def _refusal(error: Exception) -> int:
    """The 5xx code with which the server refused this recipient or content; 0 for faults that concern every mail."""
    codes = [0]
    if isinstance(error, SMTPRecipientsRefused):
        codes = [code for code, _text in error.recipients.values()]
    elif isinstance(error, SMTPDataError):
        codes = [error.smtp_code]
    return next((code for code in codes if code >= 500), 0)


def _pause(row: OutgoingMail, refusal: int) -> timedelta:
    """30 s, doubled after each attempt; the longest pause at once after a refusal, which rarely changes."""
    if refusal:
        return LONGEST_PAUSE
    longest = LONGEST_PAUSE_WHILE_SOMEBODY_WAITS if row.holds_credential else LONGEST_PAUSE
    return min(FIRST_PAUSE * (1 << min(row.attempts - 1, 20)), longest)


def _message(row: OutgoingMail, mail: Email) -> EmailMultiAlternatives:
    """The same headers for each attempt, so that a mailbox can recognize one that arrives twice."""
    headers = {
        "Auto-Submitted": "auto-generated",
        "Date": format_datetime(row.created_at),
        "Message-ID": f"<{row.pk}@{urlsplit(settings.AUTH_URL).hostname}>",
    }
    message = EmailMultiAlternatives(mail.subject, mail.text, to=[mail.to], headers=headers)
    message.attach_alternative(mail.html, "text/html")
    return message


# Content -------------------------------------------------------------------------------------------------------------


def _row(
    kind: str, mail: Email, expires_at: datetime, *, once: str = "", holds_credential: bool = False
) -> OutgoingMail:
    now, key = timezone.now(), uuid.uuid4()
    sealed = sealing.seal(_PURPOSE, json.dumps(mail).encode(), key.bytes)
    return OutgoingMail(
        id=key,
        kind=kind,
        sealed=sealed,
        holds_credential=holds_credential,
        once=_digest(once) if once else None,
        created_at=now,
        due_at=now,
        expires_at=expires_at,
    )


def _open(row: OutgoingMail) -> Email | None:
    content = sealing.unseal(_PURPOSE, bytes(row.sealed), row.pk.bytes)
    return None if content is None else Email(*json.loads(content))


def _digest(once: str) -> bytes:
    return hashlib.sha256(once.encode()).digest()
