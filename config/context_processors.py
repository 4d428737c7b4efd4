"""The template context of every page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.utils.functional import SimpleLazyObject

from accounts import return_path
from config import branding
from config.http import languages
from config.infrastructure import references

# `caption` is the application that requested the sign-in. `return_query` is the query that links of a page pass to the
# next page. The values are read only when a template uses them, because the error page must not read the session.
_WAY: dict[str, Callable[[HttpRequest], Any]] = {"caption": return_path.caption, "return_query": return_path.query}


def service(request: HttpRequest) -> dict[str, Any]:
    """Return the name, links and brand of the service, and the reference, application and languages of the request."""
    own = branding.files(settings.SERVICE_LOGO, settings.SERVICE_COLOR)
    brand = {
        "mark": {"url": own["mark"].url, "type": own["mark"].content_type}
        if "mark" in own
        else {"url": static("img/mark.svg"), "type": "image/svg+xml"},
        "has_logo": settings.SERVICE_LOGO is not None,
        "stylesheet": own["stylesheet"].url if "stylesheet" in own else "",
    }
    links = {
        "privacy_url": settings.PRIVACY_URL,
        "terms_url": settings.TERMS_URL,
        "support_url": settings.SUPPORT_URL,
    }
    return {
        "service": {"name": settings.SERVICE_NAME, **links, **brand},
        "reference": references.current.get(),
        **{name: SimpleLazyObject(partial(read, request)) for name, read in _WAY.items()},
        **languages.switcher(request),
    }
