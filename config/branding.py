"""The installation's own logo and colour: read from the environment, served as a picture and a style sheet.

The style sheet sets some of the colours of static/css/tokens.css anew, for light and dark pages.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

LOGO_MAX_BYTES = 200 * 1024
LOGO_TYPES = {
    "svg": (re.compile(rb"(\xef\xbb\xbf)?\s*<(?=.*<svg\b|svg\b)", re.DOTALL), "image/svg+xml"),
    "png": (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    "webp": (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
}
COLOR = re.compile("#[0-9a-f]{6}")
CACHE_SECONDS = 365 * 24 * 3600
# For a drawing that is opened by itself: it has its styles, and runs no script.
DRAWING_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"

# Contrasts of WCAG 2.2: 1.4.3 for text, 1.4.11 for the edge of a button.
TEXT_CONTRAST = 4.5
BUTTON_CONTRAST = 3.0
BLACK, WHITE = "#000000", "#ffffff"
# Of static/css/tokens.css: the backgrounds of text that contrast least with it.
LIGHT_PAGE = "#f2f1ec"
DARK_SURFACE, DARK_SUNKEN = "#181c1b", "#1f2423"
MARK_COLOR = b"#17695d"

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class File:
    """A file that is served under a digest of its content, so the content at a URL never changes."""

    content: bytes
    extension: str
    content_type: str

    @property
    def name(self) -> str:
        return f"{hashlib.sha256(self.content).hexdigest()[:32]}.{self.extension}"

    @property
    def url(self) -> str:
        return reverse("brand", args=[self.name])


# By path, as they were read last.
_logos: dict[str, File] = {}

# Variables -----------------------------------------------------------------------------------------------------------


def logo(name: str) -> File | None:
    """The picture at the path in the variable; None when it is not set.

    Raises ImproperlyConfigured: it is not a picture. One that was read before is kept then, with a warning: gunicorn
    ends altogether when a new worker can't start, and its first process, of which workers are copies, has read it.
    """
    path = os.environ.get(name, "").strip()
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
    """A colour as #rrggbb in lower case; empty when the variable is not set."""
    value = os.environ.get(name, "").strip().lower()
    if value and not COLOR.fullmatch(value):
        raise ImproperlyConfigured(f"{name} must be # and six hexadecimal digits, such as #0d5a4d.")
    return value


# Colours -------------------------------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21. WCAG 2.2."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def shifted(color: str, towards: str, ratio: float, *backgrounds: str) -> str:
    """The colour, mixed with as little of `towards` as gives it this contrast to all the backgrounds."""
    shades = (_mix(color, towards, percent / 100) for percent in range(0, 101, 2))
    return next((shade for shade in shades if all(contrast(shade, each) >= ratio for each in backgrounds)), towards)


def legible(color: str) -> str:
    """The colour, darkened until it can be read on white."""
    return shifted(color, BLACK, TEXT_CONTRAST, WHITE)


def _luminance(color: str) -> float:
    """From 0 (black) to 1 (white). WCAG 2.2, "relative luminance"."""
    parts = [part / 255 for part in bytes.fromhex(color[1:])]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _mix(color: str, other: str, share: float) -> str:
    """The colour with a share of the other, from 0 to 1."""
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(other[1:]), strict=True)
    return f"#{bytes(round(own + (its - own) * share) for own, its in pairs).hex()}"


def light(color: str) -> dict[str, str]:
    """The colours of light pages. Text is darkened where the page is darker than the card."""
    soft, own = _mix(WHITE, color, 0.1), _mix(WHITE, color, 0.06)
    accent = shifted(color, BLACK, TEXT_CONTRAST, LIGHT_PAGE, soft, own)
    return {
        "accent": accent,
        "accent-strong": _mix(accent, BLACK, 0.25),
        "accent-soft": soft,
        "fill": color,
        "fill-strong": _mix(color, BLACK, 0.25),
        "pass": own,
        "pass-line": _mix(WHITE, color, 0.22),
        "arches": f"{color}1f",
        "brand": color,
        "brand-deep": _mix(color, BLACK, 0.35),
        "brand-pale": _mix(WHITE, color, 0.15),
    }


def dark(color: str) -> dict[str, str]:
    """The colours of dark pages: lightened until text and the edges of buttons are seen."""
    soft, own = _mix(DARK_SURFACE, color, 0.2), _mix(DARK_SURFACE, color, 0.12)
    accent = shifted(color, WHITE, TEXT_CONTRAST, DARK_SUNKEN, soft, own)
    fill = shifted(color, WHITE, BUTTON_CONTRAST, DARK_SURFACE)
    return {
        "accent": accent,
        "accent-strong": _mix(accent, WHITE, 0.35),
        "accent-soft": soft,
        "fill": fill,
        "fill-strong": _mix(fill, BLACK, 0.2),
        "pass": own,
        "pass-line": _mix(DARK_SURFACE, color, 0.4),
        "arches": f"{accent}1c",
    }


def stylesheet(color: str) -> str:
    """CSS to follow static/css/tokens.css. The last rule repeats one of that file, which this one overrides."""
    rules = {
        "all": light(color),
        "(prefers-color-scheme: dark)": dark(color),
        "(prefers-contrast: more)": {"pass": "var(--color-surface)", "pass-line": "var(--color-ink)"},
    }
    return "".join(
        f"@media {condition} {{\n  :root {{\n"
        + "".join(f"    --color-{name}: {value};\n" for name, value in colors.items())
        + "  }\n}\n"
        for condition, colors in rules.items()
    )


# Pages ---------------------------------------------------------------------------------------------------------------


@functools.cache
def files(logo: File | None, color: str) -> dict[str, File]:
    """What pages need in place of files in `static`: "mark", a logo or our mark in that colour, and "stylesheet"."""
    found = {}
    if color:
        mark = (settings.BASE_DIR / "static" / "img" / "mark.svg").read_bytes()
        found["mark"] = File(mark.replace(MARK_COLOR, color.encode()), "svg", "image/svg+xml")
        found["stylesheet"] = File(stylesheet(color).encode(), "css", "text/css; charset=utf-8")
    if logo:
        found["mark"] = logo
    return found


def brand(request: HttpRequest, name: str) -> HttpResponse:
    """The logo or the style sheet. Public and cacheable."""
    for file in files(settings.SERVICE_LOGO, settings.SERVICE_COLOR).values():
        if file.name == name:
            response = HttpResponse(file.content, content_type=file.content_type)
            response["Cache-Control"] = f"public, max-age={CACHE_SECONDS}, immutable"
            response["Content-Security-Policy"] = DRAWING_POLICY
            return response
    raise Http404
