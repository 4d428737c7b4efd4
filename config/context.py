"""What every page may say about the service."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest


def service(request: HttpRequest) -> dict[str, Any]:
    return {"service": {"name": settings.SERVICE_NAME}, "reference": getattr(request, "reference", "")}
