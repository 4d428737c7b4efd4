"""The template context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

from config import languages


def service(request: HttpRequest) -> dict[str, Any]:
    """The service's name and links, the request's reference in the log, and the languages."""
    links = {"privacy_url": settings.PRIVACY_URL, "terms_url": settings.TERMS_URL}
    return {
        "service": {"name": settings.SERVICE_NAME, **links},
        "reference": getattr(request, "reference", ""),
        **languages.switcher(request),
    }
