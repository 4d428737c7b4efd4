"""Read the installation's logo and colour from environment variables, and serve the files that show them."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from config import environment as env

LOGO_MAX_BYTES = 200 * 1024
LOGO_TYPES = {
    "svg": (re.compile(rb"(\xef\xbb\xbf)?\s*<(?=.*<svg\b|svg\b)", re.DOTALL), "image/svg+xml"),
    "png": (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    "webp": (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
}
# The CSP of an SVG that a browser opens as a document: styles apply, but scripts do not run.
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
MARK_COLOR = b"#17695d"
TEXT_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
WHITE = "#ffffff"


@dataclass(frozen=True)
class File:
    """A file whose URL contains a digest of its content. A changed file has a new URL, so caches may keep files."""

    content: bytes
    extension: str
    content_type: str

    @property
    def name(self) -> str:
        return f"{hashlib.sha256(self.content).hexdigest()[:32]}.{self.extension}"

    @property
    def url(self) -> str:
        return reverse("brand", args=[self.name])


def logo(name: str) -> File | None:
    """Read the picture whose path is the value of the variable `name`. Return None if the variable is unset."""
    path = env.raw(name)
    if not path:
        return None
    form = f"{name} must be the full path of an SVG, PNG or WebP picture of at most {LOGO_MAX_BYTES // 1024} kB"
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ImproperlyConfigured(f"{form} ({error.strerror}).") from None
    for extension, (start, content_type) in LOGO_TYPES.items():
        if path.startswith("/") and len(content) <= LOGO_MAX_BYTES and start.match(content):
            return File(content, extension, content_type)
    raise ImproperlyConfigured(f"{form}.")


def color(name: str) -> str:
    value = env.raw(name).lower()
    if value and not re.fullmatch("#[0-9a-f]{6}", value):
        raise ImproperlyConfigured(f"{name} must be # and six hexadecimal digits, such as #0d5a4d.")
    return value


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio (1 to 21, WCAG 2.2) of two colours such as "#17695d"."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    parts = [part / 255 for part in bytes.fromhex(color[1:])]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@functools.cache
def files(logo: File | None, color: str) -> dict[str, File]:
    """Return files by name: "mark" (a picture) if a logo or a colour is set, and "stylesheet" if a colour is set."""
    found = {"mark": logo} if logo else {}
    if color:
        static = settings.BASE_DIR / "static"
        mark = (static / "img" / "mark.svg").read_bytes().replace(MARK_COLOR, color.encode())
        rules = (static / "css" / "service-color.css").read_bytes()
        sheet = b":root { --color-service: %s }\n%s" % (color.encode(), rules)
        found.setdefault("mark", File(mark, "svg", "image/svg+xml"))
        found["stylesheet"] = File(sheet, "css", "text/css; charset=utf-8")
    return found


def brand(request: HttpRequest, name: str) -> HttpResponse:
    for file in files(settings.SERVICE_LOGO, settings.SERVICE_COLOR).values():
        if file.name == name:
            response = HttpResponse(file.content, content_type=file.content_type)
            response["Cache-Control"] = "public, max-age=31536000, immutable"
            response["Content-Security-Policy"] = DRAWING_POLICY
            return response
    raise Http404
