"""Store and serve the logos of applications. Logos are public and cacheable."""

from __future__ import annotations

import hashlib
import re

from django.http import Http404, HttpRequest, HttpResponse

from accounts.pictures import stored_pictures
from oauth_bridge.models import Application

NAME = re.compile(r"[0-9a-f]{32}\.png")
CACHE_SECONDS = 365 * 24 * 3600


def store(application: Application, picture: bytes) -> None:
    """Store a picture that `reencode` returned, and set it as the logo. The application is not saved."""
    name = f"{hashlib.sha256(picture).hexdigest()[:32]}.png"
    stored_pictures.store(f"logos/{name}", picture)
    application.logo = name


def logo_url(application: Application) -> str:
    """The absolute URL of the logo; an empty string when the application has none."""
    return application.logo_url


def logo(request: HttpRequest, name: str) -> HttpResponse:
    """Serve a logo. The file name is a digest of the content, so the picture at a URL never changes."""
    if not NAME.fullmatch(name):
        raise Http404
    picture = stored_pictures.read(f"logos/{name}")
    if picture is None:
        if Application.objects.filter(logo=name).exists():
            stored_pictures.warn_missing(f"logos/{name}")
        raise Http404
    response = HttpResponse(picture, content_type="image/png")
    response["Cache-Control"] = f"public, max-age={CACHE_SECONDS}, immutable"
    return response
