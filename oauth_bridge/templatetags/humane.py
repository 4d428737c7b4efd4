"""Filters for times and numbers in the templates of the administration, and the comma of a list."""

from __future__ import annotations

import re

from django import template
from django.utils.translation import ngettext

from oauth_bridge import shown_lists, shown_times
from oauth_bridge.models import MISTYPED_CLIENT_ID

register = template.Library()

for name in (shown_times.ago, shown_times.clock, shown_times.until, shown_times.duration):
    register.filter(name.__name__, name)
register.simple_tag(shown_lists.comma)


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
