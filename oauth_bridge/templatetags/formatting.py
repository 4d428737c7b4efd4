"""Format times, numbers and lists for pages, as functions and as filters of templates. Times of day are in UTC."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from oauth_bridge.models import MISTYPED_CLIENT_ID

register = template.Library()

DAY = timedelta(days=1)


@register.simple_tag
def comma() -> str:
    """Return the comma between two parts of a list, with the space that the language puts after it."""
    return pgettext("between two parts of a list", ", ")


def listed(parts: Iterable[str]) -> str:
    """Return the parts with a comma between each two."""
    return comma().join(parts)


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


@register.filter
def ago(at: datetime) -> str:
    """Return the time since `at` if it is less than a day; otherwise the date."""
    return time_since(at) if timezone.now() - at < DAY else date_format(at, "SHORT_DATE_FORMAT")


@register.filter
def clock(at: datetime) -> str:
    """Return the time of day, with the date if `at` is not today."""
    time = at.strftime("%H:%M:%S")
    return time if at.date() == timezone.now().date() else f"{date_format(at, 'MONTH_DAY_FORMAT')}, {time[:5]}"


@register.filter
def until(at: datetime) -> str:
    """Return the time until `at` in hours or days."""
    left = at - timezone.now()
    if left < DAY:
        hours = max(1, left // timedelta(hours=1))
        return ngettext("%(count)d hour", "%(count)d hours", hours) % {"count": hours}
    return ngettext("%(count)d day", "%(count)d days", left.days) % {"count": left.days}


@register.filter
def duration(seconds: float) -> str:
    """Return the duration as minutes and seconds, such as 0:09."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


@register.filter
def unlocalized(number: float) -> str:
    """Return the number with a decimal point, as SVG needs it."""
    return str(round(number, 1))


@register.filter
def masked_value(value: str) -> str:
    """Return the recorded value. If only the length was recorded, return a sentence with the length.

    A recorded value of digits only is a client_id.
    """
    if value.isdigit() and not re.fullmatch(MISTYPED_CLIENT_ID, value):
        number = int(value)
        return ngettext("masked, %(count)d character", "masked, %(count)d characters", number) % {"count": number}
    return value
