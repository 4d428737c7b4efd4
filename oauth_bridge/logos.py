"""The applications' logos: re-encoded on the way in, public and cacheable on the way out."""

from __future__ import annotations

import hashlib
import re

from django.conf import settings
from django.core.files.base import ContentFile, File
from django.core.files.storage import default_storage
from django.http import FileResponse, Http404, HttpRequest, HttpResponseBase
from django.urls import reverse

from accounts.avatars import reencode
from oauth_bridge.models import Application

NAME = re.compile(r"[0-9a-f]{32}\.png")
CACHE_SECONDS = 365 * 24 * 3600


def store(application: Application, upload: File[bytes]) -> None:
    """Set the logo, without saving the application. Raises ValidationError: the file is not a picture we take."""
    picture = reencode(upload)
    name = f"{hashlib.sha256(picture).hexdigest()[:32]}.png"
    if not default_storage.exists(f"logos/{name}"):
        default_storage.save(f"logos/{name}", ContentFile(picture))
    application.logo = name


def logo_url(application: Application) -> str:
    """Absolute, or an empty string when the application has none."""
    return f"{settings.BASE_URL}{reverse('logo', args=[application.logo])}" if application.logo else ""


def logo(request: HttpRequest, name: str) -> HttpResponseBase:
    """The picture. Its name is the digest of what is in it, so it never changes."""
    if not NAME.fullmatch(name) or not default_storage.exists(f"logos/{name}"):
        raise Http404
    response = FileResponse(default_storage.open(f"logos/{name}"), content_type="image/png")
    response["Cache-Control"] = f"public, max-age={CACHE_SECONDS}, immutable"
    return response
