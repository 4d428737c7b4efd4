"""The listing of `manage.py application activity`: records and their advice. Contract; D24."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandError
from django.db import connection
from django.utils import timezone

from accounts.email_addresses import looked_up_email
from oauth_bridge.activity import reading
from oauth_bridge.activity.reading import MOST, OPERATOR, Filters, described
from oauth_bridge.management.secret_commands import duration
from oauth_bridge.models.activity import ActivityRecord, Step

FOLLOW_SECONDS = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("client_id", nargs="?", default="", help="of one application")
    parser.add_argument("--cause", default="", help="such as secret_wrong")
    parser.add_argument("--step", default="", choices=["", *Step], metavar="STEP", help=", ".join(Step))
    parser.add_argument("--address", default="", help="a network address, or a person's e-mail address")
    parser.add_argument("--reference", default="", help="that of an error page, an error_description or the log")
    parser.add_argument("--since", default="", metavar="TIME", help="30m, 24h, 7d, or a time such as 2026-11-23T16:00Z")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help=f"100 unless given, at most {MOST}")
    parser.add_argument("--follow", action="store_true", help="go on printing what happens; Ctrl-C ends it")


def filters_of(options: dict[str, Any]) -> Filters:
    """Return the filters that the options choose. Raises CommandError: an option is malformed."""
    if not 1 <= options["limit"] <= MOST:
        raise CommandError(f"--limit is a number from 1 to {MOST}.")
    names = ("client_id", "cause", "step", "reference", "limit")
    who = looked_up_email(options["address"]) or options["address"]
    return Filters(who=who, since=_since(options["since"]), **{name: options[name] for name in names})


def _since(text: str) -> datetime | None:
    if not text:
        return None
    if (ago := duration(text)) is not None:
        return timezone.now() - ago
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(
            "--since is a number and a unit, m, h or d, such as 24h, or a time such as 2026-11-23T16:00Z."
        ) from None
    return given if given.tzinfo else given.replace(tzinfo=UTC)


def line(entry: ActivityRecord) -> str:
    """Format an entry for a terminal: the facts, then the advice."""
    at, cause = f"{entry.at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC", f": {entry.cause}" if entry.cause else ""
    parts = [
        f"{at}  {entry.reference or '-':8}  {entry.step} {entry.outcome}{cause}",
        " ".join(str(each) for each in (entry.client_id, entry.person_id, entry.address) if each),
    ]
    if sent := entry.detail.get("sent"):
        differs = ", ".join(entry.detail.get("differs", ()))
        parts.append(f"sent {sent}; nearest {entry.detail.get('nearest') or 'none'} ({differs})")
    if fix := reading.fix(entry, OPERATOR):
        parts.append(f"Fix: {fix}")
    return "\n    ".join(parts)


def nothing(filters: Filters) -> str:
    """Return the text for a listing without entries."""
    if not filters.reference:
        return "Nothing is recorded."
    return (
        "Nothing is recorded with this reference: the record is deleted, or was one of very many refusals in an hour,"
        " of which only the first have one. The log of the service has every reference."
    )


def follow(filters: Filters) -> Iterator[ActivityRecord]:
    """Yield the present entries, oldest first, then each new entry. This generator never ends."""
    found = reading.entries(filters)
    latest = max((entry.id for entry in found), default=reading.latest_id())
    while True:
        yield from reversed(found)
        time.sleep(FOLLOW_SECONDS)
        connection.close_if_unusable_or_obsolete()
        found = reading.entries(replace(filters, since=None, after_id=latest, limit=MOST))
        latest = max((entry.id for entry in found), default=latest)


def text_of(entry: ActivityRecord, *, as_json: bool) -> str:
    return json.dumps(described(entry, OPERATOR), ensure_ascii=False) if as_json else line(entry)
