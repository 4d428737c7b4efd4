"""Format periods, numbers and lists for pages, as functions and as filters of templates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

from django import template
from django.utils.timesince import timeuntil
from django.utils.translation import ngettext

from accounts.templatetags.times import comma
from oauth_bridge.models.application import MISTYPED_CLIENT_ID

register = template.Library()


def listed(parts: Iterable[str]) -> str:
    """Return the parts with a comma between each two."""
    return comma().join(parts)


@register.filter
def until(at: datetime) -> str:
    """Return the time until `at` in its largest unit, such as 6 days."""
    return timeuntil(at, depth=1)


@register.filter
def duration(seconds: float) -> str:
    """Return the duration as minutes and seconds, such as 0:09."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


@register.filter
def masked_value(value: str) -> str:
    """Return the recorded value. If only the length was recorded, return a sentence with the length.

    A value of digits only is such a length, unless it has so many digits that it may be a mistyped client_id.
    """
    if value.isdigit() and not re.fullmatch(MISTYPED_CLIENT_ID, value):
        number = int(value)
        return ngettext("masked, %(count)d character", "masked, %(count)d characters", number) % {"count": number}
    return value
