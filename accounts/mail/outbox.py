"""Store e-mails in the database and send them from there, so that a restart or a short outage loses none.

The content is encrypted: it may contain a credential. The due e-mail with the lowest `turn` (see `_row`) is sent first.
"""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import threading
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime
from queue import Empty, SimpleQueue
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import Count, F, Max, Min
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.mail import smtp
from accounts.models import OutgoingMail
from config.infrastructure import rate_limits, sealing
from config.infrastructure.network import site_of
from config.infrastructure.rate_limits import Counter
from config.infrastructure.worker import Worker

logger = logging.getLogger(__name__)

LEASE = timedelta(minutes=3)  # a thread claims a row for this time; an attempt takes less
FIRST_PAUSE = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(hours=4)
LONGEST_PAUSE_WHILE_SOMEBODY_WAITS = timedelta(minutes=2)
NOTICE_LIFETIME = timedelta(days=3)
PAGE_SECONDS = 1.0  # a page waits at most so long for its e-mail
PURPOSE = "accounts.outbox"


class Email(NamedTuple):
    to: str
    subject: str
    text: str
    html: str


class Outcome(enum.Enum):
    SENT = enum.auto()
    LATER = enum.auto()  # another attempt follows
    GIVEN_UP = enum.auto()
    ON_ITS_WAY = enum.auto()  # the page does not wait any longer


def add_notice(kind: str, mail: Email, *, once: str = "", about: str = "", is_limited: bool = True) -> None:
    """Store an e-mail to be sent after the transaction, unless a rate limit is reached.

    `once`: an event for which at most one e-mail is sent in NOTICE_LIFETIME.
    `about`: the application that the e-mail is about. Each application has its own limit.
    """
    if once and not unknown([once]):
        return
    counters = [Counter("notice", f"{kind} {mail.to} {about}")]
    if about:
        counters.append(Counter("notice_of_all", f"{kind} {mail.to}"))
    if is_limited and rate_limits.attempt(*counters):
        return
    row = _row(kind, mail, timezone.now() + NOTICE_LIFETIME, mail.to, once=once)
    OutgoingMail.objects.bulk_create([row], ignore_conflicts=bool(once))
    transaction.on_commit(_wake)


def unknown(names: list[str]) -> list[str]:
    """Return the names for which no row is stored, not even of a sent e-mail. A name is a value of `once`."""
    digests = {_digest(name): name for name in names}
    stored = OutgoingMail.objects.filter(once__in=list(digests)).values_list("once", flat=True)
    known = {bytes(digest) for digest in stored if digest}
    return [name for digest, name in digests.items() if digest not in known]


def send_now(kind: str, mail: Email, expires_at: datetime, address: str, report: Callable[[Outcome], None]) -> None:
    """After the transaction, try to send the e-mail, and pass the outcome to `report`. `address`: the browser's IP."""
    row = _row(kind, mail, expires_at, site_of(address) or address, holds_credential=True)
    is_here = _thread is None  # as in development
    if is_here:
        row.due_at, row.attempts = timezone.now() + LEASE, 1
    row.save(force_insert=True)
    transaction.on_commit(lambda: report(_attempt(row) if is_here else _wait_for(row.pk)))


def deliver_next() -> bool:
    """Try to send one due e-mail. Return whether an e-mail was due."""
    row = claim()
    if row is None:
        return False
    outcome = _attempt(row)
    if (awaited := _awaited) and awaited[0] == row.pk:
        awaited[1].put(outcome)
    return True


def claim() -> OutgoingMail | None:
    """Return the due row with the lowest `turn`, or None. No other thread or process gets this row during LEASE."""
    now = timezone.now()
    due = OutgoingMail.objects.filter(due_at__lte=now).order_by("turn", "due_at")
    if not due.exists():  # on SQLite, the transaction below takes the write lock
        return None
    with transaction.atomic():
        row = due.select_for_update(skip_locked=True).first()
        if row:
            row.due_at, row.attempts = now + LEASE, row.attempts + 1
            row.save(update_fields=["due_at", "attempts"])
    return row


def waiting() -> list[dict[str, Any]]:
    rows = OutgoingMail.objects.exclude(sealed=b"").values("kind").order_by("kind")
    return list(rows.annotate(number=Count("pk"), oldest=Min("created_at"), attempts=Max("attempts")))


