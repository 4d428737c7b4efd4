"""Store each e-mail as a row until the mail server has accepted it, so a restart or an outage loses no e-mail. D15.

The transaction that causes an e-mail also writes its row, so no e-mail is sent after a rollback. The content may be a
credential, so it is encrypted under a key derived from SECRET_KEY, and deleted when the e-mail is sent or expires.

One thread of each worker sends e-mails in the order of `turn`. `turn` counts the earlier unsent e-mails of the same
requester (a client or a recipient). So a requester delays others by at most one connection to the server. E2.
"""

from __future__ import annotations

import enum
import hashlib
import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime
from queue import Empty, SimpleQueue
from smtplib import SMTPDataError, SMTPRecipientsRefused
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.db import transaction
from django.db.models import Count, F, Max, Min
from django.utils import timezone
from django.utils.crypto import salted_hmac

from accounts.mail.composing import Email
from accounts.models import OutgoingMail
from config.infrastructure import rate_limits, sealing, work_queue
from config.infrastructure.network import site_of
from config.infrastructure.rate_limits import Counter

logger = logging.getLogger(__name__)

# A thread claims a row for LEASE. An attempt takes less time: EMAIL_TIMEOUT plus the time of a DNS lookup.
LEASE = timedelta(minutes=3)
LONGEST_PAUSE = timedelta(hours=4)
LONGEST_PAUSE_WHILE_SOMEBODY_WAITS = timedelta(minutes=2)
NOTICE_LIFETIME = timedelta(days=3)
# The turn of a new row until `_queue` sets the turn. The row keeps LAST_TURN if the process ends before `_queue` runs.
LAST_TURN = 1_000_000_000
# A page waits at most PAGE_SECONDS for its e-mail. After a timeout, no page waits in the next PAUSE_OF_PAGES_SECONDS.
PAGE_SECONDS = 1.0
PAUSE_OF_PAGES_SECONDS = 30.0
PURPOSE = "accounts.outbox"


class Outcome(enum.Enum):
    """The result of an attempt to send."""

    SENT = enum.auto()
    LATER = enum.auto()  # another attempt follows
    GIVEN_UP = enum.auto()
    ON_ITS_WAY = enum.auto()  # the page does not wait any longer


def add_notice(kind: str, mail: Email, *, once: str = "", about: str = "", is_limited: bool = True) -> None:
    """Send the e-mail after the transaction is committed.

    `once` names the event. A second e-mail with the same name is not stored within NOTICE_LIFETIME, and not counted.
    The service sends a mailbox only the first e-mails of a kind and, if the e-mail is `about` an
    application, of the application. `is_limited` is False if nobody can cause many of the e-mails.
    """
    if once and is_known(once):
        return
    counters = [Counter("notice", f"{kind} {mail.to} {about}")]
    if about:
        counters.append(Counter("notice_of_all", f"{kind} {mail.to}"))
    if is_limited and rate_limits.attempt(*counters):
        return
    row = _row(kind, mail, timezone.now() + NOTICE_LIFETIME, mail.to, once=once)
    OutgoingMail.objects.bulk_create([row], ignore_conflicts=bool(once))
    transaction.on_commit(lambda: _queue(row, first_turn=1))


def is_known(once: str) -> bool:
    """Return whether a notice with the name `once` was stored within NOTICE_LIFETIME."""
    return not unknown([once])


def unknown(names: list[str]) -> list[str]:
    """Return the names for which no notice was stored within NOTICE_LIFETIME."""
    digests = {_digest(name): name for name in names}
    stored = OutgoingMail.objects.filter(once__in=list(digests)).values_list("once", flat=True)
    known = {bytes(digest) for digest in stored if digest}
    return [name for digest, name in digests.items() if digest not in known]


def send_now(kind: str, mail: Email, expires_at: datetime, address: str, report: Callable[[Outcome], None]) -> None:
    """After the transaction, send an e-mail for which a person waits, and call `report` with the outcome.

    Attempts end at `expires_at`, when the credential expires. If the process has no sending thread, as in development,
    the current thread sends the e-mail.
    """
    row = _row(kind, mail, expires_at, site_of(address) or address, holds_credential=True)
    is_here = _thread is None
    if is_here:
        row.due_at, row.attempts = timezone.now() + LEASE, 1
    row.save(force_insert=True)

    def send() -> Outcome:
        if not is_here:
            return _page.wait(row.pk, lambda: _queue(row, first_turn=0))
        _queue(row, first_turn=0)
        return _attempt(row)

    transaction.on_commit(lambda: report(send()))


def deliver_next() -> bool:
    """Claim a due e-mail and try to send it. Returns False if none is due."""
    row = work_queue.claim(OutgoingMail, LEASE)
    if row is None:
        return False
    outcome = _attempt(row)
    _page.tell(row.pk, outcome)
    return True


def drop_credentials() -> int:
    """Delete the e-mails with codes and links, and return their number."""
    return OutgoingMail.objects.filter(holds_credential=True).delete()[0]


def waiting() -> list[dict[str, Any]]:
    """Return the number of unsent e-mails of each kind, the time of the oldest, and the highest number of attempts."""
    rows = OutgoingMail.objects.exclude(sealed=b"").values("kind").order_by("kind")
    return list(rows.annotate(number=Count("pk"), oldest=Min("created_at"), attempts=Max("attempts")))


