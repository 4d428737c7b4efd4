"""Read the logo and colour of the installation from the environment, and serve them as a picture and a style sheet.

The style sheet overrides some colours of static/css/tokens.css, for light and dark pages.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from string import Template

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from config import raw_variables
from config.infrastructure.colors import BLACK, TEXT_CONTRAST, WHITE, mix, shifted

LOGO_MAX_BYTES = 200 * 1024
LOGO_TYPES = {
    "svg": (re.compile(rb"(\xef\xbb\xbf)?\s*<(?=.*<svg\b|svg\b)", re.DOTALL), "image/svg+xml"),
    "png": (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    "webp": (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
}
COLOR = re.compile("#[0-9a-f]{6}")
CACHE_SECONDS = 365 * 24 * 3600
# The CSP of an SVG that a browser opens as a document: styles apply, but scripts do not run.
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"

BUTTON_CONTRAST = 3.0  # the least contrast of a button's edge. WCAG 2.2, 1.4.11
# The backgrounds in static/css/tokens.css that contrast least with text.
LIGHT_PAGE = "#f2f1ec"
DARK_SURFACE, DARK_SUNKEN = "#181c1b", "#1f2423"
# The background of a selected or hovered line contains this share of the colour, on light and on dark pages.
LIGHT_SOFT, DARK_SOFT = 10, 20  # percent
MARK_COLOR = b"#17695d"
# Pages load this style sheet after static/css/tokens.css. The first rule also overrides the high-contrast rule of
# tokens.css, so the last rule repeats the high-contrast rule.
STYLESHEET = Template("""\
:root {
  --color-accent: $light_accent;
  --color-accent-strong: color-mix(in srgb, $light_accent, black 25%);
  --color-accent-soft: color-mix(in srgb, white, $color $light_soft%);
  --color-fill: $color;
  --color-fill-strong: color-mix(in srgb, $color, black 25%);
  --color-pass: color-mix(in srgb, white, $color 6%);
  --color-pass-line: color-mix(in srgb, white, $color 22%);
  --color-arches: color-mix(in srgb, transparent, $color 12%);
  --color-brand: $color;
  --color-brand-deep: color-mix(in srgb, $color, black 35%);
  --color-brand-pale: color-mix(in srgb, white, $color 15%);
}
@media (prefers-color-scheme: dark) {
  :root {
    --color-accent: $dark_accent;
    --color-accent-strong: color-mix(in srgb, $dark_accent, white 35%);
    --color-accent-soft: color-mix(in srgb, var(--color-surface), $color $dark_soft%);
    --color-fill: $dark_fill;
    --color-fill-strong: color-mix(in srgb, $dark_fill, black 20%);
    --color-pass: color-mix(in srgb, var(--color-surface), $color 12%);
    --color-pass-line: color-mix(in srgb, var(--color-surface), $color 40%);
    --color-arches: color-mix(in srgb, transparent, $dark_accent 11%);
  }
}
@media (prefers-contrast: more) {
  :root {
    --color-pass: var(--color-surface);
    --color-pass-line: var(--color-ink);
  }
}
""")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class File:
    """A file whose URL contains a digest of its content, so the content at a URL never changes."""

    content: bytes
    extension: str
    content_type: str

    @property
    def name(self) -> str:
        return f"{hashlib.sha256(self.content).hexdigest()[:32]}.{self.extension}"

    @property
    def url(self) -> str:
        return reverse("brand", args=[self.name])


# The picture that this process last read from each path.
_logos: dict[str, File] = {}

# Variables -----------------------------------------------------------------------------------------------------------


def logo(name: str) -> File | None:
    """Return the picture at the path in the variable, or None if the variable is not set.

    Raises ImproperlyConfigured: the file is not a picture, and no picture was read from this path before. If a picture
    was read before, the function returns this picture and logs a warning. An exception would make gunicorn exit,
    because a new worker could not start. A new worker has the earlier picture, because the worker is a fork of
    gunicorn's master process.
    """
    path = raw_variables.value(name)
    if not path:
        return None
    try:
        _logos[path] = _picture(name, path)
    except ImproperlyConfigured as error:
        if path not in _logos:
            raise
        logger.warning("the former logo is shown", extra={"reason": str(error)})
    return _logos[path]


def _picture(name: str, path: str) -> File:
    form = f"{name} must be the full path of an SVG, PNG or WebP picture of at most {LOGO_MAX_BYTES // 1024} kB"
    try:
        with Path(path).open("rb") as file:
            content = file.read(LOGO_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ImproperlyConfigured(f"{form} ({getattr(error, 'strerror', None) or 'not a path'}).") from None
    for extension, (start, content_type) in LOGO_TYPES.items():
        if path.startswith("/") and len(content) <= LOGO_MAX_BYTES and start.match(content):
            return File(content, extension, content_type)
    raise ImproperlyConfigured(f"{form}.")


def color(name: str) -> str:
    """Return the colour as #rrggbb in lower case, or an empty text if the variable is not set."""
    value = raw_variables.value(name).lower()
    if value and not COLOR.fullmatch(value):
        raise ImproperlyConfigured(f"{name} must be # and six hexadecimal digits, such as #0d5a4d.")
    return value


# Colours -------------------------------------------------------------------------------------------------------------


def legible(color: str) -> str:
    """Darken the colour until text in this colour can be read on white."""
    return shifted(color, BLACK, TEXT_CONTRAST, WHITE)


def stylesheet(color: str) -> str:
    """Return CSS with the colour, darkened or lightened where text and button edges need more contrast."""
    light_soft, dark_soft = mix(WHITE, color, LIGHT_SOFT), mix(DARK_SURFACE, color, DARK_SOFT)
    return STYLESHEET.substitute(
        color=color,
        light_soft=LIGHT_SOFT,
        light_accent=shifted(color, BLACK, TEXT_CONTRAST, LIGHT_PAGE, light_soft),
        dark_soft=DARK_SOFT,
        dark_accent=shifted(color, WHITE, TEXT_CONTRAST, DARK_SUNKEN, dark_soft),
        dark_fill=shifted(color, WHITE, BUTTON_CONTRAST, DARK_SURFACE),
    )


# Pages ---------------------------------------------------------------------------------------------------------------


@functools.cache
def files(logo: File | None, color: str) -> dict[str, File]:
    """Return files that replace files in `static`: "mark" (the logo, or our mark in the colour) and "stylesheet"."""
    found = {}
    if color:
        mark = (settings.BASE_DIR / "static" / "img" / "mark.svg").read_bytes()
        found["mark"] = File(mark.replace(MARK_COLOR, color.encode()), "svg", "image/svg+xml")
        found["stylesheet"] = File(stylesheet(color).encode(), "css", "text/css; charset=utf-8")
    if logo:
        found["mark"] = logo
    return found


def brand(request: HttpRequest, name: str) -> HttpResponse:
    """Serve the logo or the style sheet, which caches may keep for a year."""
    for file in files(settings.SERVICE_LOGO, settings.SERVICE_COLOR).values():
        if file.name == name:
            response = HttpResponse(file.content, content_type=file.content_type)
            response["Cache-Control"] = f"public, max-age={CACHE_SECONDS}, immutable"
            response["Content-Security-Policy"] = DRAWING_POLICY
            return response
    raise Http404
