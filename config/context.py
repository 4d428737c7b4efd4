"""The template context of every page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from accounts import returning

# Which application asked for the sign-in, and the query that keeps this in links. Read only where a page shows them,
# because the error page must not read the session.
_WAY: dict[str, Callable[[HttpRequest], Any]] = {"caption": returning.caption, "return_query": returning.query}


def service(request: HttpRequest) -> dict[str, Any]:
    """The service's name and links, the application on the way to which the page is, and the reference in the log."""
    links = {"privacy_url": settings.PRIVACY_URL, "terms_url": settings.TERMS_URL}
    way = {name: SimpleLazyObject(partial(read, request)) for name, read in _WAY.items()}
    return way | {"service": {"name": settings.SERVICE_NAME, **links}, "reference": getattr(request, "reference", "")}
