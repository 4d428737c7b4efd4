"""Tell applications that a sign-in has ended, for whatever reason. OpenID Connect Back-Channel Logout 1.0.

A thread of each worker searches for ended sign-ins and tells the applications. The thread repeats a notice until the
application accepts the notice or TRIED_FOR has passed. E-mails have another thread, so that no e-mail waits for a slow
application.
"""

from __future__ import annotations

import logging
import ssl
import time
from datetime import timedelta
from http.client import HTTPException

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import Error
from django.utils import timezone

from config.infrastructure import events, outgoing_requests, work_queue
from config.infrastructure.events import Event
from oauth_bridge.activity_models import Outcome, Step
from oauth_bridge.models import Application, ApplicationSession
from oauth_bridge.protocol import logout_token
from oauth_bridge.storage import activity, activity_counts, application_sessions
from oauth_bridge.storage.activity import Record

logger = logging.getLogger(__name__)

# A process claims a row for this time, which is longer than an attempt with a DNS lookup.
LEASE = timedelta(minutes=1)
SECONDS = 10.0  # the time limit of an attempt
LONGEST_PAUSE = timedelta(hours=1)
TRIED_FOR = timedelta(hours=24)
LOOK_EACH_SECONDS = 4.0  # the time between two searches; shorter than the thread's pause
# Searches take at most this share of a process's time, even when many people sign out.
LOOKING_SHARE = 0.05
# An application that takes longer than SLOW_SECONDS to answer is told after all others.
SLOW_SECONDS = 1.0
# The causes that concern the address of the application, not a single sign-in.
OF_THE_ADDRESS = frozenset({"logout_address_internal", "logout_unreachable", "logout_timed_out", "logout_tls_failed"})

_earliest_look = _next_look = 0.0
# The primary keys of slow and unreachable applications, each with a monotonic time. No notice is sent to an application
# before its time, because each attempt would delay the notices to other applications.
_behind: dict[int, float] = {}
_thread: work_queue.Worker | None = None


def tell_next() -> bool:
    """Mark ended sign-ins, claim one and try to tell its application. Returns False if there is nothing to claim."""
    _look()
    row = _claim()
    if row is None:
        return False
    application = Application.objects.filter(pk=row.application_id, is_enabled=True).first()
    if application is None or not application.backchannel_logout_uri:
        application_sessions.give_up(row)
        return True
    cause, status = _timed_attempt(row, application)
    if cause:
        _failed(row, application, cause, status)
    else:
        application_sessions.told(row)
        events.write(Event.LOGOUT_TOLD, client_id=application.client_id, person=row.user_id)
        activity_counts.count(timezone.now(), application.client_id, Step.LOGOUT, Outcome.SUCCEEDED)
    return True


def start() -> None:
    """Start the thread. Call this function once in each process, after the fork."""
    global _thread
    _thread = work_queue.Worker("logout", tell_next)
    _thread.start()


def stop() -> None:
    if _thread:
        _thread.stop()


def wake() -> None:
    """Wake the thread, because a sign-in has just ended in this process."""
    global _next_look
    _next_look = _earliest_look
    if _thread:
        _thread.wake()


def _look() -> None:
    global _earliest_look, _next_look
    began = time.monotonic()
    if began < _next_look:
        return
    number = application_sessions.end_gone()
    ended = time.monotonic()
    _earliest_look = ended + (ended - began) / LOOKING_SHARE
    has_more = number == application_sessions.ENDED_AT_ONCE
    _next_look = _earliest_look if has_more else max(_earliest_look, ended + LOOK_EACH_SECONDS)


def _claim() -> ApplicationSession | None:
    """Claim a row of a fast application or, if there is none, of a slow application that may be told now."""
    now = time.monotonic()
    away = [application for application, until in _behind.items() if until > now]
    row = application_sessions.claim(LEASE, besides=_behind)
    return row or (application_sessions.claim(LEASE, besides=away) if len(away) < len(_behind) else None)


def _timed_attempt(row: ApplicationSession, application: Application) -> tuple[str, int]:
    """Run `_attempt`, and note whether the application is slow or unreachable."""
    began = time.monotonic()
    # This entry remains if `_attempt` raises an error.
    _behind[application.pk] = began + work_queue.FIRST_PAUSE.total_seconds()
    cause, status = _attempt(row, application)
    if cause not in OF_THE_ADDRESS:
        del _behind[application.pk]
    if cause not in OF_THE_ADDRESS and time.monotonic() - began > SLOW_SECONDS:
        _behind[application.pk] = 0.0
    return cause, status


def _attempt(row: ApplicationSession, application: Application) -> tuple[str, int]:
    """Send the notice. Returns the cause of a failure or "", and the status of the answer or 0."""
    try:
        token = logout_token.make(
            row.pk,
            person_id=row.user_id,
            client_id=application.client_id,
            algorithm=application.id_token_alg,
            now=int(time.time()),
        )
    except Error:  # the database is unavailable
        raise
    except Exception:  # a signing key is missing, or a key file cannot be read
        logger.exception("logout token not signed", extra={"client_id": application.client_id})
        return "logout_token_unsigned", 0
    address, allowed = application.backchannel_logout_uri, settings.BACKCHANNEL_NETWORKS
    try:
        status = outgoing_requests.post_form(address, {"logout_token": token}, seconds=SECONDS, allowed=allowed)
    except outgoing_requests.InternalAddress:
        return "logout_address_internal", 0
    except (outgoing_requests.TimedOut, TimeoutError):
        return "logout_timed_out", 0
    except ssl.SSLError:
        return "logout_tls_failed", 0
    except (OSError, HTTPException, UnicodeError):  # UnicodeError: the host is not a valid name
        return "logout_unreachable", 0
    if 300 <= status < 400:
        return "logout_redirected", status
    return ("" if status in (200, 204) else "logout_not_accepted"), status


def _failed(row: ApplicationSession, application: Application, cause: str, status: int) -> None:
    now = timezone.now()
    due_at = now + work_queue.pause(row.attempts, LONGEST_PAUSE)
    ended_at = row.ended_at or now
    log = {"client_id": application.client_id, "cause": cause, "status": status or None, "attempts": row.attempts}
    if due_at <= ended_at + TRIED_FOR:
        logger.warning("application not told of a sign-out, tried again later", extra=log)
        application_sessions.tell_later(row, due_at)
        return
    application_sessions.give_up(row)
    events.write(
        Event.LOGOUT_NOT_TOLD,
        client_id=application.client_id,
        person=row.user_id,
        cause=cause,
        attempts=row.attempts,
    )
    activity_counts.count(now, application.client_id, Step.LOGOUT, Outcome.FAILED, cause)
    is_known = get_user_model().objects.filter(pk=row.user_id).exists()
    record = Record(
        at=now,
        step=Step.LOGOUT,
        outcome=Outcome.FAILED,
        cause=cause,
        client_id=application.client_id,
        person_id=row.user_id if is_known else None,
        detail={"given": status} if status else {},
        is_proven=True,
    )
    activity.add(record, activity.PROVEN, activity.slot_of(activity.PROVEN, ""))
