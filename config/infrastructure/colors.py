"""The contrast of two colours. A colour is a text of the form #rrggbb."""

from __future__ import annotations

TEXT_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
WHITE = "#ffffff"


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21. WCAG 2.2."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    """Return the relative luminance of the colour, from 0 (black) to 1 (white). WCAG 2.2."""
    parts = [part / 255 for part in bytes.fromhex(color[1:])]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
