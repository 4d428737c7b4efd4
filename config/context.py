"""The template context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static

from config import branding, languages


def service(request: HttpRequest) -> dict[str, Any]:
    """The service's name, links and brand, the request's reference in the log, and the languages."""
    own = branding.files(settings.SERVICE_LOGO, settings.SERVICE_COLOR)
    brand = {
        "mark": {"url": own["mark"].url, "type": own["mark"].content_type}
        if "mark" in own
        else {"url": static("img/mark.svg"), "type": "image/svg+xml"},
        "has_logo": settings.SERVICE_LOGO is not None,
        "stylesheet": own["stylesheet"].url if "stylesheet" in own else "",
    }
    links = {"privacy_url": settings.PRIVACY_URL, "terms_url": settings.TERMS_URL}
    return {
        "service": {"name": settings.SERVICE_NAME, **links, **brand},
        "reference": getattr(request, "reference", ""),
        **languages.switcher(request),
    }
