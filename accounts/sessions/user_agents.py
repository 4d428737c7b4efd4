"""Find the browser and the operating system in the User-Agent header."""

from __future__ import annotations

from django.utils.translation import gettext as _

# In this order, because Edge also sends "Chrome", Chrome also sends "Safari", and Android also sends "Linux".
_FAMILIES = {
    "Edg": "Edge",
    "OPR/": "Opera",
    "SamsungBrowser": "Samsung Internet",
    "Firefox": "Firefox",
    "FxiOS": "Firefox",
    "Chrom": "Chrome",
    "CriOS": "Chrome",
    "Safari": "Safari",
}
_SYSTEMS = {
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Android": "Android",
    "Windows": "Windows",
    "CrOS": "ChromeOS",
    "Mac OS": "macOS",
    "Linux": "Linux",
}


def describe(header: str) -> str:
    """Return the browser and the system, such as `Firefox/Linux`. An unknown part is empty."""
    header = header[:500]
    return "/".join(
        next((name for sign, name in names.items() if sign in header), "") for names in (_FAMILIES, _SYSTEMS)
    )


def browser_name(header: str) -> str:
    return shown(describe(header))


def shown(description: str) -> str:
    """Return a result of `describe` in the active language, such as "Firefox on Linux"."""
    family, _separator, system = description.partition("/")
    if family and system:
        return _("%(browser)s on %(system)s") % {"browser": family, "system": system}
    return family or system or _("an unknown browser")
