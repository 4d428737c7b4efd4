"""Calculate the contrast and the mixture of colours. A colour is a text of the form #rrggbb."""

from __future__ import annotations

TEXT_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
BLACK, WHITE = "#000000", "#ffffff"


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21. WCAG 2.2."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: str) -> float:
    """Return the relative luminance of the colour, from 0 (black) to 1 (white). WCAG 2.2."""
    parts = [part / 255 for part in bytes.fromhex(color[1:])]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def mix(color: str, other: str, percent: int) -> str:
    """Mix the colour with a share of `other`, as `color-mix(in srgb, color, other percent%)` in CSS does."""
    pairs = zip(bytes.fromhex(color[1:]), bytes.fromhex(other[1:]), strict=True)
    return f"#{bytes(round(own + (its - own) * percent / 100) for own, its in pairs).hex()}"


def shifted(color: str, towards: str, ratio: float, *backgrounds: str) -> str:
    """Mix the colour with the smallest share of `towards` that gives the contrast `ratio` to all backgrounds."""
    shades = (mix(color, towards, percent) for percent in range(0, 101, 2))
    return next((shade for shade in shades if all(contrast(shade, each) >= ratio for each in backgrounds)), towards)
