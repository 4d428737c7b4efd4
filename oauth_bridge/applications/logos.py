"""Store and serve the logos of applications. Logos are public."""

from __future__ import annotations

import re
import uuid

from django.http import Http404, HttpRequest, HttpResponse

from accounts.models import StoredPicture
from oauth_bridge.models import Application

NAME = re.compile(r"[0-9a-f]{32}\.png")
CACHE_SECONDS = 365 * 24 * 3600


def replace(application: Application, picture: bytes | None) -> None:
    """Replace the logo by `picture`, already re-encoded. None removes the logo. The caller saves the application."""
    StoredPicture.objects.filter(name=f"logos/{application.logo}").delete()
    application.logo = f"{uuid.uuid4().hex}.png" if picture else ""
    if picture:
        StoredPicture.objects.create(name=f"logos/{application.logo}", content=picture)


def logo(request: HttpRequest, name: str) -> HttpResponse:
    """Serve a logo. Browsers may keep a logo for a year, because a changed logo gets a new name."""
    picture = StoredPicture.read(f"logos/{name}") if NAME.fullmatch(name) else None
    if picture is None:
        raise Http404
    response = HttpResponse(picture, content_type="image/png")
    response["Cache-Control"] = f"public, max-age={CACHE_SECONDS}, immutable"
    return response
