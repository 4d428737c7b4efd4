"""The template context of every page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.templatetags.static import static
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from accounts import return_path
from config import branding
from config.http import languages
from config.http.error_handlers import ACCOUNT_PAGES, REFUSED, REFUSED_FIELD_NAME
from config.infrastructure import network
from oauth_bridge.consent.pages import asking_application

SVG = "image/svg+xml"


def _refused(request: HttpRequest) -> str:
    if request.method != "GET" or not request.path.startswith(ACCOUNT_PAGES):  # other pages accept any query
        return ""
    text = REFUSED.get(request.GET.get(REFUSED_FIELD_NAME, ""))
    return _(text) if text else ""


# `caption` is the application that asked for the sign-in, `return_to` the checked `next`, `return_query` the query of a
# link to the next page. A template reads them only when it uses them: the error page must not read the session.
_WAY: dict[str, Callable[[HttpRequest], Any]] = {
    "caption": asking_application,
    "return_to": return_path.requested,
    "return_query": return_path.query,
    "refused": _refused,
}


def service(request: HttpRequest) -> dict[str, Any]:
    own = branding.files(settings.SERVICE_LOGO, settings.SERVICE_COLOR)
    mark = own.get("mark")
    return {
        "service": {
            "name": settings.SERVICE_NAME,
            "mark": {"url": mark.url if mark else static("img/mark.svg"), "type": mark.content_type if mark else SVG},
            "has_logo": settings.SERVICE_LOGO is not None,
            "stylesheet": own["stylesheet"].url if "stylesheet" in own else "",
            "privacy_url": settings.PRIVACY_URL,
            "terms_url": settings.TERMS_URL,
            "support_url": settings.SUPPORT_URL,
        },
        "reference": network.reference.get(),
        **{name: SimpleLazyObject(partial(read, request)) for name, read in _WAY.items()},
        **languages.switcher(request),
    }