# The thread of a web worker, and the page that waits for it.
_thread: Worker | None = None
_awaited: tuple[uuid.UUID, SimpleQueue[Outcome]] | None = None
_one_page = threading.Lock()


def start() -> None:
    """Start the sending thread. Call this once in each worker process, after the fork."""
    global _thread
    _thread = Worker("outbox", deliver_next)
    _thread.start()


def stop() -> None:
    if _thread:
        _thread.stop()


def _wake() -> None:
    if _thread:
        _thread.wake()


def _wait_for(key: uuid.UUID) -> Outcome:
    global _awaited
    if not _one_page.acquire(blocking=False):
        _wake()
        return Outcome.ON_ITS_WAY
    try:
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        _awaited = key, outcomes
        _wake()
        return outcomes.get(timeout=PAGE_SECONDS)
    except Empty:
        return Outcome.ON_ITS_WAY
    finally:
        _awaited = None
        _one_page.release()


def _attempt(row: OutgoingMail) -> Outcome:
    rows, log = OutgoingMail.objects.filter(pk=row.pk), {"mail": row.kind, "attempts": row.attempts}
    is_expired = row.expires_at <= timezone.now()
    mail = None if is_expired else _open(row)
    if mail is None:
        if row.sealed:
            reason = "it has expired" if is_expired else "SECRET_KEY has changed"
            logger.error(f"mail given up: {reason}", extra=log)
        rows.delete()
        return Outcome.GIVEN_UP
    try:
        _message(row, mail).send()
    except Exception as error:  # an e-mail that cannot be sent must not block the others
        code = smtp.code_of(error)
        # A code such as 504, about the greeting, does not concern the recipient, but a setting of one of the servers.
        is_refused = isinstance(error, SMTPRecipientsRefused | SMTPDataError) and (code or 0) >= 550
        log |= {"error": type(error).__name__, "smtp_code": code}
        longest = LONGEST_PAUSE_WHILE_SOMEBODY_WAITS if row.holds_credential else LONGEST_PAUSE
        # A server rarely withdraws a refusal.
        due_at = timezone.now() + (
            LONGEST_PAUSE if is_refused else min(FIRST_PAUSE * (1 << min(row.attempts - 1, 20)), longest)
        )
        if is_refused and due_at >= row.expires_at:
            logger.error("mail given up: it was refused", extra=log)
            rows.delete()
            return Outcome.GIVEN_UP
        logger.error("mail not sent, tried again later", extra=log)
        rows.filter(attempts=row.attempts).update(due_at=min(due_at, row.expires_at), turn=F("turn") + 1)
        return Outcome.LATER
    if row.once:  # the row without content prevents a second notice
        rows.update(sealed=b"", due_at=row.expires_at)
    else:
        rows.delete()
    return Outcome.SENT


def _message(row: OutgoingMail, mail: Email) -> EmailMultiAlternatives:
    headers = {  # the same at each attempt, so a mailbox recognizes a duplicate
        "Auto-Submitted": "auto-generated",
        "Date": format_datetime(row.created_at),
        "Message-ID": f"<{row.pk}@{urlsplit(settings.AUTH_URL).hostname}>",
    }
    message = EmailMultiAlternatives(mail.subject, mail.text, to=[mail.to], headers=headers)
    message.attach_alternative(mail.html, "text/html")
    return message


def _row(
    kind: str, mail: Email, expires_at: datetime, requester: str, *, once: str = "", holds_credential: bool = False
) -> OutgoingMail:
    now, key = timezone.now(), uuid.uuid4()
    mark = salted_hmac(PURPOSE, requester, algorithm="sha256").digest()
    return OutgoingMail(
        id=key,
        kind=kind,
        requester=mark,
        # The more unsent e-mails a requester has, the later the next is sent, so nobody delays others' e-mails much.
        turn=OutgoingMail.objects.filter(requester=mark).exclude(sealed=b"").count() + (not holds_credential),
        sealed=sealing.seal(PURPOSE, json.dumps(mail).encode(), key.bytes),
        holds_credential=holds_credential,
        once=_digest(once) if once else None,
        created_at=now,
        due_at=now,
        expires_at=expires_at,
    )


def _open(row: OutgoingMail) -> Email | None:
    content = sealing.unseal(PURPOSE, bytes(row.sealed), row.pk.bytes)
    return None if content is None else Email(*json.loads(content))


def _digest(once: str) -> bytes:
    return hashlib.sha256(once.encode()).digest()
