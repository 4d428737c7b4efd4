"""The template context of every page."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def service(request: HttpRequest) -> dict[str, Any]:
    """The service's name, and the request's reference in the log."""
    return {"service": {"name": settings.SERVICE_NAME}, "reference": getattr(request, "reference", "")}
