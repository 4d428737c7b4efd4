"""Format times for pages. Times of day are in UTC."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

DAY = timedelta(days=1)


def time_since(moment: datetime) -> str:
    """Return the time since `moment` in the largest unit.

    Pages show this text rather than a time of day, because UTC is the wrong time zone for most people.
    """
    minutes = (timezone.now() - moment) // timedelta(minutes=1)
    if minutes < 1:
        return _("just now")
    if minutes < 60:
        return ngettext("%(count)d minute ago", "%(count)d minutes ago", minutes) % {"count": minutes}
    if (hours := minutes // 60) < 24:
        return ngettext("%(count)d hour ago", "%(count)d hours ago", hours) % {"count": hours}
    days = hours // 24
    return ngettext("%(count)d day ago", "%(count)d days ago", days) % {"count": days}


def ago(at: datetime) -> str:
    """Return the time since `at` if it is less than a day; otherwise the date."""
    return time_since(at) if timezone.now() - at < DAY else date_format(at, "SHORT_DATE_FORMAT")


def clock(at: datetime) -> str:
    """Return the time of day, with the date if `at` is not today."""
    time = at.strftime("%H:%M:%S")
    return time if at.date() == timezone.now().date() else f"{date_format(at, 'MONTH_DAY_FORMAT')}, {time[:5]}"


def until(at: datetime) -> str:
    """Return the time until `at` in hours or days."""
    left = at - timezone.now()
    if left < DAY:
        hours = max(1, left // timedelta(hours=1))
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", left.days) % {"count": left.days}


def duration(seconds: float) -> str:
    """Return the duration as minutes and seconds, such as 0:09."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"