# The thread of a web worker ------------------------------------------------------------------------------------------

_thread: work_queue.Worker | None = None


def start() -> None:
    """Start the sending thread. Call this once in each worker process, after the fork."""
    global _thread
    _thread = work_queue.Worker("outbox", deliver_next)
    _thread.start()


def stop() -> None:
    if _thread:
        _thread.stop()


def wake() -> None:
    """Tell the sending thread of this process that an e-mail was committed.

    The threads of other processes find the e-mail at their next search.
    """
    if _thread:
        _thread.wake()


# The page that waits -------------------------------------------------------------------------------------------------


class Page:
    """Lets one page of a process wait for its e-mail, so that a slow mail server blocks at most one thread.

    After a wait without result, no page waits during the next PAUSE_OF_PAGES_SECONDS.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._is_free = threading.Lock()
        self._awaited: tuple[uuid.UUID, SimpleQueue[Outcome]] | None = None
        self._next_at = 0.0

    def wait(self, key: uuid.UUID, begin: Callable[[], None]) -> Outcome:
        """Call `begin`, which queues the row `key`. Return its outcome, or ON_ITS_WAY if no outcome arrives in time."""
        if self._clock() < self._next_at or not self._is_free.acquire(blocking=False):
            begin()
            return Outcome.ON_ITS_WAY
        outcomes: SimpleQueue[Outcome] = SimpleQueue()
        try:
            self._awaited = key, outcomes
            begin()
            return outcomes.get(timeout=PAGE_SECONDS)
        except Empty:
            self._next_at = self._clock() + PAUSE_OF_PAGES_SECONDS
            return Outcome.ON_ITS_WAY
        finally:
            self._awaited = None
            self._is_free.release()

    def tell(self, key: uuid.UUID, outcome: Outcome) -> None:
        if (awaited := self._awaited) and awaited[0] == key:
            awaited[1].put(outcome)


_page = Page()


def _queue(row: OutgoingMail, first_turn: int) -> None:
    """Set the turn of the row: `first_turn` plus the number of the requester's other unsent e-mails.

    After the commit, the count includes simultaneous e-mails, so at most one of them gets the lowest turn.
    """
    others = OutgoingMail.objects.filter(requester=row.requester).exclude(pk=row.pk).exclude(sealed=b"")
    OutgoingMail.objects.filter(pk=row.pk).update(turn=first_turn + others.count())
    wake()


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
    except Exception as error:  # an e-mail that cannot be sent must not block the others
        code = _refusal(error)
        due_at = min(timezone.now() + _pause(row, code), row.expires_at)
        is_last = bool(code) and due_at == row.expires_at
        log |= {"error": type(error).__name__, "smtp_code": code or None}
        logger.error("mail given up: it was refused" if is_last else "mail not sent, tried again later", extra=log)
        if is_last:
            return _give_up(row)
        OutgoingMail.objects.filter(pk=row.pk, attempts=row.attempts).update(due_at=due_at, turn=F("turn") + 1)
        return Outcome.LATER
    if row.once:  # the row without content prevents a second notice
        OutgoingMail.objects.filter(pk=row.pk).update(sealed=b"", due_at=row.expires_at)
    else:
        OutgoingMail.objects.filter(pk=row.pk).delete()
    return Outcome.SENT


def _give_up(row: OutgoingMail) -> Outcome:
    OutgoingMail.objects.filter(pk=row.pk).delete()
    return Outcome.GIVEN_UP


def _refusal(error: Exception) -> int:
    """Return the 5xx code with which the server refused the recipient or the content. For other errors, return 0."""
    codes = [0]
    if isinstance(error, SMTPRecipientsRefused):
        codes = [code for code, _text in error.recipients.values()]
    elif isinstance(error, SMTPDataError):
        codes = [error.smtp_code]
    return next((code for code in codes if code >= 500), 0)


def _pause(row: OutgoingMail, refusal: int) -> timedelta:
    """Return the time until the next attempt: 30 s, doubled after each attempt, or LONGEST_PAUSE after a refusal."""
    if refusal:
        return LONGEST_PAUSE  # a server rarely withdraws a refusal
    longest = LONGEST_PAUSE_WHILE_SOMEBODY_WAITS if row.holds_credential else LONGEST_PAUSE
    return work_queue.pause(row.attempts, longest)


def _message(row: OutgoingMail, mail: Email) -> EmailMultiAlternatives:
    """Return the message. The headers are the same at each attempt, so a mailbox recognizes a duplicate."""
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
    kind: str, mail: Email, expires_at: datetime, requester: str, *, once: str = "", holds_credential: bool = False
) -> OutgoingMail:
    now, key = timezone.now(), uuid.uuid4()
    sealed = sealing.seal(PURPOSE, json.dumps(mail).encode(), key.bytes)
    return OutgoingMail(
        id=key,
        kind=kind,
        requester=salted_hmac(PURPOSE, requester, algorithm="sha256").digest(),
        turn=LAST_TURN,
        sealed=sealed,
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
