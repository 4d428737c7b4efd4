"""Show times on pages, in UTC. The script `page.js` replaces them with times in the reader's time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from django import template
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, pgettext

from accounts.audit_trail import TIME_FORMAT

register = template.Library()

DAY = timedelta(days=1)
_STORED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC")


@register.simple_tag
def comma() -> str:
    return pgettext("between two parts of a list", ", ")


@register.filter
def moment(at: datetime) -> SafeString:
    """Return date and time as HTML, such as 22 November 2026, 17:05 UTC."""
    return _element(at, f"{_text(at, 'H:i')} UTC")


@register.filter
def ago(at: datetime) -> SafeString:
    """Return the time since `at` as HTML, such as 3 hours ago. After a day, return the result of `moment`."""
    since = timezone.now() - at
    if since >= DAY:
        return moment(at)
    if (minutes := since // timedelta(minutes=1)) < 1:
        return _element(at, _("just now"))
    if minutes < 60:
        text = ngettext("%(count)d minute ago", "%(count)d minutes ago", minutes) % {"count": minutes}
    else:
        hours = minutes // 60
        text = ngettext("%(count)d hour ago", "%(count)d hours ago", hours) % {"count": hours}
    return _element(at, text)


@register.filter
def moments(text: object) -> SafeString:
    """Return the text as HTML, escaped unless it is safe. Show each time of the form TIME_FORMAT as `moment` does."""
    return SafeString(_STORED.sub(lambda found: _of_stored(found[0]), conditional_escape(str(text))))


def _of_stored(text: str) -> str:
    try:
        return moment(datetime.strptime(text, TIME_FORMAT).replace(tzinfo=UTC))
    except ValueError:  # somebody typed it
        return text


def _text(at: datetime, time_format: str) -> str:
    at = at.astimezone(UTC)
    return f"{date_format(at, 'DATE_FORMAT')}{comma()}{date_format(at, time_format)}"


def _element(at: datetime, text: str) -> SafeString:
    stamp = f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"  # %Y would not pad the year 1
    return format_html('<time datetime="{}" title="{} UTC">{}</time>', stamp, _text(at, "H:i:s"), text)
