"""Join the parts of a list as the active language does."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import pgettext


def comma() -> str:
    """Return the comma between two parts of a list, with the space that the language puts after it."""
    return pgettext("between two parts of a list", ", ")


def listed(parts: Iterable[str]) -> str:
    """Return the parts with a comma between each two."""
    return comma().join(parts)
